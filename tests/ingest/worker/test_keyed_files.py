"""Files of tables whose newer records set the columns that their own schema has: each says which these are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.ingest.batches import demuxed
from tests.ingest.kafka_records import batch, columns_of, folder, numbered, pins, rows_of, value

from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.kafka.columns import kafka_fields
from distributary.ingest.merge.rule import PRESENT, memory_folder
from distributary.ingest.pins import PinnedTable, Pins
from distributary.ingest.routing.conditions import conditions_ahead
from distributary.ingest.settings.deletes import Deleting
from distributary.ingest.settings.groups import Columns, Policies, Route
from distributary.ingest.settings.patterns import Pattern
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.settings.upserts import Upsert
from distributary.ingest.worker.demux import demultiplex
from distributary.ingest.worker.gathering import gather
from distributary.ingest.worker.report import TaskReport, total

GOLF, QUEST = folder("golf"), folder("quest")
SENT = numbered([value(version, game_name=game) for game in ("golf", "quest") for version in (1, 2, 1, 3)])


def by(root: Path, **changes: object) -> Pins:
    return pins(
        root,
        specs=(TableSpec(0, "quest", upsert=Upsert(update="present")),),
        patterns=(Pattern("quest", folds=True),),
        **changes,
    )


def said(of: Pins, report: TaskReport, table: str) -> Counter[frozenset[str] | None]:
    """How many rows of a table's files say what they set."""
    found = Counter[frozenset[str] | None]()
    for written in report.files.written:
        if written.file.table == table:
            file = pq.ParquetFile(f"{of.batch.root}/{table}/{written.file.name}")
            text = (file.metadata.metadata or {}).get(PRESENT)
            found[None if text is None else frozenset(json.loads(text))] += file.metadata.num_rows
    return found


def leaves(fields: Sequence[pa.Field], above: str = "") -> set[str]:
    found: set[str] = set()
    for one in fields:
        inside = leaves(list(one.type), f"{above}{one.name}.") if pa.types.is_struct(one.type) else set()
        found |= inside or {f"{above}{one.name}"}
    return found


def expected() -> dict[frozenset[str], int]:
    always = {one.name for one in kafka_fields(Columns())} | {Columns().rescued}
    set_by: Mapping[int, frozenset[str]] = {
        version: frozenset(always | leaves(list(columns_of(version)))) for version in (1, 2, 3)
    }
    return {set_by[1]: 2, set_by[2]: 1, set_by[3]: 1}


@pytest.mark.parametrize("worker_bytes", [1, 2**24])
def test_rows_of_each_schema_have_a_file_that_says_what_they_set(tmp_path: Path, worker_bytes: int) -> None:
    of = by(tmp_path, worker_bytes=worker_bytes)
    report = demuxed(of, SENT)
    assert said(of, report, GOLF) == {None: 4}
    assert said(of, report, QUEST) == expected()


def test_rows_that_are_gathered_say_so_too(tmp_path: Path) -> None:
    of = by(tmp_path)
    shipped = [
        row for part in (SENT[:3], SENT[3:]) for row in demultiplex(of, ships=True)(iter([batch(part)]))
    ]
    report = total(row["report"][0].as_py() for row in gather(of)(iter(shipped)))
    assert said(of, report, GOLF) == {None: 4}
    assert said(of, report, QUEST) == expected()


def test_a_column_that_takes_no_value_of_a_records_type_is_set_for_all_that(tmp_path: Path) -> None:
    """Its own schema has it, and what stood there before is not what the newest record said."""
    layout = Layout(pa.schema([("score", pa.string()), ("level", pa.int32())]))
    known = {QUEST: PinnedTable("quest", layout)}
    of = by(tmp_path, known=known, grow=False, policies=Policies(incompatible_type="rescue"))
    report = demuxed(of, numbered([value(1, game_name="quest", score=7)]))
    (set_by,) = said(of, report, QUEST)
    assert set_by is not None
    assert "score" in set_by
    (row,) = rows_of(of, report, QUEST)
    assert '"score":7' in row["_rescued_data"]


def deleting(root: Path, when: str = "score > 10") -> Pins:
    (condition,) = conditions_ahead([("tables[0].deletes", when)]).values()
    return pins(
        root,
        specs=(TableSpec(0, "quest", upsert=Upsert(("game_name",), deletes=Deleting(when))),),
        patterns=(Pattern("quest*", folds=True),),
        conditions={when: condition},
    )


SCORES = numbered(
    [
        value(version, game_name=game, score=score)
        for game in ("golf", "quest")
        for version, score in ((1, 11), (2, 3), (3, 12))
    ]
)


def test_deletes_go_to_what_remembers_them_with_what_they_are_told_and_ordered_by(tmp_path: Path) -> None:
    of = deleting(tmp_path)
    report = demuxed(of, SCORES)
    assert report.counts.rows == {GOLF: 3, QUEST: 3}
    assert [row["score"] for row in rows_of(of, report, QUEST)] == [3]
    gone = rows_of(of, report, memory_folder(QUEST))
    names = ["kafka_topic", "kafka_partition", "kafka_offset", "kafka_ts", "game_name"]
    assert [list(row) for row in gone] == [names] * 2
    assert [row["kafka_offset"] for row in gone] == [3, 5]
    (written,) = (one for one in report.files.written if one.remembers)
    assert (written.entity, written.table, written.file.table) == ("quest", QUEST, memory_folder(QUEST))


def test_deletes_that_are_gathered_are_the_same(tmp_path: Path) -> None:
    of = deleting(tmp_path)
    tasks = (SCORES[:4], SCORES[4:])
    shipped = [row for part in tasks for row in demultiplex(of, ships=True)(iter([batch(part)]))]
    report = total(row["report"][0].as_py() for row in gather(of)(iter(shipped)))
    assert [row["kafka_offset"] for row in rows_of(of, report, memory_folder(QUEST))] == [3, 5]
    assert {(one.table, one.remembers) for one in report.files.written} == {
        (GOLF, False),
        (QUEST, False),
        (QUEST, True),
    }


def test_records_whose_types_the_condition_does_not_go_with_go_to_quarantine(tmp_path: Path) -> None:
    of = deleting(tmp_path, "score = 'x'")
    report = demuxed(of, SCORES)
    assert report.counts.rows == {GOLF: 3}
    told = {(row["reason"], row["entity"], row["detail"]) for row in rows_of(of, report, QUARANTINE_TABLE)}
    assert [(reason, entity) for reason, entity, _ in told] == [("delete_condition", "quest")]
    assert all("does not go with these records" in detail for _, _, detail in told)


def test_no_entity_has_the_table_that_remembers_deletes(tmp_path: Path) -> None:
    plain, of = pins(tmp_path, route=Route(field="game_name", table="{entity}")), deleting(tmp_path)
    sent = numbered([value(1, game_name="golf__deleted")])
    assert demuxed(plain, sent).counts.rows == {"golf__deleted": 1}
    of = replace(of, rules=replace(of.rules, route=plain.rules.route))
    assert demuxed(of, sent).counts.quarantined == {"table_limit": 1}
