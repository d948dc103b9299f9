from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import DataFrame
from tests.ingest.batch.test_runner import stopped
from tests.ingest.batches import decided, settled
from tests.ingest.commits import by_log
from tests.ingest.kafka_records import PINNED, TOPIC, folder, numbered, pins, value
from tests.ingest.pipelines import begun, checkpoint, keep, settings, table_book
from tests.ingest.queries import Query, batches, one

from distributary.errors import CheckpointMismatch, PolicyStopped, SumsDisagree
from distributary.ingest.batch.finish import Finisher, commit_metadata
from distributary.ingest.batch.passes import Workers
from distributary.ingest.batch.rewrite import Rewriter, _check_schemas, _lost, _with_files
from distributary.ingest.checkpoint.manifest import Manifest, TableFiles
from distributary.ingest.checkpoint.manifest_json import rewritten_to_json
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.parquet.data_file import file_name
from distributary.ingest.pins import PinnedKeys
from distributary.ingest.resolve import resolve, stuck_tables
from distributary.ingest.tables.log_commit import NativeCommits

GOLF = folder("golf")
NO_RECORDS = cast("DataFrame", None)


def still_as_read() -> None:
    """No topic was made anew."""


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    values = [value(1, game_name="golf"), value(1, game_name="quest"), b""]
    return decided(tmp_path, settled(tmp_path, numbered(values)), {TOPIC: {0: (0, 3)}})


def rewriter_of(root: Path) -> Rewriter:
    here = checkpoint(root)
    return Rewriter(here.log, begun(here), table_book(root), Workers(slots=2, headers={}, arrow_rows=100))


def part(manifest: Manifest, table: str) -> TableFiles:
    (found,) = [one for one in manifest.tables if one.folder == table]
    return found


def lost(root: Path, manifest: Manifest) -> set[str]:
    book = table_book(root)
    return {folder for one in manifest.tables for folder in _lost(book, one, manifest.batch_id)}


def test_while_every_file_is_there_the_manifest_is_as_it_was(tmp_path: Path, manifest: Manifest) -> None:
    rewriter = rewriter_of(tmp_path)
    assert rewriter.restored(manifest, (), NO_RECORDS, pins(tmp_path), still_as_read) == manifest


def test_a_file_that_is_gone_or_cut_off_is_lost(tmp_path: Path, manifest: Manifest) -> None:
    assert lost(tmp_path, manifest) == set()
    for table in (GOLF, "quarantine"):
        (file,) = part(manifest, table).files
        path = tmp_path / "lake" / table / file.name
        path.write_bytes(path.read_bytes()[:-1])
    assert lost(tmp_path, manifest) == {GOLF, "quarantine"}
    path.unlink()
    assert lost(tmp_path, manifest) == {GOLF, "quarantine"}


def test_a_file_that_went_after_its_commit_is_not_lost(tmp_path: Path, manifest: Manifest) -> None:
    golf = part(manifest, GOLF)
    path = tmp_path / "lake" / GOLF
    assert by_log(
        NativeCommits(),
        path,
        golf.files,
        golf.layout.columns,
        golf.app_id,
        manifest.batch_id,
        commit_metadata(manifest, "lineage"),
    )
    (path / golf.files[0].name).unlink()
    assert lost(tmp_path, manifest) == set()


def test_files_written_again_take_the_place_of_the_lost_ones_in_later_attempts_too(
    tmp_path: Path, manifest: Manifest
) -> None:
    (file,) = part(manifest, GOLF).files
    moved = replace(file, name=file_name(manifest.generation, manifest.batch_id))
    (tmp_path / "lake" / GOLF / file.name).rename(tmp_path / "lake" / GOLF / moved.name)
    assert part(_with_files(manifest, {GOLF: (moved,)}), GOLF).files == (moved,)
    assert lost(tmp_path, manifest) == {GOLF}
    keep(checkpoint(tmp_path), manifest)
    entry = begun(checkpoint(tmp_path)).rewrite(rewritten_to_json({GOLF: (moved,)}))
    restored = rewriter_of(tmp_path).restored(manifest, [entry], NO_RECORDS, pins(tmp_path), still_as_read)
    assert [one.name for one in part(restored, GOLF).files] == [moved.name]


@pytest.mark.parametrize("table", [GOLF, "quarantine"])
def test_lost_files_whose_schema_cannot_be_used_any_more_stop_the_run_before_any_commit(
    tmp_path: Path, manifest: Manifest, table: str
) -> None:
    (file,) = part(manifest, table).files
    (tmp_path / "lake" / table / file.name).unlink()
    rewriter = rewriter_of(tmp_path)
    with pytest.raises(CheckpointMismatch, match=rf"files of {table} are gone.*cannot use \(11\)"):
        rewriter.restored(manifest, (), NO_RECORDS, pins(tmp_path, records=PINNED[1:]), still_as_read)


def test_a_schema_that_cannot_be_used_is_no_matter_for_tables_that_never_met_it(
    tmp_path: Path, manifest: Manifest
) -> None:
    golf = {GOLF: part(manifest, GOLF)}
    _check_schemas(manifest, pins(tmp_path, records=PINNED[:1]), golf)
    unknown = replace(manifest, met={})
    with pytest.raises(CheckpointMismatch, match=r"\(12, 13\)"):
        _check_schemas(unknown, pins(tmp_path, records=PINNED[:1]), golf)


def test_a_keys_schema_that_cannot_be_used_concerns_every_table(tmp_path: Path, manifest: Manifest) -> None:
    decided_by = {**manifest.pins.decisions, "key_records": [[5, []]]}
    with_keys = replace(manifest, pins=replace(manifest.pins, decisions=decided_by))
    _check_schemas(with_keys, pins(tmp_path), {GOLF: part(manifest, GOLF)})
    with pytest.raises(CheckpointMismatch, match=r"\(5\)"):
        _check_schemas(with_keys, pins(tmp_path, keys=PinnedKeys(decoded=True)), {GOLF: part(manifest, GOLF)})


def test_files_that_nothing_can_write_again_are_the_users_to_decide_about(tmp_path: Path) -> None:
    """A table was dropped, its files with it, and by now the records of the batch are gone from Kafka."""
    query = batches(tmp_path, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Finisher, "finish", stopped)
        with pytest.raises(PolicyStopped):
            query.batch(1, one(1))
    shutil.rmtree(tmp_path / "lake" / GOLF)
    with pytest.raises(SumsDisagree, match=f"files of {GOLF} are gone and cannot be written again"):
        Query(tmp_path).resume()
    (waiting,) = stuck_tables(settings(tmp_path))
    assert (waiting.batch_id, waiting.table, waiting.rows) == (2, GOLF, 1)
    resolve(settings(tmp_path), GOLF, "skip")
    again = Query(tmp_path)
    again.resume()
    again.batch(2, one(2))
    assert (again.rows(GOLF), again.rows(BATCHES_TABLE), stuck_tables(settings(tmp_path))) == (1, 3, [])


def test_nothing_is_written_again_from_a_topic_that_was_made_anew_since_it_was_looked_at(
    tmp_path: Path,
) -> None:
    """As many records, of other things: their files took the place of those that were lost."""
    query = batches(tmp_path, 1)
    before = set((tmp_path / "lake" / GOLF).glob("*.parquet"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Finisher, "finish", stopped)
        with pytest.raises(PolicyStopped):
            query.batch(1, one(1))
    (file,) = set((tmp_path / "lake" / GOLF).glob("*.parquet")) - before
    file.rename(aside := tmp_path / file.name)
    again = Query(tmp_path)
    again.topics = dict.fromkeys(again.topics, "another-topic-of-this-name")
    with pytest.raises(CheckpointMismatch, match="made anew"):
        again.resume(one(1))
    aside.rename(file)
    once_more = Query(tmp_path)
    once_more.resume()
    assert once_more.rows(GOLF) == 2
    assert stuck_tables(settings(tmp_path)) == []
