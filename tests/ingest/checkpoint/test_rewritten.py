from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path

import pytest
from tests.ingest.pipelines import checkpoint

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.rewritten import RewrittenFiles
from distributary.ingest.parquet.data_file import DataFile

A, B = DataFile("a", "a2", 3, 4, "{}"), DataFile("b", "b2", 5, 6, "{}")


def kept_by_an_earlier_version(here: Checkpoint, batch_id: int, file: DataFile) -> Path:
    path = here.resolutions / f"rewritten-{batch_id}.json"
    path.write_text(json.dumps({file.table: [asdict(file)]}))
    return path


def test_what_was_written_again_for_other_tables_stays(tmp_path: Path) -> None:
    files = RewrittenFiles(checkpoint(tmp_path))
    files.add(7, {"a": (A,)})
    files.add(7, {"b": (B,)})
    assert files.read(7) == {"a": (A,), "b": (B,)}
    assert files.read(8) == {}


def test_a_recovery_that_an_earlier_version_began_goes_on(tmp_path: Path) -> None:
    here = checkpoint(tmp_path)
    kept_by_an_earlier_version(here, 7, A)
    assert RewrittenFiles(here).read(7) == {"a": (A,)}
    RewrittenFiles(here).add(7, {"b": (B,)})
    assert RewrittenFiles(here).read(7) == {"a": (A,), "b": (B,)}


def test_a_damaged_file_of_an_earlier_version_is_named(tmp_path: Path) -> None:
    here = checkpoint(tmp_path)
    path = kept_by_an_earlier_version(here, 7, A)
    path.write_text("{")
    with pytest.raises(CheckpointMismatch, match="written once more") as caught:
        RewrittenFiles(here).read(7)
    assert str(path) in str(caught.value)
