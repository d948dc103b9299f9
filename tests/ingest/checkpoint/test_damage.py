"""Every file of a checkpoint that is not what was written there stops the run with a sentence that says what to do."""

from __future__ import annotations

import base64
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.ingest.batches import decided, settled
from tests.ingest.kafka_records import TOPIC, numbered, value
from tests.ingest.pipelines import checkpoint, keep

from distributary.errors import CheckpointMismatch, CommitImpossible
from distributary.ingest.checkpoint.change_log import ChangeLog, TableChange
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import World, born, read_generation
from distributary.ingest.checkpoint.manifests import ManifestStore
from distributary.ingest.checkpoint.stuck import Resolutions, StuckCommits
from distributary.ingest.commit_log.reading import entry_path
from distributary.ingest.schemas.pinned import PinsStore
from distributary.registry.base import Schema

CREATED = TableChange("t", "created", "a", "bigint", "", None, None, None, None)

# How each file is written, read, and what is to be done where it is damaged.
FILES: dict[str, tuple[Callable[[Checkpoint], object], Callable[[Checkpoint], object], str]] = {
    "generation.json": (
        lambda here: born(here, "games", World("cluster", {}, {})),
        read_generation,
        "a new checkpoint",
    ),
    "changes/0000000007-0.json": (
        lambda here: ChangeLog(here).write(7, [CREATED]),
        lambda here: ChangeLog(here).read(),
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
    (here.folder / name).write_text(text)
    with pytest.raises(CheckpointMismatch, match=remedy) as caught:
        read(here)
    assert str(here.folder / name) in str(caught.value)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("number", [errno.EMFILE, errno.ESTALE, errno.EIO])
def test_a_file_that_just_now_cannot_be_read_is_not_damaged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, number: int
) -> None:
    write, read, _ = FILES[name]
    here = checkpoint(tmp_path)
    write(here)

    def failing(path: Path) -> bytes:
        raise OSError(number, os.strerror(number), str(path))

    monkeypatch.setattr(Path, "read_bytes", failing)
    with pytest.raises(OSError, match=name) as caught:
        read(here)
    assert caught.value.errno == number


def test_a_manifest_with_a_layout_that_is_none_is_named(tmp_path: Path) -> None:
    here = checkpoint(tmp_path)
    manifest = decided(tmp_path, settled(tmp_path, numbered([value(1)])), {TOPIC: {0: (0, 1)}})
    keep(here, manifest)
    path = here.folder / entry_path(manifest.batch_id)
    layout = manifest.tables[0].layout.serialized
    # Without its head, Arrow reads it to the end before it finds that it is not a schema.
    cut = base64.b64encode(layout[8:]).decode()
    path.write_text(path.read_text().replace(base64.b64encode(layout).decode(), cut))
    with pytest.raises(CheckpointMismatch, match=r"\.json was cut off or edited.*new checkpoint"):
        ManifestStore(here).read(manifest.batch_id)
