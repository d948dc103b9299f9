"""What tables expect of records, on the real broker: each outcome, in each kind of table, across crashes and in the ledger."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from tests.ingest.e2e.handmade import quarantined
from tests.ingest.e2e.keyed import rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said_here

from distributary.errors import BudgetSpent, PolicyStopped
from distributary.ingest.checkpoint.manifest_json import EXPECTING, to_json
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]

EXPECT = {
    "has_level": "level is not null",
    "sane_heart": {"condition": "heart between 20 and 250", "otherwise": "quarantine"},
    "known_kind": {"condition": "kind in ('a', 'b')", "otherwise": "drop"},
}


def body(**fields: Any) -> bytes:
    return json.dumps({"game": "go", "level": 1, "heart": 60, "kind": "a", **fields}).encode()


RECORDS = [
    body(),
    body(level=None),
    body(heart=5),
    body(kind="c"),
    body(heart=5, kind="c"),
    body(heart=None),
    body(game="chess", heart=5),
]


def pipeline(kit: PipelineKit, expect: Any = EXPECT, **rule: Any) -> PipelineKit:
    return kit.configured(
        decode={"format": "json", "evolution": "inline", "schema_hints": "at timestamp"},
        route={"field": "game", "table": "{entity}"},
        tables=[{"match": "go", "expect": expect, **rule}],
    )


def ledger(kit: PipelineKit) -> list[dict[str, Any]]:
    return sorted(kit.rows("ledger_batches").to_pylist(), key=lambda row: row["batch_id"])


def positions(kit: PipelineKit, folder: str) -> list[int]:
    return sorted(row["kafka_offset"] for row in rows_of(kit, folder))


def assert_sound(kit: PipelineKit) -> None:
    found = verify(kit.settings).differences
    assert not found, "\n".join(map(str, found))


def test_each_record_ends_as_the_expectation_that_it_does_not_meet_says(kit: PipelineKit) -> None:
    pipeline(kit)
    kit.send(RECORDS)
    kit.run()
    assert positions(kit, "go") == [0, 1]
    assert positions(kit, "chess") == [6]
    told = [(row["kafka_offset"], row["reason"], row["detail"], row["value"]) for row in quarantined(kit)]
    detail = "expectation sane_heart is not met"
    assert told == [(place, "expectation", detail, RECORDS[place]) for place in (2, 4, 5)]
    assert {row["entity"] for row in quarantined(kit)} == {"go"}
    (row,) = ledger(kit)
    assert json.loads(row["rows_by_reason"]) == {"expectation": 3, "expectation_drop": 1}
    assert (row["rows_read"], row["rows_tables"], row["rows_dropped"]) == (7, 3, 1)
    assert json.loads(row["expectations"]) == {
        "go": {"has_level": [5, 1], "known_kind": [4, 2], "sane_heart": [3, 3]}
    }
    assert_sound(kit)
    # A second batch, and what the command says of both.
    kit.send([body(level=None)])
    kit.run()
    answered, output = said_here("expectations", str(kit.settings_file))
    assert answered == 0
    assert "go: has_level: 71.42 % of 7 records, 2 not met" in output
    _, output = said_here("expectations", str(kit.settings_file), "--json")
    (first, *_) = json.loads(output)["expectations"]
    assert (first["table"], first["name"], first["met"], first["not_met"]) == ("go", "has_level", 5, 2)
    assert [(one["met"], one["not_met"]) for one in first["batches"]] == [(5, 1), (0, 1)]


def test_the_run_stops_before_anything_is_visible_where_that_is_asked_for(kit: PipelineKit) -> None:
    pipeline(kit, {"sane_heart": {"condition": "heart between 20 and 250", "otherwise": "fail"}})
    kit.send([body(), body(heart=5)])
    with pytest.raises(PolicyStopped) as stopped:
        kit.run()
    told = str(stopped.value)
    assert (
        f"table go: the record at {kit.topic}/0/1 stops the run, as expectation sane_heart is not met" in told
    )
    assert "quarantine or drop" in told
    assert kit.manifests.last_batch() is None
    assert not rows_of(kit, "go")
    pipeline(kit, {"sane_heart": {"condition": "heart between 20 and 250", "otherwise": "drop"}})
    kit.run()
    assert positions(kit, "go") == [0]
    assert_sound(kit)


@pytest.mark.parametrize("mode", ["upsert", pytest.param("history", marks=pytest.mark.heavy)])
def test_a_bad_last_record_never_takes_the_place_of_a_good_one(kit: PipelineKit, mode: str) -> None:
    rule = {"mode": mode, "keys": ["kind"], "sequence_by": ["at"], "deletes": "op = 'd'"}
    pipeline(kit, {"sane_heart": EXPECT["sane_heart"], "even": "level % 2 = 0"}, **rule)

    def moment(number: int) -> str:
        return f"2024-01-01T00:00:0{number}Z"

    kit.send(
        [
            body(kind="a", at=moment(1), heart=60),
            body(kind="a", at=moment(2), heart=5),
            body(kind="b", at=moment(1), heart=70),
            # A delete brings no row that could be looked at.
            body(kind="b", at=moment(3), heart=None, op="d"),
            body(kind="c", at=moment(4), heart=80),
        ]
    )
    kit.run()
    current = [row for row in rows_of(kit, "go") if row.get("is_current", True)]
    assert sorted((row["kind"], row["heart"]) for row in current) == [("a", 60), ("c", 80)]
    kit.send([body(kind="c", at=moment(5), heart=500)])
    kit.run()
    current = [row for row in rows_of(kit, "go") if row.get("is_current", True)]
    assert sorted((row["kind"], row["heart"]) for row in current) == [("a", 60), ("c", 80)]
    assert [row["reason"] for row in quarantined(kit)] == ["expectation"] * 2
    assert json.loads(ledger(kit)[0]["expectations"])["go"]["sane_heart"] == [3, 1]
    assert_sound(kit)


# Lighter: test_lost_files_are_written_again_as_they_were_whatever_the_rules_say_by_then (test_columns.py).
@pytest.mark.heavy
def test_lost_files_of_a_batch_are_written_again_by_what_was_expected_then(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    pipeline(kit)
    kit.send(RECORDS)
    fail_at("after_manifest:1")
    with pytest.raises(BudgetSpent, match="failpoint"):
        kit.run()
    fail_at()
    decided = kit.manifests.read(1)
    assert decided is not None
    assert to_json(decided)["format"] == EXPECTING
    assert decided.counts.expected["go"]["known_kind"] == (4, 2)
    for folder in ("go", "quarantine"):
        kit.lake.root.delete(f"{folder}/{file.name}" for file in decided.table(folder).files)
    # What is expected by now is for the batches to come.
    pipeline(kit, {"nothing": {"condition": "level > 100", "otherwise": "drop"}})
    kit.run()
    assert positions(kit, "go") == [0, 1]
    assert [row["kafka_offset"] for row in quarantined(kit)] == [2, 4, 5]
    kit.send([body()])
    kit.run()
    assert positions(kit, "go") == [0, 1]
    assert json.loads(ledger(kit)[-1]["expectations"]) == {"go": {"nothing": [0, 1]}}
    assert kit.unnamed_files() == set()
    assert_sound(kit)
