"""A file of a format that only a newer version reads stops whoever meets it, by name: it is whole, and stays as it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.ingest.checkpoint.test_damage import FILES
from tests.ingest.commit_log.logs import begun, decided
from tests.ingest.pipelines import checkpoint

from distributary.errors import NewerFormat
from distributary.ingest.checkpoint import change_log, generation, manifest_json, stuck
from distributary.ingest.checkpoint.manifests import ManifestStore
from distributary.ingest.checkpoint.stuck import Resolutions, StuckCommits
from distributary.ingest.commit_log import entry_json
from distributary.ingest.commit_log.reading import entry_path
from distributary.ingest.schemas import pinned

NEWEST = {
    "generation.json": generation.FORMAT,
    "changes/0000000007-0.json": change_log.FORMAT,
    "pins/id-1.json": pinned.FORMAT,
    "stuck/7.json": stuck.FORMAT,
    "resolutions/7.json": stuck.FORMAT,
}


def refused(file: Path, newest: int, read: Callable[[], object]) -> None:
    """A file that is of a newer format is refused by its path, and with what to do."""
    value = json.loads(file.read_text(encoding="utf-8"))
    # A newer program's file may lack what this one looks for, and have another seal.
    file.write_text(json.dumps({"format": newest + 1, "sha256": value.get("sha256")}), encoding="utf-8")
    before = file.read_bytes()
    with pytest.raises(
        NewerFormat, match=r"a newer version wrote it.*use the version that made it"
    ) as caught:
        read()
    said = str(caught.value)
    assert f"{file} has format {newest + 1}, and this version of distributary reads up to {newest}" in said
    assert "remove" not in said and "delete" not in said and "cut off" not in said
    assert file.read_bytes() == before


def test_each_file_of_a_checkpoint_has_a_format() -> None:
    assert NEWEST.keys() == FILES.keys()


@pytest.mark.parametrize("name", NEWEST)
def test_a_file_of_a_checkpoint(tmp_path: Path, name: str) -> None:
    write, read, _ = FILES[name]
    here = checkpoint(tmp_path)
    write(here)
    refused(here.folder / name, NEWEST[name], lambda: read(here))


def test_an_entry_of_the_log(tmp_path: Path) -> None:
    here = checkpoint(tmp_path)
    begun(here.files)
    refused(here.folder / entry_path(0), entry_json.FORMAT, here.log.state)


def test_a_manifest_within_its_entry(tmp_path: Path) -> None:
    here = checkpoint(tmp_path)
    decided(begun(here.files))
    file = here.folder / entry_path(1)
    value = json.loads(file.read_text(encoding="utf-8"))
    newer = {**value, "decided": {"format": manifest_json.FORMAT + 1}}
    file.write_text(json.dumps(newer), encoding="utf-8")
    with pytest.raises(NewerFormat, match=rf"the manifest in {file} has format {manifest_json.FORMAT + 1}"):
        ManifestStore(here).last()


def test_what_says_no_format_is_of_the_time_before_it_had_one(tmp_path: Path) -> None:
    here = checkpoint(tmp_path)
    stuck_one = {"batch_id": 7, "tables": ["t"], "message": "no", "at": "2026-01-02T03:04:05+00:00"}
    (here.folder / "stuck/7.json").write_text(json.dumps(stuck_one))
    (here.folder / "resolutions/7.json").write_text(json.dumps({"skip": ["t"]}))
    (found,) = StuckCommits(here).read()
    assert (found.batch_id, found.tables) == (7, ("t",))
    assert Resolutions(here).skipped(7) == {"t"}
    # Added to, it has one.
    Resolutions(here).skip(7, "u")
    assert json.loads((here.folder / "resolutions/7.json").read_text()) == {
        "format": stuck.FORMAT,
        "skip": ["t", "u"],
    }
