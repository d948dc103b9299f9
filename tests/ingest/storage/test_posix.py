"""What a folder alone could get wrong: it is listed in steps, while others write there."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from errno import EACCES
from pathlib import Path

import pytest
from typing_extensions import Self

from distributary.ingest.storage import posix
from distributary.ingest.storage.posix import PosixFiles, temporary_files


class Scanned:
    """What was asked of the file system while folders were listed."""

    def __init__(self) -> None:
        self.told = 0
        self.stats = 0


class Entry:
    """An entry of a folder that counts what is asked of it."""

    def __init__(self, entry: os.DirEntry[str], scanned: Scanned) -> None:
        self.name, self._entry, self._scanned = entry.name, entry, scanned
        self.is_file, self.is_dir, self.is_symlink = entry.is_file, entry.is_dir, entry.is_symlink

    def stat(self) -> os.stat_result:
        self._scanned.stats += 1
        return self._entry.stat()


@pytest.fixture
def scanned(monkeypatch: pytest.MonkeyPatch) -> Scanned:
    counted, scandir = Scanned(), os.scandir

    class Counting:
        def __init__(self, folder: str) -> None:
            self._entries = scandir(folder)

        def __enter__(self) -> Self:
            return self

        def __exit__(self, *_: object) -> None:
            self._entries.close()

        def __iter__(self) -> Counting:
            return self

        def __next__(self) -> Entry:
            counted.told += 1
            return Entry(next(self._entries), counted)

    monkeypatch.setattr(os, "scandir", Counting)
    return counted


def test_a_file_that_makes_room_for_another_while_its_folder_is_listed_does_not_hide_both(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = PosixFiles(tmp_path)
    files.put("closed/1", b"")

    def take_turns() -> None:
        files.put("closed/2", b"")
        files.delete(["closed/1"])

    amid(monkeypatch, take_turns)
    assert list(files.names("closed")) == ["1"], "it was there when the other was not"


def test_a_listing_ends_though_files_vanish_again_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = PosixFiles(tmp_path)
    for number in range(10):
        files.put(f"f/{number}", b"")
    going = iter(range(10))
    amid(monkeypatch, lambda: files.delete([f"f/{next(going)}"]))
    assert [info.name for info in files.list("f")] == [str(number) for number in range(1, 10)]
    assert list(files.names("f")) == [str(number) for number in range(1, 10)]
    assert list(files.names("f")) == [str(number) for number in range(2, 10)]


def test_names_are_told_without_a_question_about_each_file(tmp_path: Path, scanned: Scanned) -> None:
    files = PosixFiles(tmp_path)
    for number in range(50):
        files.put(f"f/{number}", b"", named_later=True)
    assert len(list(files.names("f"))) == 50
    assert scanned.stats == 0
    assert len(list(files.list("f"))) == scanned.stats == 50


def test_whether_there_is_a_file_is_known_at_the_first_one(tmp_path: Path, scanned: Scanned) -> None:
    files = PosixFiles(tmp_path)
    for number in range(50):
        files.put(f"f/{number}", b"", named_later=True)
    assert files.has_files("f")
    assert (scanned.told, scanned.stats) == (1, 0)


def amid(monkeypatch: pytest.MonkeyPatch, happens: Callable[[], None]) -> None:
    """Something happens in each listing, when the folder is read and no file was asked for yet."""
    look = posix._entries

    def interrupted(folder: str) -> list[os.DirEntry[str]]:
        found = look(folder)
        happens()
        return found

    monkeypatch.setattr(posix, "_entries", interrupted)


def test_a_link_that_leads_in_a_circle_is_no_folder_and_no_file(tmp_path: Path) -> None:
    files = PosixFiles(tmp_path)
    files.put("folder/file", b"")
    for name in ("circle", "folder/circle"):
        (tmp_path / name).symlink_to(tmp_path / name)
    (tmp_path / "linked").symlink_to(tmp_path / "folder")
    assert list(files.folders()) == ["folder", "linked"]
    assert list(files.names("folder")) == [info.name for info in files.list("linked")] == ["file"]
    assert not files.has_files("circle") and list(files.names("circle")) == []


def test_what_a_link_leads_to_is_not_cleared(tmp_path: Path) -> None:
    files = PosixFiles(tmp_path)
    files.put("elsewhere/file", b"1")
    files.put("f/.hidden.tmp", b"")
    (tmp_path / "f" / "linked").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "f" / "circle").symlink_to(tmp_path / "f" / "circle")
    assert list(files.clear("f")) == []
    assert os.listdir(tmp_path / "f") == []
    assert files.read("elsewhere/file") == b"1"


def test_what_cannot_be_deleted_stays_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files, unlink = PosixFiles(tmp_path), os.unlink
    for path in ("f/a", "f/kept/others", "f/kept/b", "f/z"):
        files.put(path, b"1")

    def refused(path: str) -> None:
        if path.endswith("others"):
            raise PermissionError(EACCES, "Permission denied", path)
        unlink(path)

    monkeypatch.setattr(os, "unlink", refused)
    (left,) = files.clear("f")
    assert "Permission denied" in left and "f/kept/others" in left
    assert list(files.names("f")) == [] and list(files.names("f/kept")) == ["others"]


_HOLDS = """
import sys
from distributary.ingest.storage.posix import temporary_files
with temporary_files("distributary-test-") as files:
    files.put("rows", b"somebody's")
    print(files, flush=True)
    sys.stdin.read()
"""


def test_what_a_killed_process_put_away_goes_with_the_next_folder_of_its_kind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        left = Path(process.stdout.readline().strip())
        with temporary_files("distributary-test-"), temporary_files("distributary-other-"):
            assert (left / "rows").is_file()
        process.kill()
    with temporary_files("distributary-other-"):
        assert left.is_dir()
    with temporary_files("distributary-test-") as files:
        assert [*tmp_path.iterdir()] == [Path(files.url)]
    assert [*tmp_path.iterdir()] == []


def test_folders_nested_deeper_than_any_path_names_keep_no_other_file_from_being_found(
    tmp_path: Path,
) -> None:
    """As an archive unpacks that was made for this, or a program that loses its way."""
    files, told = PosixFiles(tmp_path), list[OSError]()
    files.put("z/here", b"1")
    here, names = os.getcwd(), ["deep" * 10] * 30 + ["d"] * 1600
    try:
        os.chdir(tmp_path)
        for name in names:
            os.mkdir(name)
            os.chdir(name)
        Path("lost").write_bytes(b"2")
        os.chdir(tmp_path)
        assert [one.path for one in files.walk(passing=told.append)] == ["z/here"]
        assert len(told) == 1
    finally:
        subprocess.run(["rm", "-rf", names[0]], cwd=tmp_path, check=True)
        os.chdir(here)
