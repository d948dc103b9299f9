"""A checkpoint of the layout before the log: taken over in place, wherever that is interrupted, and closed to the programs of that time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.ingest.batches import decided, generation, settled
from tests.ingest.commit_log.logs import numbers_of
from tests.ingest.kafka_records import TOPIC, numbered, value
from tests.ingest.pipelines import begun, checkpoint
from typing_extensions import Buffer

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.checkpoint.manifest_json import to_json
from distributary.ingest.checkpoint.manifests import ManifestStore, manifest_of
from distributary.ingest.checkpoint.old_layout import adopt, check_owner, first_offsets
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.storage.posix import PosixFiles


@pytest.fixture
def here(tmp_path: Path) -> Checkpoint:
    return checkpoint(tmp_path)


@pytest.fixture
def manifest(tmp_path: Path) -> Manifest:
    return decided(tmp_path, settled(tmp_path, numbered([value(1)])), {TOPIC: {0: (0, 1)}})


def old_manifest(here: Checkpoint, manifest: Manifest, number: int) -> Path:
    path = here.folder / "manifests" / f"{number}.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(to_json(replace(manifest, batch_id=number))))
    return path


def born_before_the_log(tmp_path: Path, here: Checkpoint) -> None:
    generation(tmp_path)
    value = json.loads((here.folder / "generation.json").read_text())
    (here.folder / "generation.json").write_text(json.dumps({**value, "format": 1}))


def taken_over(tmp_path: Path, here: Checkpoint) -> Manifest | None:
    """Somebody goes on from there; the newest manifest that he finds."""
    adopt(here, generation(tmp_path))
    writer = begun(here)
    batch, _ = writer.last()
    return None if batch is None else manifest_of(batch, here.log)


def blocked(here: Checkpoint, number: int) -> bool:
    """Whether a program that knows the first format alone can neither write a batch's manifest nor read it."""
    path = f"manifests/{number}.json"
    assert not here.files.put_new(path, b"that of the old program")
    return bool(json.loads(here.files.read(path))["format"] != 1)


def test_it_goes_on_behind_the_newest_manifest(tmp_path: Path, here: Checkpoint, manifest: Manifest) -> None:
    for number in (6, 7):
        old_manifest(here, manifest, number)
    assert ManifestStore(here).last() == replace(manifest, batch_id=7), "it is read before it is taken over"
    assert ManifestStore(here).read(7) == replace(manifest, batch_id=7)
    assert taken_over(tmp_path, here) == replace(manifest, batch_id=7)
    assert here.log.state().next == 9
    assert here.log.state().so_far is not None
    assert blocked(here, 8)
    assert numbers_of(begun(here).unsettled()) == [7, 8, 9]
    assert ManifestStore(here).last_batch() == 7


def test_one_without_any_batch_begins_where_spark_had_written_down(tmp_path: Path, here: Checkpoint) -> None:
    initial = here.folder / "sources" / "0" / "0"
    initial.parent.mkdir(parents=True)
    initial.write_text("\0v1\n" + json.dumps({TOPIC: {"0": 17}}))
    born_before_the_log(tmp_path, here)
    assert taken_over(tmp_path, here) is None
    assert first_offsets(here) == {TOPIC: {0: 17}}
    assert blocked(here, 0)


def test_one_that_was_only_born_is_closed_to_the_programs_that_can_read_it(
    tmp_path: Path, here: Checkpoint
) -> None:
    born_before_the_log(tmp_path, here)
    for _ in range(2):
        assert taken_over(tmp_path, here) is None
        assert first_offsets(here) is None
        assert blocked(here, 0)
    assert here.log.state().next == 2
    assert len(list((here.folder / "manifests").iterdir())) == 1


def test_of_a_new_one_nothing_is_taken_over(tmp_path: Path, here: Checkpoint) -> None:
    assert taken_over(tmp_path, here) is None
    assert first_offsets(here) is None
    assert not (here.folder / "manifests").exists()


def test_files_that_were_written_again_are_taken_over_too(
    tmp_path: Path, here: Checkpoint, manifest: Manifest
) -> None:
    old_manifest(here, manifest, 7)
    again = DataFile("silver_chess_events", "again.parquet", 1, 10, "{}")
    (here.folder / "rewritten").mkdir()
    table = manifest.tables[0].folder
    (here.folder / "rewritten" / "7.json").write_text(
        json.dumps({table: [{name: getattr(again, name) for name in DataFile.__slots__}]})
    )
    found = taken_over(tmp_path, here)
    assert found is not None
    assert next(one for one in found.tables if one.folder == table).files == (again,)


def test_a_batch_that_the_old_program_decides_meanwhile_is_taken_over(
    tmp_path: Path, here: Checkpoint, manifest: Manifest, monkeypatch: pytest.MonkeyPatch
) -> None:
    old_manifest(here, manifest, 7)
    put, rivals = PosixFiles.put_new, [8, 9]

    def later(files: PosixFiles, path: str, data: Buffer, *, durable: bool = True) -> bool:
        if rivals and path.startswith("manifests/"):
            old_manifest(here, manifest, rivals.pop(0))
        return put(files, path, data, durable=durable)

    monkeypatch.setattr(PosixFiles, "put_new", later)
    assert taken_over(tmp_path, here) == replace(manifest, batch_id=9)
    assert blocked(here, 10)
    assert here.log.state().next == 11


@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("number", [0, 7])
def test_wherever_it_is_interrupted_the_next_one_comes_to_the_same(
    tmp_path: Path, here: Checkpoint, manifest: Manifest, number: int, behind: bool
) -> None:
    generation(tmp_path)
    old_manifest(here, manifest, number)
    for step in range(1, 6):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(PosixFiles, "put_new", dying_at(step, behind))
            try:
                taken_over(tmp_path, here)
            except Died:
                continue
        break
    assert step > 2
    assert taken_over(tmp_path, here) == replace(manifest, batch_id=number)
    assert blocked(here, number + 1)


class Died(BaseException):
    """The end of a process."""


def dying_at(step: int, behind: bool) -> Callable[..., bool]:
    """`put_new` by a process that dies at so many calls of it, before or behind."""
    put, calls = PosixFiles.put_new, iter(range(1, 99))

    def dying(files: PosixFiles, path: str, data: Buffer, *, durable: bool = True) -> bool:
        ends = next(calls) == step
        if ends and not behind:
            raise Died
        done = put(files, path, data, durable=durable)
        if ends:
            raise Died
        return done

    return dying


def test_manifests_of_another_checkpoint_are_refused(
    tmp_path: Path, here: Checkpoint, manifest: Manifest
) -> None:
    old_manifest(here, replace(manifest, generation="another"), 7)
    with pytest.raises(CheckpointMismatch, match="of generation another, the checkpoint is generation"):
        adopt(here, generation(tmp_path))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"format": 9}', '{"format": "x"}'])
def test_a_manifest_that_was_edited_is_named(tmp_path: Path, here: Checkpoint, text: str) -> None:
    (here.folder / "manifests").mkdir()
    (here.folder / "manifests" / "7.json").write_text(text)
    with pytest.raises(CheckpointMismatch, match=r"manifests/7\.json was cut off or edited"):
        adopt(here, generation(tmp_path))


def test_batches_without_a_generation_are_refused(
    here: Checkpoint, tmp_path: Path, manifest: Manifest
) -> None:
    check_owner(Checkpoint.at(tmp_path / "new"), None)
    old_manifest(here, manifest, 7)
    with pytest.raises(CheckpointMismatch, match=r"generation\.json is gone, though batches were decided"):
        check_owner(here, None)
    check_owner(here, generation(tmp_path))


def test_the_checkpoint_of_another_query_is_refused(tmp_path: Path) -> None:
    (tmp_path / "offsets").mkdir()
    with pytest.raises(CheckpointMismatch, match="is the checkpoint of another Spark query"):
        check_owner(Checkpoint.at(tmp_path), None)
