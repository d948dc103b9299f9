"""The checkpoint's folder."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.folder import Checkpoint


def test_a_new_one_knows_no_batch(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "new")
    assert checkpoint.last_spark_batch() is None
    assert checkpoint.last_committed_batch() is None
    assert checkpoint.query_id() is None


def test_batches_are_counted_as_numbers_beside_spark_s_checksums(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.offsets.mkdir()
    checkpoint.commits.mkdir()
    for name in ("9", "10", ".10.crc", "11.tmp", ".12.uuid.tmp", "\u0663"):
        (checkpoint.offsets / name).touch()
    (checkpoint.commits / "9").touch()
    assert checkpoint.last_spark_batch() == 10
    assert checkpoint.last_committed_batch() == 9


def test_making_it_twice_changes_nothing(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path / "deep" / "games")
    checkpoint.make()
    (checkpoint.pins / "kept.json").touch()
    checkpoint.make()
    made = sorted(folder.name for folder in checkpoint.folder.iterdir())
    assert made == ["aside", "changes", "lease", "manifests", "pins", "resolutions", "rewritten", "stuck"]
    assert (checkpoint.pins / "kept.json").exists()


def test_leftovers_are_swept_everywhere(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.make()
    (tmp_path / ".generation.json.1.tmp").touch()
    (checkpoint.manifests / ".0.json.1.tmp").touch()
    (checkpoint.manifests / "0.json").touch()
    assert checkpoint.sweep() == 2
    assert [file.name for file in checkpoint.manifests.iterdir()] == ["0.json"]


def test_the_query_s_id_is_read_from_spark_s_file(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.metadata.write_text('{"id":"cf2d54c9"}')
    assert checkpoint.query_id() == "cf2d54c9"


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"id"'])
def test_a_broken_query_id_is_named(tmp_path: Path, text: str) -> None:
    checkpoint = Checkpoint(tmp_path)
    checkpoint.metadata.write_text(text)
    with pytest.raises(CheckpointMismatch, match="cut off or edited"):
        checkpoint.query_id()


def test_checksums_of_files_that_are_gone_are_swept(tmp_path: Path) -> None:
    checkpoint = Checkpoint(tmp_path)
    for folder in (checkpoint.offsets, checkpoint.commits):
        folder.mkdir()
        for name in ("0", ".0.crc", ".1.crc"):
            (folder / name).touch()
    assert checkpoint.sweep() == 2
    for folder in (checkpoint.offsets, checkpoint.commits):
        assert sorted(file.name for file in folder.iterdir()) == [".0.crc", "0"]
