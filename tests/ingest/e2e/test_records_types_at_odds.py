"""Two schemas that call different things by one name meet in one table: every value is stored, rescued or quarantined."""

from __future__ import annotations

import json

import pytest
from tests.ingest.e2e.handmade import (
    EVENT,
    assert_each_record_in_one_place,
    column,
    quarantined,
    reasons,
    registered,
    registered_beside,
)
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import PolicyStopped

pytestmark = [pytest.mark.spark, pytest.mark.stack]

WIDER = EVENT.replace("int32 level", "int64 level")
TEXT = EVENT.replace("int32 level", "string level")
BIG = 2**40


def rescued(kit: PipelineKit) -> list[dict[str, object] | None]:
    return [text and json.loads(text) for text in column(kit, "chess", "_rescued_data")]


# Either policy with one of the two kinds of type, and the other pairs of them in `make test-heavy`.
@pytest.mark.parametrize(
    "policy",
    [
        "rescue",
        pytest.param("quarantine", marks=pytest.mark.heavy),
        pytest.param("widen", marks=pytest.mark.folder),
    ],
)
def test_a_wider_type_keeps_what_fits_and_the_policy_says_where_the_rest_goes(
    kit: PipelineKit, policy: str
) -> None:
    narrow, wide = registered(kit), registered_beside(kit, WIDER)
    kit.configured(policies={"wider_type": policy})
    kit.send([narrow.value(game="chess", level=1)])
    kit.run()
    kit.send([wide.value(game="chess", level=2), wide.value(game="chess", level=BIG)])
    kit.send([narrow.value(game="chess", level=3)])
    kit.run()

    if policy == "rescue":
        assert column(kit, "chess", "level") == [1, 2, None, 3]
        assert rescued(kit) == [None, None, {"level": BIG}, None]
    elif policy == "widen":
        # delta-rs reads no table of wider columns.
        table = kit.spark.read.format("delta").load(str(kit.root / kit.folder_of("chess")))
        levels = table.orderBy("kafka_offset").select("level")
        assert (levels.dtypes, "_rescued_data" in table.columns) == ([("level", "bigint")], False)
        assert [row["level"] for row in levels.collect()] == [1, 2, BIG, 3]
    else:
        assert column(kit, "chess", "level") == [1, 2, 3]
        assert [(row["kafka_offset"], row["reason"]) for row in quarantined(kit)] == [(2, "wider_type")]
    assert_each_record_in_one_place(kit)


@pytest.mark.parametrize("policy", [pytest.param("rescue", marks=pytest.mark.heavy), "quarantine"])
def test_an_incompatible_type_is_rescued_or_its_records_are_quarantined(
    kit: PipelineKit, policy: str
) -> None:
    number, text = registered(kit), registered_beside(kit, TEXT)
    kit.configured(policies={"incompatible_type": policy})
    kit.send([number.value(game="chess", player="a", level=1)])
    kit.run()
    kit.send([text.value(game="chess", player="b", level="high")])
    kit.send([number.value(game="chess", player="c", level=3)], partition=1)
    kit.run()

    if policy == "rescue":
        assert column(kit, "chess", "level") == [1, None, 3]
        assert rescued(kit) == [None, {"level": "high"}, None]
    else:
        assert column(kit, "chess", "player") == ["a", "c"]
        assert reasons(kit) == {"incompatible_type": 1}
        assert quarantined(kit)[0]["entity"] == "chess"
        assert "level" in quarantined(kit)[0]["detail"]
        assert "high" not in quarantined(kit)[0]["detail"]
    assert_each_record_in_one_place(kit)


def test_types_at_odds_in_the_first_batch_of_a_table_are_settled_between_its_tasks(kit: PipelineKit) -> None:
    number, text = registered(kit), registered_beside(kit, TEXT)
    kit.configured(policies={"incompatible_type": "rescue"})
    wide = registered_beside(kit, WIDER.replace("player", "gamer"))
    # Each task meets another type first and would make another table.
    kit.send([number.value(game="chess", level=n) for n in range(1, 4)], partition=0)
    kit.send([text.value(game="chess", level=str(n)) for n in range(1, 4)], partition=1)
    kit.send([wide.value(game="chess", level=BIG), number.value(game="chess", level=9)], partition=1)
    summary = kit.run().summary

    assert (summary.written, summary.quarantined) == (8, 0)
    stored = column(kit, "chess", "level")
    saved = [entry["level"] for entry in rescued(kit) if entry is not None]
    assert len([value for value in stored if value is not None]) + len(saved) == 8
    assert {str(value) for value in [*stored, *saved] if value is not None} == {"1", "2", "3", "9", str(BIG)}
    assert_each_record_in_one_place(kit)


# Lighter: test_a_policy_that_says_fail_stops_and_names_the_field (tests/ingest/conform/test_conversion.py), tests/ingest/worker/test_demux.py reports
# it, tests/ingest/batch/test_objections.py stops for it; a new entity that stops a run leaves nothing in test_records_entities.py.
@pytest.mark.heavy
@pytest.mark.parametrize("policy", ["wider_type", "incompatible_type"])
def test_fail_stops_before_anything_is_visible_and_names_the_field(kit: PipelineKit, policy: str) -> None:
    narrow = registered(kit)
    other = registered_beside(kit, WIDER if policy == "wider_type" else TEXT)
    kit.configured(policies={policy: "fail"})
    kit.send([narrow.value(game="chess", level=1)])
    kit.run()
    before = kit.versions()
    kit.send([narrow.value(game="chess", level=2), other.value(game="chess", level="7")])

    with pytest.raises(PolicyStopped, match=rf"{kit.folder_of('chess')}.*level.*policies.{policy}"):
        kit.run()

    assert kit.versions() == before
    assert kit.unnamed_files() == set()
