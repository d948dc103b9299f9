from __future__ import annotations

from collections import Counter
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.ingest.commits import by_log

from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables import ledger
from distributary.ingest.tables.change import create
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.producer_sim.verify.coverage import Coverage
from distributary.producer_sim.verify.lake import Lake
from distributary.producer_sim.verify.ledger_check import (
    Batch,
    Held,
    Rows,
    changes_again,
    check_ledger,
    read_ledger,
)

NOW = datetime(2024, 5, 6, 7, 8, 9, tzinfo=timezone.utc)
GENERATION = "c" * 32
NOTHING_HELD = Held(Coverage(), Coverage(), Counter())


def write_batch(root: Path) -> None:
    """A batch without a record."""
    create(root / BATCHES_TABLE, ledger.BATCHES_SCHEMA, {})
    counts: dict[str, Any] = dict.fromkeys(
        ("rows_read", "rows_tables", "rows_quarantined", "rows_dropped", "rows_already"), 0
    )
    row = ledger.BatchRow(
        pipeline="games",
        generation=GENERATION,
        batch_id=4,
        started_at=NOW,
        ended_at=NOW,
        seconds=0.0,
        attempts=1,
        **counts,
        rows_by_reason={},
        tables=0,
        files=0,
        bytes=0,
        offsets={},
        gaps={},
        schema_ids=[],
        unknown_fields={},
    )
    file = ledger.batch_file(root, row)
    by_log(NativeCommits(), root / file.table, [file], ledger.BATCHES_SCHEMA, "app", 4, {})


def write_changes(root: Path, *changes: tuple[str, str | None, str | None], batch: str = "app") -> None:
    """Changes of that batch: the column, what it was and what it is; committed under a name of its own."""
    rows = [
        ledger.ChangeRow(
            pipeline="games",
            generation=GENERATION,
            batch_id=4,
            at=NOW,
            table="chess",
            entity="chess",
            schema_id=7,
            old_schema_id=6,
            kind="enum_value_added",
            column=column,
            type="string",
            decision="fit",
            before=before,
            after=after,
        )
        for column, before, after in changes
    ]
    file = ledger.changes_file(root, rows)
    there = NativeCommits().state(root / file.table).layout
    wanted = pa.schema([field for field in ledger.CHANGES_SCHEMA if field.name in there.names])
    by_log(NativeCommits(), root / file.table, [file], wanted, batch, 4, {})


@pytest.mark.parametrize("columns", [len(ledger.CHANGES_SCHEMA), len(ledger.CHANGES_SCHEMA) - 3])
def test_a_change_that_is_told_twice_is_found(columns: int, tmp_path: Path) -> None:
    write_batch(tmp_path)
    lake = Lake(root=files_at(tmp_path), template="{entity}")
    create(tmp_path / CHANGES_TABLE, pa.schema(list(ledger.CHANGES_SCHEMA)[:columns]), {})
    whole = columns == len(ledger.CHANGES_SCHEMA)
    write_changes(tmp_path, ("rank", None, "A"), ("rank", None, "B") if whole else ("level", None, None))
    assert list(check_ledger(read_ledger(lake, changes_again(lake)) or [], NOTHING_HELD)) == []

    write_changes(tmp_path, ("rank", None, "A"), batch="app again")
    (found,) = check_ledger(read_ledger(lake, changes_again(lake)) or [], NOTHING_HELD)
    assert (found.kind, found.detail) == ("ledger_sum", "the ledger of changes repeats 1 of its rows")


@pytest.mark.parametrize(("merged", "there"), [(0, 1), (0, 0), (2, 1), (None, 1)])
def test_rows_that_an_earlier_checkpoint_brought_to_a_table_with_one_row_a_key_may_have_made_room(
    merged: int | None, there: int
) -> None:
    """Of two such records, and of what this batch brought, nobody counts what is left."""
    held = Held(Coverage(), Coverage(), Counter())
    held.merged.add(("games", 0), np.arange(there, dtype=np.int64))
    rows = Rows(read=2 + (merged or 0), tables=merged or 0, quarantined=0, dropped=0, already=2)
    batch = Batch(GENERATION, 4, rows, {("games", 0): (0, rows.read)}, gaps=0, merged=merged)
    assert list(check_ledger([batch], held)) == []


def test_rows_that_an_earlier_checkpoint_brought_to_other_tables_are_there() -> None:
    rows = Rows(read=2, tables=0, quarantined=0, dropped=0, already=2)
    batch = Batch(GENERATION, 4, rows, {("games", 0): (0, 2)}, gaps=0)
    (found,) = check_ledger([batch], NOTHING_HELD)
    assert (found.kind, found.detail) == ("ledger_rows", "its offsets have 0 rows, the ledger says 2")


@pytest.mark.parametrize(("there", "found"), [(0, True), (1, False), (3, False), (4, True)])
def test_what_such_a_batch_itself_added_to_other_tables_is_there(*, there: int, found: bool) -> None:
    held = Held(Coverage(), Coverage(), Counter())
    held.tables.add(("games", 0), np.arange(there, dtype=np.int64))
    rows = Rows(read=4, tables=2, quarantined=0, dropped=0, already=2)
    batch = Batch(GENERATION, 4, rows, {("games", 0): (0, 4)}, gaps=0, merged=1)
    said = f"its offsets have {there} rows in tables to which each is added, the ledger says 1, and 2 there already"
    assert [one.detail for one in check_ledger([batch], held)] == [said] * found
