from __future__ import annotations

import os
import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.landing.landed import looking, paths, put, records, registered

from distributary.ingest.landing import looking as module
from distributary.ingest.landing.looking import Rewritten
from distributary.ingest.landing.wanted import as_regex
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.posix import PosixFiles


@pytest.fixture
def folder(tmp_path: Path) -> PosixFiles:
    return PosixFiles(tmp_path)


def aged(folder: PosixFiles, path: str, seconds: int) -> None:
    """Have a file that was last written to at this second of 1970."""
    os.utime(f"{folder.url}/landing/{path}", (seconds, seconds))


def test_each_file_gets_a_number_once_and_later_ones_later_numbers(files: Files) -> None:
    put(files, {"a": b"1", "b/c": b"2"})
    look = looking(files)
    look.look(0)
    assert sorted(paths(look)) == ["a", "b/c"]
    put(files, {"0": b"3"})
    again = looking(files)
    for _ in range(2):
        again.look(2)
    assert paths(again) == [*paths(look), "0"]


def test_a_folder_of_which_no_file_was_ever_taken_is_told_once(
    folder: PosixFiles, caplog: pytest.LogCaptureFixture
) -> None:
    nowhere = looking(folder)
    for _ in range(2):
        nowhere.look(0)
    assert caplog.text.count("landing: no file is there yet: see that `source.files.path` means it") == 1
    put(folder, {"a.JSON": b"1", "_b.json": b"2"})
    none = looking(folder, glob="*.json")
    for _ in range(2):
        none.look(0)
    assert caplog.text.count("landing: of 2 files that are there none is taken") == 1
    caplog.clear()
    put(folder, {"c.json": b"3"})
    none.look(0)
    for path in ("a.JSON", "_b.json", "c.json"):
        folder.delete([f"landing/{path}"])
    looking(folder).look(1)
    assert not caplog.text, "one was once"


def test_older_files_get_lower_numbers(folder: PosixFiles) -> None:
    put(folder, {"a": b"1", "b": b"2", "c": b"3"})
    for path, seconds in (("a", 30), ("b", 10), ("c", 20)):
        aged(folder, path, seconds)
    look = looking(folder)
    look.look(0)
    assert paths(look) == ["b", "c", "a"]


def test_a_renamed_file_is_the_same_file(files: Files) -> None:
    put(files, {"a": b"its content"})
    looking(files).look(0)
    files.delete(["landing/a"])
    put(files, {"elsewhere/b": b"its content"})
    look = looking(files)
    look.look(1)
    assert paths(look) == ["a"]
    look.look(1)
    assert look.register.files.info("entries/" + f"{3:020d}.json") is None, "and that is learnt once"


def test_a_file_that_was_renamed_before_it_was_read_is_read_where_it_is_now(files: Files) -> None:
    put(files, {"a": b"its content"})
    looking(files).look(0)
    files.delete(["landing/a"])
    put(files, {"b": b"its content"})
    look = looking(files)
    look.look(0)
    assert [(one.path, one.instead_of) for one in registered(look)] == [("a", None), ("b", 0)]
    assert look.register.replaced == {0}


def test_files_with_one_content_are_two_where_their_paths_say_so(files: Files) -> None:
    put(files, {"a": b"same", "b": b"same"})
    look = looking(files)
    look.look(0)
    assert len(paths(look)) == 1
    put(files, {"landing2": b""})
    by_path = looking(files.below("x"), identity="path")
    put(files.below("x"), {"a": b"same", "b": b"same"})
    by_path.look(0)
    assert sorted(paths(by_path)) == ["a", "b"]


@pytest.mark.parametrize(("policy", "kind"), [("quarantine", "rewritten"), ("ingest", "new")])
def test_a_rewritten_file_goes_as_the_settings_say(files: Files, policy: str, kind: str) -> None:
    put(files, {"a": b"one"})
    looking(files).look(0)
    put(files, {"a": b"two, longer"})
    look = looking(files, on_rewrite=policy)
    look.look(None)
    assert paths(look) == ["a"], "nobody knows yet whether it was read"
    for _ in range(2):
        look.look(1)
    assert [(one.path, one.kind) for one in registered(look)] == [("a", "new"), ("a", kind)]


def test_a_rewritten_file_ends_the_run_where_that_is_wanted(files: Files) -> None:
    put(files, {"a": b"one"})
    looking(files).look(0)
    put(files, {"a": b"two, longer"})
    with pytest.raises(Rewritten, match="landing/a was read as file 0 and has other content now"):
        looking(files, on_rewrite="fail").look(1)


def test_one_that_was_not_read_yet_is_read_as_it_is_now(files: Files) -> None:
    put(files, {"a": b"one"})
    looking(files).look(0)
    put(files, {"a": b"two, longer"})
    look = looking(files, on_rewrite="fail")
    look.look(0)
    assert [(one.size, one.instead_of) for one in registered(look)] == [(3, None), (11, 0)]


def test_what_a_rewritten_file_has_can_be_had_by_another_name(files: Files) -> None:
    put(files, {"a": b"one"})
    looking(files).look(0)
    put(files, {"a": b"two, longer"})
    looking(files).look(1)
    put(files, {"b": b"two, longer"})
    look = looking(files)
    look.look(2)
    assert [(one.path, one.kind) for one in registered(look)][2:] == [("b", "new")]


def test_a_file_that_was_only_touched_is_the_same(folder: PosixFiles) -> None:
    put(folder, {"a": b"one"})
    looking(folder).look(0)
    aged(folder, "a", 5)
    look = looking(folder, on_rewrite="fail")
    look.look(1)
    assert paths(look) == ["a"]


def test_of_more_files_than_are_held_every_one_is_archived_by_and_by(
    folder: PosixFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the first ones cannot be moved, as their folder lets nobody delete."""
    monkeypatch.setattr(module, "_AT_ONCE", 2)
    names = [f"{number}.json" for number in range(6)]
    put(folder, {name: name.encode() for name in names})
    look = looking(folder, lambda: time.time() + 1e6, archive_to="/archive")
    look.dice = random.Random(7)
    found = set[str]()
    for _ in range(20):
        look.look(6)
        assert len(look.old) <= 2
        found |= {info.path for _, info in look.old}
    assert sorted(found) == names


def test_hidden_files_and_empty_ones_are_not_taken(folder: PosixFiles) -> None:
    put(folder, {"_SUCCESS": b"1", ".a": b"2", "_temporary/0/b": b"3", "c": b"", "d": b"4"})
    look = looking(folder)
    look.look(0)
    assert paths(look) == ["d"]


@pytest.mark.parametrize(
    ("glob", "fits"),
    [
        (None, ["a.json", "a.json.gz", "b.txt", "x/a.json", "x/y/a.json"]),
        ("*.json", ["a.json", "x/a.json", "x/y/a.json"]),
        ("x/*.json", ["x/a.json"]),
        ("x/**/*.json", ["x/a.json", "x/y/a.json"]),
        ("**/a.json", ["a.json", "x/a.json", "x/y/a.json"]),
        ("?.txt", ["b.txt"]),
        ("x/**", ["x/a.json", "x/y/a.json"]),
    ],
)
def test_a_glob_chooses_files(folder: PosixFiles, glob: str | None, fits: list[str]) -> None:
    put(folder, {name: name.encode() for name in ("a.json", "a.json.gz", "b.txt", "x/a.json", "x/y/a.json")})
    look = looking(folder, glob=glob)
    look.look(0)
    assert sorted(paths(look)) == fits


def test_no_character_of_a_glob_means_anything_else() -> None:
    assert as_regex("a+(b).[c]").fullmatch("a+(b).[c]")


def test_old_files_are_left_out_unless_they_are_known(folder: PosixFiles) -> None:
    put(folder, {"old": b"1", "young": b"2"})
    aged(folder, "old", 100)
    aged(folder, "young", 900)
    for now in (1000.0, 2000.0):
        look = looking(folder, now=partial(float, now), ignore_older_than="500 s")
        look.look(0)
        assert paths(look) == ["young"]


def test_a_file_that_is_being_written_waits_until_it_has_settled(folder: PosixFiles) -> None:
    put(folder, {"a": b"1"})
    aged(folder, "a", 995)
    now = [1000.0]
    look = looking(folder, now=lambda: now[0], settle="10 s")
    look.look(0)
    assert paths(look) == []
    now[0] = 1005.0
    look.look(0)
    assert paths(look) == ["a"]


def test_a_file_of_a_time_that_is_yet_to_come_does_not_wait_until_then(folder: PosixFiles) -> None:
    """Whoever copies files with their times has those of clocks that were wrong."""
    put(folder, {"a": b"1", "b": b"2"})
    day = 86_400
    aged(folder, "a", 50_000 * day)
    # A server's clock may be some minutes ahead.
    aged(folder, "b", 20_000 * day + 300)
    look = looking(folder, now=lambda: 20_000.0 * day, settle="10 s")
    look.look(0)
    assert paths(look) == ["a"]


def test_a_copy_is_read_where_the_file_that_it_is_a_copy_of_changes_before_its_turn(files: Files) -> None:
    put(files, {"latest": b"of today", "today": b"of today"})
    look = looking(files)
    look.look(0)
    (first,) = registered(look)
    copy = {"latest": "today", "today": "latest"}[first.path]
    put(files, {first.path: b"of tomorrow"})
    look = looking(files)
    for _ in range(2):
        look.look(0)
    read = {one.path: one for one in registered(look) if one.number not in look.register.replaced}
    assert {path: one.kind for path, one in read.items()} == {first.path: "new", copy: "new"}
    known = look.register.next_number
    look.look(0)
    assert look.register.next_number == known, "and that is learnt once"


def test_a_copy_that_is_gone_again_takes_no_files_place(files: Files) -> None:
    put(files, {"a": b"its content"})
    looking(files).look(0)
    put(files, {"copy": b"its content"})
    look = looking(files)
    look.look(0)
    files.delete(["landing/copy"])
    look.look(0)
    assert paths(look) == ["a"]
    assert look.register.replaced == set()


def test_what_is_told_as_rewritten_is_not_read_by_being_written_once_more(files: Files) -> None:
    put(files, {"a": b"one"})
    looking(files).look(0)
    for content in (b"one, two", b"one, two, three"):
        put(files, {"a": content})
        look = looking(files)
        look.look(1)
    assert [(one.kind, one.instead_of) for one in registered(look)] == [
        ("new", None),
        ("rewritten", None),
        ("rewritten", 1),
    ]


def test_names_that_are_no_utf_8_are_names(tmp_path: Path) -> None:
    folder = PosixFiles(tmp_path)
    name = os.fsdecode(b"day\xe9.json")
    put(folder, {name: b'{"n": 1}'})
    look = looking(folder)
    look.look(0)
    assert paths(look) == [name]
    assert records(folder, look) == [(0, b'{"n": 1}')]


@pytest.fixture
def shut(folder: PosixFiles, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Paths that may not be read, as far as they are in here."""
    refused, opened = set[str](), PosixFiles.reader

    def reader(self: PosixFiles, path: str, size: int) -> Any:
        if path in refused:
            raise PermissionError(13, "Permission denied", path)
        return opened(self, path, size)

    monkeypatch.setattr(PosixFiles, "reader", reader)
    return refused


def test_a_file_that_may_not_be_read_is_told_once_and_keeps_no_other_from_being_registered(
    folder: PosixFiles, shut: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    put(folder, {"a": b"1", "b": b"2"})
    shut.add("a")
    look = looking(folder)
    for _ in range(2):
        look.look(0)
    assert paths(look) == ["b"]
    (told,) = [one.getMessage() for one in caplog.records]
    assert "1 files or folders cannot be read, and are left for later, while others are read: a (" in told
    assert "ends the run, unless source.on_data_loss: record" in told
    shut.clear()
    look.look(1)
    assert paths(look) == ["b", "a"]


def test_a_copy_waits_with_the_file_that_it_is_a_copy_of_where_that_may_not_even_be_asked_about(
    folder: PosixFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put(folder, {"a": b"1"})
    look, asked = looking(folder), PosixFiles.info
    look.look(0)
    put(folder, {"b": b"1", "c": b"2"})

    def info(self: PosixFiles, path: str) -> Any:
        if path == "a":
            raise PermissionError(13, "Permission denied", path)
        return asked(self, path)

    monkeypatch.setattr(PosixFiles, "info", info)
    for _ in range(2):
        look.look(0)
    assert paths(look) == ["a", "c"]
    assert "1 files or folders cannot be read" in caplog.text


def test_where_nothing_can_be_read_that_is_an_error(folder: PosixFiles, shut: set[str]) -> None:
    put(folder, {"a": b"1", "b": b"2"})
    shut.update("ab")
    with pytest.raises(PermissionError):
        looking(folder).look(0)


@pytest.mark.parametrize("asked", [True, False])
def test_what_was_looked_at_is_registered_though_a_look_at_much_is_ended(
    folder: PosixFiles, monkeypatch: pytest.MonkeyPatch, asked: bool
) -> None:
    """Else whoever is ended each time before a large folder is read whole comes to nothing."""
    monkeypatch.setattr(module, "_HASHED_BYTES", 2)
    put(folder, {name: name.encode() for name in "abcde"})
    look, opened, read = looking(folder), PosixFiles.reader, list[str]()

    def reader(self: PosixFiles, path: str, size: int) -> Any:
        if path in "abcde":
            read.append(path)
        if len(read) == 4 and not asked:
            raise KeyboardInterrupt
        if len(read) == 3 and asked:
            look.stop.set()
        return opened(self, path, size)

    monkeypatch.setattr(PosixFiles, "reader", reader)
    if asked:
        look.look(0)
    else:
        with pytest.raises(KeyboardInterrupt):
            look.look(0)
    monkeypatch.undo()
    assert len(paths(look)) == (4 if asked else 2)
    again = looking(folder)
    again.look(0)
    assert sorted(paths(again)) == [*"abcde"]


def test_a_folder_that_may_not_be_looked_into_is_passed_by(
    folder: PosixFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    put(folder, {"a": b"1", "shut/b": b"2", "open/c": b"3"})
    scanned = os.scandir

    def scandir(path: str) -> Any:
        if path.endswith("/shut"):
            raise PermissionError(13, "Permission denied", path)
        return scanned(path)

    look = looking(folder)
    monkeypatch.setattr(os, "scandir", scandir)
    look.look(0)
    monkeypatch.undo()
    assert sorted(paths(look)) == ["a", "open/c"]
    assert "landing/shut" in caplog.text
    look.look(2)
    assert sorted(paths(look)) == ["a", "open/c", "shut/b"]
