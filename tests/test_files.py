"""Files that are whole or not there, under rivals and crashes."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from errno import EINVAL, EIO, EMFILE, ENOLCK, EPERM
from pathlib import Path
from threading import Barrier, Event

import pytest

from distributary import files
from distributary.errors import SetupError
from distributary.files import NotSafe, make_folder, replace, sweep, temporary_folder, write_once
from distributary.ingest.storage.posix import PosixFiles


def names(folder: Path) -> list[str]:
    return sorted(file.name for file in folder.iterdir())


def test_the_first_writer_wins_and_the_file_stays_his(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "er" / "file.json"
    assert write_once(path, b"one")
    assert not write_once(path, b"two")
    assert path.read_bytes() == b"one"
    assert names(path.parent) == ["file.json"]


def test_one_that_need_not_last_through_a_loss_of_power_is_as_whole_and_makes_no_folder(
    tmp_path: Path,
) -> None:
    assert write_once(tmp_path / "file", b"one", durable=False)
    assert not write_once(tmp_path / "file", b"two", durable=False)
    assert (tmp_path / "file").read_bytes() == b"one"
    assert names(tmp_path) == ["file"]
    with pytest.raises(FileNotFoundError):
        write_once(tmp_path / "gone" / "file", b"one", durable=False)
    assert not (tmp_path / "gone").exists()


def test_replace_puts_the_new_content_in_place(tmp_path: Path) -> None:
    path = tmp_path / "file.json"
    replace(path, b"one")
    replace(path, b"two")
    assert path.read_bytes() == b"two"
    assert names(tmp_path) == ["file.json"]


def test_of_many_threads_exactly_one_wins(tmp_path: Path) -> None:
    path, threads = tmp_path / "file", 16
    start = Barrier(threads)

    def race(number: int) -> bool:
        start.wait()
        return write_once(path, str(number).encode() * 10_000)

    with ThreadPoolExecutor(threads) as pool:
        won = list(pool.map(race, range(threads)))
    assert won.count(True) == 1
    assert path.read_bytes() == str(won.index(True)).encode() * 10_000
    assert names(tmp_path) == ["file"]


RACER = """
import sys
from pathlib import Path
from distributary.files import write_once
print("ready", flush=True)
sys.stdin.readline()
print(write_once(Path(sys.argv[1]), sys.argv[2].encode() * 10_000))
"""


def test_of_many_processes_exactly_one_wins(tmp_path: Path) -> None:
    path = tmp_path / "file"
    racers = [
        subprocess.Popen(
            [sys.executable, "-c", RACER, str(path), str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(4)
    ]
    for racer in racers:
        assert racer.stdout is not None and racer.stdout.readline() == "ready\n"
    won = []
    for racer in racers:
        assert racer.stdin is not None
        racer.stdin.write("go\n")
        racer.stdin.flush()
    for racer in racers:
        answer, _ = racer.communicate(timeout=30)
        won.append(answer.strip() == "True")
    assert won.count(True) == 1
    assert path.read_bytes() == str(won.index(True)).encode() * 10_000


def test_a_reader_never_sees_half_a_replacement(tmp_path: Path) -> None:
    path, done = tmp_path / "file", Event()
    replace(path, b"0" * 100_000)

    def write() -> None:
        for number in range(50):
            replace(path, str(number % 10).encode() * 100_000)
        done.set()

    with ThreadPoolExecutor(1) as pool:
        writer = pool.submit(write)
        while not done.is_set() and not writer.done():
            seen = path.read_bytes()
            assert len(seen) == 100_000 and len(set(seen)) == 1
        writer.result()


@pytest.mark.parametrize("call", [write_once, replace])
def test_a_disk_that_fills_up_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: Callable[[Path, bytes], object]
) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left"):
        call(tmp_path / "file", b"data")
    assert names(tmp_path) == []


def test_a_file_system_without_hard_links_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(EPERM, "Operation not permitted")

    monkeypatch.setattr(os, "link", refuse)
    with pytest.raises(SetupError, match="no hard links"):
        write_once(tmp_path / "file", b"data")
    assert names(tmp_path) == []


def test_leftovers_of_the_killed_are_swept_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / ".file.0123.tmp").write_bytes(b"half")
    (tmp_path / ".0.crc").write_bytes(b"Spark's")
    (tmp_path / "file").write_bytes(b"whole")
    assert sweep(tmp_path) == 0, "a young one may still have a writer"
    assert sweep(tmp_path, older_than_seconds=0) == 1
    assert names(tmp_path) == [".0.crc", "file"]
    assert sweep(tmp_path / "missing", older_than_seconds=0) == 0


def test_each_new_folder_is_made_durable_in_its_parent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[Path] = []
    monkeypatch.setattr(files, "sync_folder", synced.append)
    make_folder(tmp_path / "a" / "b")
    assert synced == [tmp_path, tmp_path / "a"]


@pytest.mark.parametrize("many", [1, 4, 1000])
def test_files_and_folders_are_synced_one_by_one_or_with_all_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    synced: list[str] = []
    whole: list[str] = []
    fsync = os.fsync

    def noted(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        fsync(descriptor)

    monkeypatch.setattr(files, "MANY", many)
    monkeypatch.setattr(os, "fsync", noted)
    paths = [tmp_path / name for name in "abcde"]
    for path in paths:
        path.write_bytes(b"rows")
    monkeypatch.setattr(files, "_sync_file_system", whole.append)
    files.sync_all(map(str, [*paths, paths[0]]), [str(tmp_path)])
    if many < 1000:
        assert (synced, len(whole)) == ([], 1)
    else:
        assert (sorted(synced), whole) == (sorted(map(str, [*paths, tmp_path])), [])


@pytest.mark.parametrize("many", [1, 1000])
def test_a_file_that_is_gone_cannot_be_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, many: int
) -> None:
    monkeypatch.setattr(files, "MANY", many)
    with pytest.raises(FileNotFoundError):
        files.sync_all([str(tmp_path / "none")])


def test_where_a_system_has_no_call_for_one_file_system_all_are_synced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called = []
    monkeypatch.setattr(files, "_LIBC", object())
    monkeypatch.setattr(os, "sync", lambda: called.append("sync"))
    files.sync_file_systems([str(tmp_path)])
    assert called == ["sync"]


def test_a_file_system_that_cannot_sync_a_folder_is_taken_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(_: int) -> None:
        raise OSError(refused, "refused")

    monkeypatch.setattr(os, "fsync", refuse)
    refused = EINVAL
    files.sync_all([], [str(tmp_path)])
    refused = EIO
    with pytest.raises(OSError, match="refused"):
        files.sync_all([], [str(tmp_path)])


def test_a_file_whose_name_the_disk_did_not_take_is_not_told_to_be_safe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: Path) -> None:
        raise OSError(EIO, os.strerror(EIO))

    with monkeypatch.context() as patch, pytest.raises(NotSafe):
        patch.setattr(files, "sync_folder", refused)
        PosixFiles(tmp_path).put_new("entry", b"one")
    assert PosixFiles(tmp_path).put_new("entry", b"one")


def test_a_temporary_folder_is_had_once_where_a_file_system_has_no_locks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As some of those that many machines share."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    asked: list[int] = []

    def flock(handle: int, how: int) -> None:
        asked.append(how)
        assert len(asked) < 10, "it is asked for over and over"
        raise OSError(ENOLCK, os.strerror(ENOLCK))

    monkeypatch.setattr("fcntl.flock", flock)
    with temporary_folder("distributary-one-") as one, temporary_folder("distributary-one-") as other:
        assert {*tmp_path.iterdir()} == {one, other}
    assert [*tmp_path.iterdir()] == []


def test_a_temporary_folder_that_cannot_be_opened_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    opened: list[object] = []

    def none_left(*asked: object) -> int:
        opened.append(asked)
        assert len(opened) < 10, "it is opened over and over"
        raise OSError(EMFILE, os.strerror(EMFILE))

    monkeypatch.setattr(os, "open", none_left)
    with pytest.raises(OSError, match=os.strerror(EMFILE)), temporary_folder("distributary-one-"):
        raise AssertionError("nobody is let in")
    assert [*tmp_path.iterdir()] == []
