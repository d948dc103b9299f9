from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from tests.ingest.kafka_records import folder, numbered, pins, rows_of, value
from tests.ingest.worker.test_demux import demuxed

from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.kafka.records import TEXT
from distributary.ingest.settings.patterns import Pattern
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.settings.upserts import Keeping, Upsert
from distributary.ingest.worker.keyed import unplaced

POINT = pa.struct([("x", pa.int64()), ("at", pa.float64())])
ROWS = pa.RecordBatch.from_pydict(
    {
        "id": pa.array(["a", None, "c", "d"]),
        "point": pa.array(
            [{"x": 1, "at": 1.0}, {"x": 2, "at": 2.0}, None, {"x": None, "at": float("nan")}], POINT
        ),
        "tags": pa.array([["t"]] * 4),
    }
)
KEYS = pa.RecordBatch.from_pydict({"key": [b"k", None, b"", b"k"], TEXT: ["k", None, "", None]})


@pytest.mark.parametrize(
    ("upsert", "by_text", "expected"),
    [
        (Upsert(), False, {1: "null_key"}),
        (Upsert(), True, {1: "null_key", 3: "null_key"}),
        (Upsert(("id",)), False, {1: "null_key"}),
        (Upsert(("point.x",)), False, {2: "null_key", 3: "null_key"}),
        (Upsert(("id", "point.x")), False, {1: "null_key", 2: "null_key", 3: "null_key"}),
        (Upsert((), ("id",)), False, {1: "null_key"}),
        (Upsert(("id",), ("point.at",)), False, {1: "null_key", 2: "null_sequence", 3: "null_sequence"}),
        # A field that the record's own schema lacks, and one of more than a value.
        (Upsert(("id", "gone")), False, dict.fromkeys(range(4), "null_key")),
        (Upsert(("tags",)), False, dict.fromkeys(range(4), "null_key")),
        (Upsert(("point",)), False, dict.fromkeys(range(4), "null_key")),
        (Upsert(("id.x",)), False, dict.fromkeys(range(4), "null_key")),
        (Upsert(("id",), ("gone",)), False, {1: "null_key"} | dict.fromkeys((0, 2, 3), "null_sequence")),
    ],
)
def test_a_record_without_what_names_its_row_or_orders_it_has_no_place(
    upsert: Upsert, by_text: bool, expected: dict[int, str]
) -> None:
    found = unplaced(upsert, ROWS, KEYS, by_text=by_text)
    assert {row: reason for row, reason, _ in found} == expected
    assert [row for row, _, _ in found] == sorted(expected)
    assert all(detail for _, _, detail in found)


@pytest.mark.parametrize("zone", ["UTC", None])
def test_a_row_of_a_table_that_keeps_what_was_does_not_begin_where_time_ends(zone: str | None) -> None:
    last = 2**63 - 1
    rows = pa.RecordBatch.from_pydict(
        {"id": [1, 2, 3], "at": pa.array([last, last - 1, None], pa.timestamp("us", zone))}
    )
    by_time = Upsert(("id",), ("at",))
    found = unplaced(replace(by_time, history=Keeping()), rows, rows, by_text=False)
    assert [(row, reason) for row, reason, _ in found] == [(0, "null_sequence"), (2, "null_sequence")]
    assert [row for row, _, _ in unplaced(by_time, rows, rows, by_text=False)] == [2]


def test_a_key_that_is_there_and_cannot_be_read_is_not_told_as_none() -> None:
    details = {row: detail for row, _, detail in unplaced(Upsert(), ROWS, KEYS, by_text=True)}
    assert details[1] == "the record has no key"
    assert "cannot be decoded" in details[3]


def test_of_a_table_with_one_row_a_key_such_records_go_to_quarantine_and_of_no_other(tmp_path: Path) -> None:
    by = pins(
        tmp_path,
        specs=(TableSpec(0, "quest", upsert=Upsert(("score",))),),
        patterns=(Pattern("quest", folds=True),),
    )
    # Proto3's numbers are never null: the third version's field is not in the first one's schema.
    late = pins(
        tmp_path / "late",
        specs=(TableSpec(0, "quest", upsert=Upsert((), ("season",))),),
        patterns=(Pattern("quest", folds=True),),
    )
    sent = numbered([value(version, game_name=game) for game in ("golf", "quest") for version in (1, 2)])
    whole, lacking = demuxed(by, sent), demuxed(late, sent)
    assert whole.counts.rows == {folder("golf"): 2, folder("quest"): 2}
    assert whole.counts.quarantined == {}
    assert lacking.counts.rows[folder("golf")] == 2
    told = rows_of(late, lacking, QUARANTINE_TABLE)
    assert {(row["entity"], row["reason"]) for row in told} <= {
        ("quest", "null_sequence"),
        ("quest", "null_key"),
    }
    assert lacking.counts.rows[folder("quest")] + len(told) == 2
    assert len(told) >= 1
