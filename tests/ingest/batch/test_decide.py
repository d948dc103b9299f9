from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.ingest.batches import decided, evolved, generation, known, settled
from tests.ingest.kafka_records import PINNED, TOPIC, folder, numbered, value

from distributary.errors import SumsDisagree
from distributary.ingest.batch.attempt import logged_changes
from distributary.ingest.checkpoint.change_log import LoggedChange
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifest_pins import from_manifest
from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE, QUARANTINE_TABLE
from distributary.ingest.pins import PinnedRecord, for_workers
from distributary.ingest.schemas.inferred_per_entity import NO_FIELDS
from distributary.registry.base import Schema

VALUES = [value(1, game_name="golf"), value(2, game_name="quest"), value(2, game_name="golf"), b"", None]
WHOLE = {TOPIC: {0: (0, 5)}}


def test_a_manifest_holds_every_table_in_its_role_and_sums_that_agree(tmp_path: Path) -> None:
    manifest = decided(tmp_path, settled(tmp_path, numbered(VALUES)), WHOLE)
    found = {table.folder: (table.role, table.rows, table.app_id) for table in manifest.tables}
    born = generation(tmp_path).id
    assert found == {
        folder("golf"): ("events", 2, f"{born}/events"),
        folder("quest"): ("events", 1, f"{born}/events"),
        QUARANTINE_TABLE: ("quarantine", 1, f"{born}/quarantine"),
        CHANGES_TABLE: ("changes", len(_rows(tmp_path, manifest, CHANGES_TABLE)), f"{born}/changes"),
        BATCHES_TABLE: ("batches", 1, f"{born}/batches"),
    }
    assert manifest.entities == {"golf": folder("golf"), "quest": folder("quest")}
    assert manifest.counts.total_read == 5
    assert manifest.counts.dropped == {"tombstone": 1}


def test_a_schema_that_utf8_cannot_hold_stops_no_batch(tmp_path: Path) -> None:
    # A registry that keeps what it was given may answer with half of a surrogate pair, such as in a description.
    odd = Schema(99, "JSON", '{"type": "object", "properties": {"a": {}}, "description": "\ud800"}')
    records = (*PINNED, PinnedRecord((99, ()), odd))
    manifest = decided(tmp_path, settled(tmp_path, numbered(VALUES), records=records), WHOLE)
    assert set(manifest.pins.schemas) == {11, 12, 13, 99}


def test_a_manifest_lists_no_version_of_an_entitys_schema_that_a_newer_one_took_the_place_of(
    tmp_path: Path,
) -> None:
    """No record comes with one any more, and a thousand entities have tens of thousands of them after years."""
    versions = [PinnedRecord((-n, ()), Schema(-n, "STRUCT", NO_FIELDS, entity="go")) for n in (1, 2, 3)]
    done = settled(tmp_path, numbered(VALUES), records=(*PINNED, *versions), by_entity=True)
    manifest = decided(tmp_path, done, WHOLE)
    assert set(manifest.pins.schemas) == {11, 12, 13, -3}
    assert [-3, []] in manifest.pins.decisions["records"]
    assert len(manifest.pins.decisions["records"]) == len(PINNED) + 1
    # Its files are written again with what it lists.
    again = from_manifest(manifest, done.pins)
    assert for_workers(again).schemas.records == for_workers(done.pins).schemas.records


def test_the_ledger_tells_what_the_batch_did(tmp_path: Path) -> None:
    manifest = decided(tmp_path, settled(tmp_path, numbered(VALUES)), {TOPIC: {0: (0, 7)}})
    (row,) = _rows(tmp_path, manifest, BATCHES_TABLE)
    assert (row["rows_read"], row["rows_tables"], row["rows_quarantined"], row["rows_dropped"]) == (
        5,
        3,
        1,
        1,
    )
    assert json.loads(row["rows_by_reason"]) == {"no_header": 1, "tombstone": 1}
    assert json.loads(row["gaps"]) == {TOPIC: {"0": 2}}
    assert json.loads(row["schema_ids"]) == [11, 12]


def test_changes_are_told_with_the_record_that_brought_them(tmp_path: Path) -> None:
    first = settled(tmp_path, numbered([value(1, game_name="golf")]), id=0)
    manifest = decided(tmp_path, first, {TOPIC: {0: (0, 1)}})
    assert {row["kind"] for row in _rows(tmp_path, manifest, CHANGES_TABLE)} == {"created"}
    later = settled(
        tmp_path,
        numbered([value(1, game_name="golf"), value(2, game_name="golf")]),
        known=known(tmp_path, manifest.entities),
    )
    after = decided(tmp_path, later, {TOPIC: {0: (0, 2)}}, manifest.entities)
    rows = _rows(tmp_path, after, CHANGES_TABLE)
    assert [row["column"] for row in rows] == ["season", "guild", "achievements"]
    assert {(row["kind"], row["kafka_offset"], row["schema_id"]) for row in rows} == {("added", 1, 12)}


@pytest.mark.parametrize("count", [1, 2], ids=["met by that attempt alone", "met before"])
def test_a_column_of_an_attempt_that_died_is_told_with_what_its_schema_came_after(
    tmp_path: Path, count: int
) -> None:
    """Another version came by the next attempt, and the manifest has no version any more that is before the one which brought the column."""
    fields: list[dict[str, Any]] = [
        {"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("game_name", "c", "d")
    ]
    texts = [json.dumps({"type": "struct", "fields": fields[:count]}) for count in (1, 2, 3)]
    versions = [PinnedRecord((-n, ()), Schema(-n, "STRUCT", text)) for n, text in enumerate(texts, 1)]
    by: dict[str, Any] = {"codec": "json", "inferred_final": True}
    golf = folder("7")
    first = decided(
        tmp_path,
        settled(tmp_path, numbered([b'{"game_name":7}']), records=versions[:1], id=0, **by),
        {TOPIC: {0: (0, 1)}},
    )
    met = {golf: tuple(one.key for one in versions[:count])}
    died = settled(
        tmp_path,
        numbered([b'{"game_name":7,"c":1}']),
        records=versions[:2],
        known=known(tmp_path, first.entities),
        met=met,
        **by,
    )
    (change,) = evolved(tmp_path, died)
    logged = [LoggedChange(7, "2026-01-01T00:00:00+00:00", one) for one in logged_changes(change)]
    assert [one.change.schema_id for one in logged] == [-2]
    again = settled(
        tmp_path,
        numbered([b'{"game_name":7,"c":1}', b'{"game_name":7,"d":1}']),
        records=versions,
        known=known(tmp_path, first.entities),
        met=met,
        id=8,
        **by,
    )
    manifest = decided(tmp_path, again, {TOPIC: {0: (0, 2)}}, first.entities, logged=logged)
    assert manifest.met == {golf: (versions[count - 1].key, versions[2].key)}
    rows = _rows(tmp_path, manifest, CHANGES_TABLE)
    told = {row["column"]: (row["schema_id"], row["old_schema_id"]) for row in rows}
    assert told == {"c": (-2, -1), "d": (-3, -count)}


def test_a_batch_that_changes_no_table_has_no_rows_of_changes(tmp_path: Path) -> None:
    first = decided(tmp_path, settled(tmp_path, numbered([value(1, game_name="golf")])), {TOPIC: {0: (0, 1)}})
    again = settled(tmp_path, numbered([value(1, game_name="golf")]), known=known(tmp_path, first.entities))
    manifest = decided(tmp_path, again, {TOPIC: {0: (0, 1)}}, first.entities)
    assert CHANGES_TABLE not in {table.folder for table in manifest.tables}


def test_sums_that_disagree_stop_the_batch_before_its_ledger_is_written(tmp_path: Path) -> None:
    lost = settled(tmp_path, numbered(VALUES))
    lost.report.counts.rows[folder("golf")] -= 1
    with pytest.raises(SumsDisagree, match=r"its files hold 2 rows, the workers reported 1"):
        decided(tmp_path, lost, WHOLE)
    assert not list((tmp_path / "lake" / BATCHES_TABLE).glob("*.parquet"))


def _rows(root: Path, manifest: Manifest, table: str) -> list[dict[str, Any]]:
    (files,) = [one.files for one in manifest.tables if one.folder == table]
    return [
        row for file in files for row in pq.ParquetFile(root / "lake" / table / file.name).read().to_pylist()
    ]
