from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from tests.ingest.kafka_records import pins, task_report
from tests.ingest.pipelines import make_table, table_book, written
from tests.ingest.power import Disk

from distributary.errors import CommitImpossible
from distributary.ingest.batch.passes import Settled, planned_changes
from distributary.ingest.columns.clustering import ClusterBy
from distributary.ingest.columns.differences import differences
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import CHANGES_TABLE, QUARANTINE_TABLE
from distributary.ingest.kafka.columns import table_schema
from distributary.ingest.log_paths import entry_path
from distributary.ingest.pins import PinnedTable
from distributary.ingest.settings.groups import Columns
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables import properties
from distributary.ingest.tables.change import PlannedChange, TableChanger, create, evolve
from distributary.ingest.tables.known import ENTITY_PROPERTY
from distributary.ingest.tables.ledger import OWN_TABLES
from distributary.ingest.tables.log import entry, sync_logs
from distributary.ingest.worker.report import Growth

A = pa.schema([("a", pa.int64())])
AB = A.append(pa.field("b", pa.struct([("c", pa.string())])))


def settled(root: Path, layouts: dict[str, pa.Schema], *growths: Growth) -> Settled:
    files = [written(folder, layout, entity=folder.upper()) for folder, layout in layouts.items()]
    return Settled(
        task_report(written=files, growths=list(growths)),
        pins(root),
        {folder: Layout(columns) for folder, columns in layouts.items()},
    )


def apply(root: Path, planned: list[PlannedChange], layouts: dict[str, pa.Schema]) -> None:
    TableChanger(table_book(root), None, Columns()).apply(
        planned,
        {folder: Layout(columns) for folder, columns in layouts.items()},
        {"distributary.pipeline": "games"},
    )


def test_new_tables_and_new_columns_are_planned_and_nothing_else(tmp_path: Path) -> None:
    grown = Growth("old", (2, (0,)), 2, ("t", 0, 9))
    whole = settled(tmp_path, {"new": A, "old": AB, "same": A}, grown)
    known = {"old": PinnedTable("OLD", Layout(A)), "same": PinnedTable("SAME", Layout(A))}
    new, old = planned_changes(whole, known)
    assert (new.folder, new.entity, new.new, [c.column for c in new.added]) == ("new", "NEW", True, ["a"])
    assert (new.schema_id, new.first) == (None, None)
    assert (old.folder, old.new, [c.column for c in old.added]) == ("old", False, ["b"])
    assert (old.schema_id, old.first) == (2, ("t", 0, 9))


def test_tables_become_what_was_planned_and_doing_it_again_changes_nothing(tmp_path: Path) -> None:
    make_table(tmp_path, "old", A)
    layouts = {"new": A, "old": AB}
    planned = planned_changes(settled(tmp_path, layouts), {"old": PinnedTable("OLD", Layout(A))})
    for _ in range(2):
        apply(tmp_path, planned, layouts)
        states = table_book(tmp_path).states(["new", "old", *OWN_TABLES])
        assert states["new"].properties[ENTITY_PROPERTY] == "NEW"
        assert states["new"].properties["distributary.pipeline"] == "games"
        assert states["old"].layout.names[-2:] == ["a", "b"]
        assert {folder: state.version for folder, state in states.items()} == {
            "new": 0,
            "old": 1,
            **dict.fromkeys(OWN_TABLES, 0),
        }


def test_the_book_knows_the_tables_as_they_are_now(tmp_path: Path) -> None:
    make_table(tmp_path, "old", A)
    book = table_book(tmp_path)
    book.states(["old"])
    planned = planned_changes(settled(tmp_path, {"old": AB}), {"old": PinnedTable("OLD", Layout(A))})
    TableChanger(book, None, Columns()).apply(planned, {"old": Layout(AB)}, {})
    assert "b" in book.states(["old"])["old"].layout.names


def test_a_table_that_contradicts_what_was_planned_is_told(tmp_path: Path) -> None:
    make_table(tmp_path, "new", pa.schema([("a", pa.string())]))
    planned = planned_changes(settled(tmp_path, {"new": A}), {})
    with pytest.raises(CommitImpossible, match="cannot take the columns wanted"):
        apply(tmp_path, planned, {"new": A})


@pytest.mark.parametrize(("folder", "lacking"), [(CHANGES_TABLE, 3), (QUARANTINE_TABLE, 1)])
def test_a_table_of_ours_that_an_earlier_version_made_gets_the_columns_it_lacks(
    tmp_path: Path, folder: str, lacking: int
) -> None:
    whole = OWN_TABLES[folder]
    create(tmp_path / "lake" / folder, pa.schema(list(whole)[:-lacking]), {})
    for _ in range(2):
        apply(tmp_path, [], {})
        assert table_book(tmp_path).states([folder])[folder].layout.names == whole.names
    assert table_book(tmp_path).states([folder])[folder].version == 1


def test_a_written_table_gets_the_kafka_column_that_it_was_made_without(tmp_path: Path) -> None:
    for folder in ("written", "other"):
        make_table(tmp_path, folder, A)
    layouts, columns = {"written": A}, Columns(key_text="kafka_key_text")
    planned = planned_changes(settled(tmp_path, layouts), {"written": PinnedTable("WRITTEN", Layout(A))})
    assert planned == []
    files = table_schema(columns, Layout(A))
    for _ in range(2):
        book = table_book(tmp_path)
        TableChanger(book, None, columns).apply(planned, {"written": Layout(A)}, {})
        states = book.states(["written", "other"])
        assert not list(differences(states["written"].layout, files))
        assert {folder: state.version for folder, state in states.items()} == {"written": 1, "other": 0}


def test_new_columns_take_no_entry_of_the_log_away(tmp_path: Path) -> None:
    """delta-rs would, behind a checkpoint of its own, which a loss of power may take."""
    create(tmp_path / "old", A, {"delta.checkpointInterval": "2"})
    log = tmp_path / "old" / "_delta_log"
    for number in range(3):
        for path in log.iterdir():
            os.utime(path, (path.stat().st_mtime - 10 * 86_400,) * 2)
        evolve(tmp_path / "old", A.append(pa.field(f"c{number}", pa.int64())))
    assert sorted(path.name for path in log.iterdir()) == [f"{version:020d}.json" for version in range(4)]


def test_of_a_changed_table_what_its_log_is_read_from_is_synced(tmp_path: Path) -> None:
    create(tmp_path / "old", A, {})
    for number in range(6):
        evolve(tmp_path / "old", A.append(pa.field(f"c{number}", pa.int64())))
    DeltaTable(tmp_path / "old").create_checkpoint()
    disk = Disk((tmp_path,))
    for path in (tmp_path / "old" / "_delta_log").iterdir():
        path.write_bytes(path.read_bytes() + b" ")
    with disk.watched():
        sync_logs(tmp_path, ["old"])
    names = {path.name for path in disk.unsafe()}
    assert names == {f"{0:020d}.json", f"{1:020d}.json", "_last_checkpoint"}


@pytest.mark.parametrize("theirs", ["OPTIMIZE", "SET TBLPROPERTIES"])
@pytest.mark.parametrize("clustered", [False, True])
def test_columns_whose_entry_another_writers_took_the_place_of_are_given_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, clustered: bool, theirs: str
) -> None:
    """As Spark's own store does it in a folder: a batch that was decided by them would never come into the table."""
    table = files_at(tmp_path / "t")
    create(table, A, {}, cluster_by=ClusterBy(("a",)) if clustered else None)
    raced: list[int] = []

    def replaced(place: Files, version: int) -> list[dict[str, Any]]:
        if not raced and version == 1:
            raced.append(version)
            told = [action for action in entry(place, 0) if "metaData" in action]
            lines = [
                {"commitInfo": {"operation": theirs, "timestamp": 1}},
                *(told if theirs == "SET TBLPROPERTIES" else []),
            ]
            place.put(entry_path(1), "\n".join(map(json.dumps, lines)).encode())
        return entry(place, version)

    monkeypatch.setattr(properties, "entry", replaced)
    assert evolve(table, AB) == ("b",)
    assert raced and DeltaTable(tmp_path / "t").version() == 2
    assert [field.name for field in DeltaTable(tmp_path / "t").schema().fields] == ["a", "b"]
