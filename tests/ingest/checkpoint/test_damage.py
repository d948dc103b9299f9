"""Every file of a checkpoint that is not what was written there stops the run with a sentence that says what to do."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from tests.ingest.pipelines import checkpoint

from distributary.errors import CheckpointMismatch, CommitImpossible
from distributary.ingest.checkpoint.change_log import ChangeLog, TableChange
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import World, born, read_generation
from distributary.ingest.checkpoint.manifest_file import ManifestStore
from distributary.ingest.checkpoint.rewritten import RewrittenFiles
from distributary.ingest.checkpoint.stuck import Resolutions, StuckCommits
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.schemas.store import PinsStore
from distributary.registry.base import Schema

CREATED = TableChange("t", "created", "a", "bigint", "", None, None, None, None)

# How each file is written, read, and what is to be done where it is damaged.
FILES: dict[str, tuple[Callable[[Checkpoint], object], Callable[[Checkpoint], object], str]] = {
    "generation.json": (
        lambda here: born(here, "games", World("cluster", {}, {})),
        read_generation,
        "a new checkpoint",
    ),
    "changes/7-0.json": (
        lambda here: ChangeLog(here).write(7, [CREATED]),
        lambda here: ChangeLog(here).read(7),
        "remove it",
    ),
    "pins/id-1.json": (
        lambda here: PinsStore(here).write((1, ()), Schema(1, "AVRO", '"string"')),
        lambda here: PinsStore(here).read(),
        "registry asked again",
    ),
    "stuck/7.json": (
        lambda here: StuckCommits(here).write(7, CommitImpossible("no", ("t",))),
        lambda here: StuckCommits(here).read(),
        "remove it and run again",
    ),
    "resolutions/7.json": (
        lambda here: Resolutions(here).skip(7, "t"),
        lambda here: Resolutions(here).skipped(7),
        "decide again",
    ),
    "rewritten/7.json": (
        lambda here: RewrittenFiles(here).add(7, {"t": (DataFile("t", "f", 1, 1, "{}"),)}),
        lambda here: RewrittenFiles(here).read(7),
        "written once more",
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_a_file_as_it_was_written_is_read(tmp_path: Path, name: str) -> None:
    write, read, _ = FILES[name]
    here = checkpoint(tmp_path)
    write(here)
    assert (here.folder / name).exists()
    assert read(here)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '"x"', '{"format": 1}', "\xff\xfe", "[[1]]", '{"t": [[1]]}']
)
def test_a_damaged_file_is_named_with_what_to_do(tmp_path: Path, name: str, text: str) -> None:
    write, read, remedy = FILES[name]
    here = checkpoint(tmp_path)
    write(here)
    if name == "rewritten/7.json" and text == "{}":
        return  # what it is before anything was written again
    (here.folder / name).write_text(text)
    with pytest.raises(CheckpointMismatch, match=remedy) as caught:
        read(here)
    assert str(here.folder / name) in str(caught.value)


def test_a_manifest_that_is_damaged_is_named(tmp_path: Path) -> None:
    store = ManifestStore(checkpoint(tmp_path))
    store.path(7).write_text("{")
    with pytest.raises(CheckpointMismatch, match=r"manifests/7\.json was cut off or edited.*new checkpoint"):
        store.read(7)
