from __future__ import annotations

import json
from pathlib import Path
from typing import cast

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.ingest.batches import decided, settled
from tests.ingest.kafka_records import TOPIC, folder, numbered, value
from tests.ingest.pipelines import checkpoint, table_book

from distributary.errors import CommitImpossible
from distributary.ingest import failpoints
from distributary.ingest.batch.finish import Finisher, commit_metadata
from distributary.ingest.checkpoint.earlier_runs import earlier_commits
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.stuck import Resolutions, StuckCommits
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.settings.groups import Columns
from distributary.ingest.tables.log_commit import NativeCommits

GOLF, QUEST = folder("golf"), folder("quest")
# Native commits do without a session.
NO_SPARK = cast("SparkSession", None)


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    values = [value(1, game_name="golf"), value(1, game_name="quest"), b""]
    return decided(tmp_path, settled(tmp_path, numbered(values)), {TOPIC: {0: (0, 3)}})


def finish(root: Path, manifest: Manifest) -> None:
    Finisher(Columns(), checkpoint(root), table_book(root), NativeCommits(), "lineage").finish(
        manifest, NO_SPARK
    )


def rows(root: Path, manifest: Manifest) -> dict[str, int]:
    folders = [table.folder for table in manifest.tables]
    return {name: DeltaTable(root / "lake" / name).to_pyarrow_table().num_rows for name in folders}


def test_every_table_gets_its_rows_once_however_often_it_is_finished(
    tmp_path: Path, manifest: Manifest
) -> None:
    expected = {table.folder: table.rows for table in manifest.tables}
    for _ in range(2):
        finish(tmp_path, manifest)
        assert rows(tmp_path, manifest) == expected


def test_each_commit_says_where_its_batch_came_from(tmp_path: Path, manifest: Manifest) -> None:
    finish(tmp_path, manifest)
    commits = earlier_commits(str(tmp_path / "lake"))
    assert {commit.table for commit in commits} == {table.folder for table in manifest.tables}
    assert {commit.generation for commit in commits} == {manifest.generation}
    assert all(commit.offsets == {TOPIC: {0: (0, 3)}} for commit in commits)
    assert json.loads(commit_metadata(manifest, "lineage")["distributary.offsets"]) == {TOPIC: {"0": [0, 3]}}


def test_after_a_failure_between_commits_the_rest_follows_and_the_ledger_comes_last(
    tmp_path: Path, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(failpoints, "_fired", set())
    monkeypatch.setenv(failpoints.VARIABLE, f"{failpoints.BETWEEN_COMMITS}=fail")
    with pytest.raises(failpoints.Failpoint):
        finish(tmp_path, manifest)
    assert rows(tmp_path, manifest)[BATCHES_TABLE] == 0
    finish(tmp_path, manifest)
    assert rows(tmp_path, manifest) == {table.folder: table.rows for table in manifest.tables}


def test_a_table_that_cannot_take_its_files_is_noted_and_keeps_the_ledger_back(
    tmp_path: Path, manifest: Manifest
) -> None:
    DeltaTable(tmp_path / "lake" / GOLF).alter.add_constraint({"positive": "score > 5"})
    with pytest.raises(CommitImpossible, match=GOLF):
        finish(tmp_path, manifest)
    (stuck,) = StuckCommits(checkpoint(tmp_path)).read()
    assert stuck.tables == (GOLF,)
    assert GOLF in stuck.message
    found = rows(tmp_path, manifest)
    assert (found[GOLF], found[QUEST], found[BATCHES_TABLE]) == (0, 1, 0)
    Resolutions(checkpoint(tmp_path)).skip(manifest.batch_id, GOLF)
    finish(tmp_path, manifest)
    assert StuckCommits(checkpoint(tmp_path)).read() == []
    assert (rows(tmp_path, manifest)[GOLF], rows(tmp_path, manifest)[BATCHES_TABLE]) == (0, 1)
