"""Rows that make room for what today's settings make of their records: in one commit a table, once whatever dies when; what bronze lacks stays."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from tests.ingest.e2e.handmade import quarantined, registered
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.test_bronze import send_mixed
from tests.ingest.e2e.test_replays_of_bronze import assert_clean, silver

from distributary.errors import ConfigError
from distributary.ingest import failpoints
from distributary.ingest.failpoints import Failpoint
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.quarantine.purging import Wish, purge
from distributary.ingest.rebuild.dry import lacking
from distributary.ingest.rebuild.silver import Replayed, replay
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]

# What decoding says of a record now, and did not when it was read: its level is another column, and of some levels nothing is wanted.
ANOTHER_RULE = [{"match": "*", "columns": {"rename": {"level": "height"}}}]


def replaced(
    kit: PipelineKit, chosen: Chosen | None = None, refused: Literal["keep", "quarantine"] = "keep"
) -> Replayed:
    return replay(kit.settings, chosen, spark=kit.spark, replace=True, refused=refused)


def place_of(row: dict[str, Any]) -> tuple[str, int, int]:
    return row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]


def every(kit: PipelineKit) -> Iterator[tuple[str, dict[str, Any]]]:
    return ((table, row) for table, rows in silver(kit).items() for row in rows)


def assert_clean_but_for_bronze(kit: PipelineKit) -> None:
    """A record was taken out of that, which is told, and nothing else is."""
    (found,) = verify(kit.settings).differences
    assert "in bronze" in found.detail


@pytest.fixture
def kept(kit: PipelineKit) -> PipelineKit:
    """A pipeline that has kept all kinds of records as they came, in several batches."""
    kit.configured(bronze={}, decode={"evolution": "inline"}, limits={"batch_rows": 11})
    send_mixed(kit)
    kit.run()
    return kit


def test_rows_are_those_of_todays_rules_and_stay_where_bronze_has_no_record(kept: PipelineKit) -> None:
    before, waiting = silver(kept), quarantined(kept)
    kept.delta("bronze").delete("kafka_partition = 0 and kafka_offset = 3")
    kept.configured(tables=ANOTHER_RULE)
    dry = lacking(kept.settings, replace=True)
    done = replaced(kept)
    assert dry.left == done.left == done.tables
    assert sum(done.tables.values()) == sum(map(len, before.values())) - 1
    after = silver(kept)
    assert {name: [place_of(row) for row in rows] for name, rows in after.items()} == {
        name: [place_of(row) for row in rows] for name, rows in before.items()
    }
    old = {place_of(row): row["level"] for rows in before.values() for row in rows}
    for _, row in every(kept):
        mine = (
            ("level", "height")
            if row["kafka_offset"] == 3 and row["kafka_partition"] == 0
            else ("height", "level")
        )
        assert row[mine[0]] == old[place_of(row)]
        assert row[mine[1]] is None
    assert quarantined(kept) == waiting
    assert_clean_but_for_bronze(kept)
    assert kept.unnamed_files() == set()
    # The pipeline goes on, and so does a replay of what is lacking.
    send_mixed(kept)
    kept.run()
    assert replay(kept.settings, spark=kept.spark).tables == {}
    assert_clean_but_for_bronze(kept)


# Where rows move, and some go to quarantine or nowhere, each step may be the last one.
@pytest.mark.parametrize(
    "point",
    [
        failpoints.BETWEEN_COMMITS,
        *(
            pytest.param(point, marks=pytest.mark.heavy)
            for point in (
                failpoints.BEFORE_MANIFEST,
                failpoints.AFTER_MANIFEST,
                failpoints.AMID_MERGE,
                failpoints.BEFORE_LEDGER,
            )
        ),
    ],
)
def test_rows_move_go_and_stay_once_wherever_it_ends(
    point: str, kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    kit.configured(bronze={}, limits={"commit_threads": 1})
    schema = registered(kit)
    kit.send([schema.value(game="chess", player="ab"[n % 2], level=n) for n in range(8)])
    kit.run()
    chess = kit.folder_of("chess")
    kit.configured(
        # Players are tables of their own now; some levels nobody wants, and others are to be looked at.
        route={"field": "player", "table": "of_{entity}"},
        tables=[
            {
                "match": "*",
                "expect": {
                    "low": {"condition": "level < 6", "otherwise": "drop"},
                    "not_three": {"condition": "level <> 3", "otherwise": "quarantine"},
                },
            }
        ],
    )
    fail_at(point)
    with pytest.raises(Failpoint):
        replaced(kit)
    fail_at()
    replaced(kit)
    levels = {name: [row["level"] for row in rows] for name, rows in silver(kit).items()}
    assert levels == {chess: [3], "of_a": [0, 2, 4], "of_b": [1, 5]}
    assert not quarantined(kit)
    assert_clean(kit)
    done = replaced(kit, refused="quarantine")
    assert done.left[chess] == 1
    assert [row["kafka_offset"] for row in quarantined(kit)] == [3]
    assert sum(len(rows) for rows in silver(kit).values()) == 5
    assert_clean(kit)
    assert kit.unnamed_files() == set()


# The same without a run is shown above.
@pytest.mark.heavy
def test_a_row_goes_to_quarantine_also_where_its_record_was_deleted_from_there_before(
    kit: PipelineKit,
) -> None:
    """As somebody purged it there, and a later replay gave it a row by other rules."""
    kit.configured(bronze={})
    schema = registered(kit)
    kit.send([schema.value(game="chess", player="a", level=n) for n in range(4)])
    expected = {"not_three": {"condition": "level <> 3", "otherwise": "quarantine"}}
    kit.configured(tables=[{"match": "*", "expect": expected}])
    kit.run()
    assert purge(kit.settings, Wish(Chosen(reasons=("expectation",)), open_too=True)).rows == 1
    kit.configured(tables=[])
    assert replay(kit.settings, spark=kit.spark).tables == {kit.folder_of("chess"): 1}
    kit.configured(tables=[{"match": "*", "expect": expected}])
    done = replaced(kit, refused="quarantine")
    assert (done.refused, done.left) == ({"expectation": 1}, {kit.folder_of("chess"): 4})
    assert [row["kafka_offset"] for row in quarantined(kit)] == [3]
    assert sorted(row["level"] for _, row in every(kit)) == [0, 1, 2]
    assert_clean(kit)


def test_beside_a_run_only_what_is_chosen_is_replaced(kept: PipelineKit) -> None:
    before = silver(kept)
    with kept.running() as going:
        going.wait_until_started()
        kept.configured(tables=ANOTHER_RULE)
        done = replaced(kept, Chosen(entities=("g1",), place=(0, None), offsets=(2, 9)))
        kept.send([registered(kept).value(game="g0")])
        going.wait_for(1)
    assert set(done.tables) == {kept.folder_of("g1")}
    there = {place_of(row) for rows in before.values() for row in rows}
    moved = {place_of(row) for _, row in every(kept) if row.get("height") is not None}
    assert moved
    assert moved <= {(kept.topic, 0, offset) for offset in range(2, 9)}
    assert len({place_of(row) for _, row in every(kept)}) == len(there) + 1
    assert_clean(kept)


def test_tables_with_one_row_a_key_are_refused_and_nothing_waits_for_it(kit: PipelineKit) -> None:
    kit.configured(bronze={})
    schema = registered(kit)
    kit.configured(tables=[{"match": "go", "mode": "upsert", "keys": ["player"]}])
    kit.send([schema.value(game=game, player="a", level=n) for n in range(2) for game in ("chess", "go")])
    kit.run()
    with pytest.raises(ConfigError, match="reset FILE --layer silver"):
        replaced(kit)
    with pytest.raises(ConfigError, match="reset FILE --layer silver"):
        lacking(kit.settings, replace=True)
    done = replaced(kit, Chosen(entities=("chess",)))
    assert done.left == {kit.folder_of("chess"): 2}
    assert replay(kit.settings, spark=kit.spark).records == 4
    assert_clean(kit)
