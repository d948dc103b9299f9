"""What a look takes note of that it cannot read."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.landing.landed import looking, paths, put

from distributary.ingest.landing.looking import Looking
from distributary.ingest.storage.contract import Info
from distributary.ingest.storage.posix import PosixFiles


def test_a_file_that_goes_before_it_is_read_is_nobodys_key(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one that a program writes and takes away all the time; a new pipeline ended with what was said of it."""
    beat = tmp_path / "landing" / "beat"
    beat.parent.mkdir()
    content = Looking._content

    def gone(self: Looking, info: Info) -> str | None:
        beat.unlink()
        return content(self, info)

    monkeypatch.setattr(Looking, "_content", gone)
    look = looking(PosixFiles(tmp_path))
    for _ in range(3):
        beat.write_bytes(b"x")
        look.look(0)
    assert (look.refused.met, paths(look)) == ([], [])


def test_a_folder_that_is_not_there_is_told_once_each_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As of a path with a slip in it: nothing would be read, and nothing said."""
    files = PosixFiles(tmp_path)
    look = looking(files)
    for _ in range(2):
        look.look(0)
    (told,) = caplog.messages
    assert told.startswith(f"{tmp_path}/landing is not there, and nothing is read until it is")
    put(files, {"a": b"1"})
    look.look(0)
    files.rename("landing", "elsewhere")
    look.look(0)
    assert len(caplog.messages) == 2


def test_a_glob_that_no_file_fits_is_told_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """As one with braces, which mean nothing in it."""
    files = PosixFiles(tmp_path)
    for glob, count in (("*.{json,jsonl}", 1), ("*.json", 0)):
        put(files, {"a.json": b"{}", "_b.json": b"{}"})
        look = looking(files, glob=glob)
        caplog.clear()
        look.look(0)
        look.look(0)
        assert len(caplog.messages) == count
        assert all("1 do not fit" in one and glob in one for one in caplog.messages)
    # Those that fitted may have been archived since.
    (tmp_path / "landing" / "a.json").rename(tmp_path / "landing" / "a.done")
    caplog.clear()
    looking(files, glob="*.json").look(1)
    assert not caplog.messages


def test_a_folder_without_a_file_is_told_once_and_once_more_where_none_that_comes_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As of a path with a slip in it, which in a store is a folder without files."""
    files = PosixFiles(tmp_path)
    (tmp_path / "landing").mkdir()
    look = looking(files)
    for _ in range(2):
        look.look(0)
    assert [one.partition(": ")[2][:22] for one in caplog.messages] == ["no file is there yet: "]
    put(files, {"_b.json": b"2", ".c": b"3"})
    for _ in range(2):
        look.look(0)
    assert "of 2 files none is taken" in "".join(caplog.messages[1:])
    assert len(caplog.messages) == 2


def test_of_files_that_settle_nobody_is_told_that_none_is_taken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    put(PosixFiles(tmp_path), {"a.json": b"{}", "a.md5": b"0"})
    looking(PosixFiles(tmp_path), glob="*.json", settle=3600.0).look(0)
    assert not caplog.messages
