"""Files of tables whose newer records set the columns that their own schema has: each says which these are."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.ingest.batches import demuxed
from tests.ingest.kafka_records import batch, columns_of, folder, numbered, pins, value

from distributary.ingest.kafka.columns import kafka_fields
from distributary.ingest.merge.rule import PRESENT
from distributary.ingest.pins import Pins
from distributary.ingest.settings.groups import Columns
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
