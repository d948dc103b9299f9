from __future__ import annotations

import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.landing.landed import looking, put

from distributary.ingest.landing import archiving
from distributary.ingest.landing.archiving import Archive, move
from distributary.ingest.storage.contract import Files, Info
from distributary.ingest.storage.posix import PosixFiles


def archived(files: Files, number: int, path: str, content: bytes) -> int:
    """How many files are moved, of one with this content."""
    folder = files.below("landing")
    folder.put(path, content)
    info: Info | None = folder.info(path)
    assert info is not None
    return move(folder, files.below("archive"), [(number, info)])


def test_a_file_takes_no_place_of_one_that_had_its_path(files: Files) -> None:
    for number, content in enumerate((b"of monday", b"of friday", b"of sunday, longer")):
        assert archived(files, number, "daily/export.json.gz", content) == 1
    archive = files.below("archive")
    assert {one.path: archive.read(one.path) for one in archive.walk()} == {
        "daily/export.json.gz": b"of monday",
        "daily/export.1.json.gz": b"of friday",
        "daily/export.2.json.gz": b"of sunday, longer",
    }
    assert not list(files.below("landing").walk())


def test_what_an_attempt_that_died_has_copied_is_the_same_file(files: Files) -> None:
    files.put("archive/a", b"its content")
    assert archived(files, 7, "a", b"its content") == 1
    assert [one.path for one in files.below("archive").walk()] == ["a"]


@pytest.fixture
def rewritten_late(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Paths at which another file appears behind the last look at the one there, and before that one is deleted."""
    paths, begin = list[str](), os.mkdir

    def mkdir(folder: str | Path, mode: int = 0o777) -> None:
        begin(folder, mode)
        for path in paths if str(folder).endswith(".aside") else ():
            other = Path(f"{path}.new")
            other.write_bytes(b"of tuesday")
            other.rename(path)

    monkeypatch.setattr("distributary.ingest.storage.posix.os.mkdir", mkdir)
    return paths


def test_what_comes_in_the_place_of_a_file_after_the_last_look_at_it_stays(
    tmp_path: Path, rewritten_late: list[str]
) -> None:
    rewritten_late.append(f"{tmp_path}/landing/day=1/a")
    assert archived(PosixFiles(tmp_path), 0, "day=1/a", b"of monday") == 0
    assert [(one.path, one.size) for one in PosixFiles(tmp_path).below("landing").walk()] == [("day=1/a", 10)]
    assert os.listdir(tmp_path / "landing/day=1") == ["a"]


@pytest.mark.parametrize("came", [None, b"of wednesday"])
def test_what_a_run_that_died_took_aside_is_where_it_was_unless_another_file_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, came: bytes | None
) -> None:
    """Of what it held nobody knows whether it was read: it is looked at as any other."""
    files = PosixFiles(tmp_path)
    monkeypatch.setattr(PosixFiles, "_is", lambda self, path, info: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        archived(files, 0, "a", b"of tuesday")
    monkeypatch.undo()
    assert files.info("landing/a") is None
    if came is not None:
        put(files, {"a": came})
    look = looking(files)
    look.look(0)
    look.look(0)
    (found,) = look.register.between(0, look.register.next_number)
    assert (found.path, files.read("landing/a")) == ("a", came or b"of tuesday")
    assert os.listdir(tmp_path / "landing") == ["a"]


@pytest.mark.parametrize(
    "folder", [".upload.aside", ".aside", f".{32 * '0'}.aside", "x.distributary-0.aside"]
)
def test_what_somebody_else_keeps_aside_is_left_alone(tmp_path: Path, folder: str) -> None:
    """It may be half written, and its producer goes on with it."""
    files = PosixFiles(tmp_path)
    put(files, {f"{folder}/x": b"half writ"})
    look = looking(files)
    look.look(0)
    look.look(0)
    assert [one.path for one in files.below("landing").walk()] == [f"{folder}/x"]


def test_of_a_link_the_link_goes_and_what_it_leads_to_stays(tmp_path: Path) -> None:
    files = PosixFiles(tmp_path)
    files.put("elsewhere/a", b"its content")
    (tmp_path / "landing").mkdir()
    (tmp_path / "landing/a").symlink_to("../elsewhere/a")
    folder = files.below("landing")
    info = folder.info("a")
    assert info is not None
    assert move(folder, files.below("archive"), [(0, info)]) == 1
    assert files.read("archive/a") == files.read("elsewhere/a") == b"its content"
    assert not os.listdir(tmp_path / "landing")


@pytest.mark.parametrize("why", ["stop", "time"])
def test_nobody_waits_for_many_files_to_be_moved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    """Neither who stops the run nor what has landed since."""
    files, stop, seconds = PosixFiles(tmp_path), threading.Event(), iter(range(0, 100, 4))
    put(files, {f"{number}": b"its content %d" % number for number in range(9)})
    folder = files.below("landing")
    known = list(enumerate(folder.walk()))
    monkeypatch.setattr(archiving, "monotonic", lambda: next(seconds) if why == "time" else 0)
    copied = archiving._copy

    def copy(*arguments: Any) -> None:
        copied(*arguments)
        if why == "stop":
            stop.set()

    monkeypatch.setattr(archiving, "_copy", copy)
    archive = Archive(files.below("archive"), "its id")
    left = archive.move(folder, known, stop)
    assert left == known[2 if why == "time" else 1 :]
    assert sorted(one.path for one in folder.walk()) == sorted(one.path for _, one in left)
    monkeypatch.undo()
    assert not archive.move(folder, known, threading.Event())
    assert not list(folder.walk())


def test_a_file_that_is_given_twice_is_moved_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Side by side the second one would copy, or delete unread, what comes to the path behind the first."""
    files, asked = PosixFiles(tmp_path), list[int]()
    put(files, {"a": b"its content"})
    known, copied = list(files.below("landing").walk()), archiving._copy

    def copy(folder: Files, to: Files, number: int, file: Info) -> None:
        asked.append(number)
        copied(folder, to, number, file)

    monkeypatch.setattr(archiving, "_copy", copy)
    monkeypatch.setattr(archiving, "_deleted", lambda folder, file: True)
    archive = Archive(files.below("archive"), "its id")
    archive.move(files.below("landing"), [(4, known[0]), (7, known[0]), (4, known[0])], threading.Event())
    assert asked == [7]


def test_what_cannot_be_deleted_is_read_once_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Else each batch waits until all such files are read whole, there and here."""
    files, copied = PosixFiles(tmp_path), list[int]()
    put(files, {"a": b"its content"})
    folder, to, copy = files.below("landing"), files.below("archive"), archiving._copy

    def counted(folder: Files, to: Files, number: int, file: Info) -> Any:
        copied.append(number)
        return copy(folder, to, number, file)

    def deleted(*_: Any) -> bool:
        raise PermissionError("its folder is not yours")

    known, archive = list(enumerate(folder.walk(), 4)), Archive(to, "its id")
    monkeypatch.setattr(archiving, "_copy", counted)
    with monkeypatch.context() as refusing:
        refusing.setattr(archiving, "_deleted", deleted)
        for _ in range(3):
            archive.move(folder, known, threading.Event())
        assert (copied, len(caplog.messages)) == ([4], 1)
        to.delete(["a"])
        archive.move(folder, known, threading.Event())
        assert (copied, len(caplog.messages), to.read("a")) == ([4, 4], 1, b"its content")
    archive.move(folder, known, threading.Event())
    assert (copied, to.read("a"), list(folder.walk())) == ([4, 4], b"its content", [])


def test_what_runs_that_died_had_copied_in_part_goes(tmp_path: Path) -> None:
    """Each death amid a large file left as much of it for ever, under a name that nobody sees."""
    folder, to = PosixFiles(tmp_path / "landing"), PosixFiles(tmp_path / "archive")
    archive = Archive(to, "its id")
    for name in ("a", "day=1/b", "day=1/c"):
        folder.put(name, b"its content")
    for name, age in (("a" * 32, 7200), ("b" * 32, 0)):
        draft = tmp_path / "archive/day=1" / f".{name}.tmp"
        draft.parent.mkdir(parents=True, exist_ok=True)
        draft.touch()
        os.utime(draft, (time.time() - age,) * 2)
    assert archive.move(folder, list(enumerate(folder.walk())), threading.Event()) == []
    assert [path.name for path in tmp_path.rglob(".*.tmp")] == [f".{'b' * 32}.tmp"]
