from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.contest import contest
from tests.ingest.landing.landed import register_some

from distributary.errors import CheckpointMismatch, NewerFormat
from distributary.ingest.landing import register as module
from distributary.ingest.landing.entries import READERS, entry_path, readers
from distributary.ingest.landing.known import digest
from distributary.ingest.landing.numbers import Landed
from distributary.ingest.landing.register import Register
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.posix import PosixFiles


def opened(files: Files, place: str = "/landing") -> Register:
    return Register(files, place)


def file(number: int, path: str, content: str = "") -> Landed:
    return Landed(number, path, 7, 1000, f"tag {path}", content or f"of {path}")


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have ten entries come together, where in earnest it is a hundred."""
    monkeypatch.setattr(module, "_TOGETHER", 10)


def append(register: Register, *paths: str) -> None:
    first = register.next_number
    assert register.append([file(first + place, path) for place, path in enumerate(paths)])


def test_what_was_registered_has_the_same_numbers_for_whoever_asks(files: Files) -> None:
    one = opened(files)
    append(one, "a", "b")
    append(one, "c")
    other = opened(files)
    assert (other.id, other.next_number) == (one.id, 3)
    assert other.between(0, 3) == one.between(0, 3) == [file(0, "a"), file(1, "b"), file(2, "c")]
    assert other.between(1, 2) == [file(1, "b")]


def test_of_two_who_register_one_is_first_and_the_other_learns_it(files: Files) -> None:
    one, other = opened(files), opened(files)
    append(one, "a")
    assert not other.append([file(0, "b")])
    assert other.between(0, 1) == [file(0, "a")]
    append(other, "b")
    one.refresh()
    assert one.between(0, 2) == [file(0, "a"), file(1, "b")]


@pytest.mark.usefixtures("few")
def test_many_entries_come_together_and_nothing_is_forgotten(tmp_path: Path) -> None:
    files = PosixFiles(tmp_path)
    one = opened(files)
    for number in range(73):
        append(one, f"file-{number}")
        one.bring_together()
    there = [file(number, f"file-{number}") for number in range(73)]
    for register in (one, opened(files)):
        assert register.between(0, 73) == there
        assert register.between(9, 11) == there[9:11]
        assert register.paths.get(digest("file-9")) is not None
    assert len(list(files.walk())) < 14, "a start reads few objects"


@pytest.mark.usefixtures("few")
def test_no_segment_becomes_larger_than_is_held_in_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Renamed files count as others do, though they have no number."""
    monkeypatch.setattr(module, "_LARGEST", 40)
    one = opened(PosixFiles(tmp_path))
    for number in range(100):
        append(one, f"file-{number}")
        assert one.append([Landed(number, f"name-{number}", 7, 1000, "tag", f"file-{number}", "same")])
        one.bring_together()
    sizes = [pq.read_metadata(path).num_rows for path in (tmp_path / "segments").iterdir()]
    assert max(sizes) <= 40
    assert len(sizes) < 20
    other = opened(PosixFiles(tmp_path))
    assert other.between(0, 100) == one.between(0, 100)
    assert other.paths.get(digest("name-7")) == one.paths.get(digest("name-7")) is not None


@pytest.mark.usefixtures("few")
def test_names_that_are_no_utf_8_come_together_with_others(tmp_path: Path) -> None:
    files = PosixFiles(tmp_path)
    one = opened(files)
    names = [f"file-{number}" + ("\udce9" if number in (3, 42) else "") for number in range(73)]
    for number, name in enumerate(names):
        assert one.append([Landed(number, name, 7, 1000, "tag", f"7 tag {name}")])
        one.bring_together()
    for register in (one, opened(files)):
        assert [found.path for found in register.between(0, 73)] == names
        assert register.paths.get(digest("file-3\udce9")) is not None


@pytest.mark.usefixtures("few")
def test_files_that_are_told_as_gone_stay_so_once_entries_come_together(tmp_path: Path) -> None:
    files = PosixFiles(tmp_path)
    one = opened(files)
    for number in range(73):
        # A name that is no UTF-8 has all of its segment's as bytes.
        name = f"file-{number}" + ("\udce9" if number == 40 else "")
        assert one.append([Landed(number, name, 7, 1000, "tag", f"7 tag {name}")])
        if number in (5, 40):
            (gone,) = one.between(number, number + 1)
            assert one.append([replace(gone, kind="gone")])
        one.bring_together()
    for register in (one, opened(files)):
        found = register.between(0, 73)
        assert [file.number for file in found if file.kind == "gone"] == [5, 40]
        assert [file.number for file in found if register.is_nobodys(file.number)] == [5, 40]
        assert register.next_number == 73
        assert register.paths.get(digest("file-5")) is not None


@pytest.mark.usefixtures("few")
def test_who_tells_files_as_gone_while_entries_come_together_finds_what_he_has_put_for_nothing(
    tmp_path: Path,
) -> None:
    files = PosixFiles(tmp_path)
    one = opened(files)
    append(one, "file")
    late = opened(files)
    for number in range(25):
        append(one, f"file-{number}")
        one.bring_together()
    (file,) = one.between(0, 1)
    assert not late.append([replace(file, kind="gone")])
    assert late.between(0, 26) == one.between(0, 26)
    assert late.append([replace(file, kind="gone")])
    one.refresh()
    assert one.is_nobodys(0)


@pytest.mark.usefixtures("few")
def test_an_older_version_is_told_by_what_has_files_that_are_gone_and_by_nothing_else(
    tmp_path: Path,
) -> None:
    files = PosixFiles(tmp_path)
    one = opened(files)
    append(one, "a")
    (gone,) = one.between(0, 1)
    assert one.append([replace(gone, kind="gone")])
    append(one, "b")
    formats = [json.loads(files.read(entry_path(number)))["format"] for number in range(4)]
    assert formats == [1, 1, 3, 1]
    for number in range(10):
        append(one, f"file-{number}")
    one.bring_together()
    (segment,) = (tmp_path / "segments").iterdir()
    assert pq.read_schema(segment).metadata[b"format"] == b"3"


@pytest.mark.usefixtures("few")
def test_who_stood_still_while_entries_came_together_finds_what_he_has_put_for_nothing(
    tmp_path: Path,
) -> None:
    files = PosixFiles(tmp_path)
    one, late = opened(files), opened(files)
    for number in range(25):
        append(one, f"file-{number}")
        one.bring_together()
    assert not files.info(entry_path(1)), "its number is free again"
    assert not late.append([file(0, "too late")])
    assert late.between(0, 25) == one.between(0, 25)
    reader = opened(files)
    assert "too late" not in [one.path for one in reader.between(0, 25)]
    append(late, "in time")
    reader.refresh()
    assert reader.between(25, 26) == [file(25, "in time")]


@pytest.mark.usefixtures("few")
def test_a_reader_that_stood_still_reads_no_entry_that_came_too_late(tmp_path: Path) -> None:
    files = PosixFiles(tmp_path)
    reader, one, late = opened(files), opened(files), opened(files)
    for number in range(15):
        append(one, f"file-{number}")
        one.bring_together()
    assert not late.append([file(0, "too late")])
    reader.refresh()
    assert reader.between(0, 15) == one.between(0, 15)


def test_of_several_processes_each_file_gets_one_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found: list[str] = [path for (path,) in contest(register_some, [(str(tmp_path), name) for name in "abc"])]
    register = opened(PosixFiles(tmp_path))
    assert register.next_number == 120
    assert sorted(one.path for one in register.between(0, 120)) == sorted(found)


def test_side_by_side_in_one_process_entries_come_together_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TOGETHER", 3)
    with ThreadPoolExecutor(4) as pool:
        each = list(pool.map(lambda name: register_some(str(tmp_path), name), "abcd"))
    register = opened(PosixFiles(tmp_path))
    assert sorted(one.path for one in register.between(0, 160)) == sorted(
        path for paths in each for (path,) in paths
    )


def test_what_another_brings_together_as_soon_as_it_is_there_is_registered_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TOGETHER", 3)
    one, other = opened(PosixFiles(tmp_path)), opened(PosixFiles(tmp_path))
    append(one, "a")
    append(one, "b")
    put_new = one.files.put_new

    def put_and_be_overtaken(path: str, data: bytes) -> bool:
        is_first = put_new(path, data)
        other.refresh()
        other.bring_together()
        return is_first

    monkeypatch.setattr(one.files, "put_new", put_and_be_overtaken)
    append(one, "c")
    monkeypatch.undo()
    append(one, "d")
    assert [found.path for found in opened(PosixFiles(tmp_path)).between(0, 4)] == ["a", "b", "c", "d"]


def test_another_folder_has_no_part_in_it(files: Files) -> None:
    opened(files)
    with pytest.raises(CheckpointMismatch, match=r"register of the files in /landing, .*source\.files\.name"):
        opened(files, "/elsewhere")


def test_a_newer_format_is_refused_by_name(files: Files) -> None:
    opened(files)
    files.put(entry_path(1), b'{"format": 4}')
    with pytest.raises(NewerFormat, match=r"entries/0+1\.json has format 4"):
        opened(files)


@pytest.mark.parametrize("damage", [b"", b"{", b'{"format": 1, "files": [[1]]}', b"[]"])
def test_an_entry_that_is_none_is_told_with_its_path(files: Files, damage: bytes) -> None:
    opened(files)
    files.put(entry_path(1), damage)
    with pytest.raises(CheckpointMismatch, match=r"entries/0+1\.json was cut off or edited"):
        opened(files)


def test_a_register_from_an_older_copy_is_told(files: Files) -> None:
    one = opened(files)
    append(one, "a")
    with pytest.raises(CheckpointMismatch, match="no number 1: it was put back from an older copy"):
        one.between(0, 2)


def test_another_pipeline_is_refused_by_name_whoever_comes_first(files: Files) -> None:
    opened(files).require_reader("games")
    opened(files).require_reader("games")
    with pytest.raises(
        CheckpointMismatch,
        match=r"pipeline games reads .*give more a register of its own by source\.files\.name",
    ):
        opened(files).require_reader("more")
    # Who knows that they have shared it may say so.
    files.put(READERS, readers(["games", "more"]))
    opened(files).require_reader("more")
