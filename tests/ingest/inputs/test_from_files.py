"""A folder that files land in, asked as a run asks it; whole pipelines are in tests/ingest/e2e/test_landed.py."""

from __future__ import annotations

import io
import json
import os
import shutil
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.ingest.storage.relay import Relay, relayed
from tests.ingest.storage.stores import Store

from distributary.errors import CheckpointMismatch
from distributary.ingest.inputs.from_files import LandingFolder
from distributary.ingest.inputs.waits import Waits
from distributary.ingest.interruptible import Stopped
from distributary.ingest.kafka.offsets import Positions
from distributary.ingest.landing import archiving
from distributary.ingest.landing.gone import FilesGone
from distributary.ingest.landing.numbers import first_offset
from distributary.ingest.settings.source.landing import FilesSource
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.place import Place
from distributary.ingest.storage.posix import PosixFiles


@pytest.fixture
def root(tmp_path: Path) -> PosixFiles:
    return PosixFiles(tmp_path)


def landing(root: PosixFiles, *, skips_gone: bool = False, **chosen: Any) -> LandingFolder:
    """The folder as a run opens it that goes on with its first file."""
    settings = FilesSource.model_validate({"path": f"{root.url}/landing", **chosen})
    found = LandingFolder(root.below("landing"), root.below("lake"), settings, skips_gone=skips_gone)
    found.lag({found.topic: {0: 0}})
    return found


def batch(found: LandingFolder, first: int = 0) -> list[str]:
    """The paths of the files that the next batch reads."""
    end = found.batch_end(first, found.end_offsets()[found.topic][0] >> 32)
    return [one.path for one in found.files_in(first_offset(first), first_offset(end))]


def test_a_copy_is_read_where_the_file_that_it_is_a_copy_of_went_before_its_turn(root: PosixFiles) -> None:
    root.put("landing/a", b"its content")
    found = landing(root)
    root.put("landing/copy", b"its content")
    found.end_offsets()
    assert batch(found) == ["a"]
    other = landing(root)
    root.delete(["landing/a"])
    assert batch(other) == []
    assert batch(other, 1) == ["copy"]


def test_one_that_went_with_all_its_copies_ends_the_run(root: PosixFiles) -> None:
    root.put("landing/a", b"its content")
    found = landing(root)
    root.delete(["landing/a"])
    with pytest.raises(FilesGone, match=r"1 files of .* went away before they were read: a"):
        batch(found)


def test_a_run_that_is_stopped_while_it_looks_where_files_went_does_not_say_that_they_are_gone(
    root: PosixFiles,
) -> None:
    waits = Waits()
    root.put("landing/a", b"its content")
    found = opened_landing(root.below("landing"), root.below("lake"), waits)
    found.lag({found.topic: {0: 0}})
    root.rename("landing/a", "landing/b")
    waits.stop.set()
    with pytest.raises(Stopped):
        found.batch_end(0, 1)
    waits.stop.clear()
    assert found.batch_end(0, 1) == 1


def test_a_copy_that_was_not_read_is_not_archived(root: PosixFiles) -> None:
    root.put("landing/a", b"its content")
    root.put("landing/b", b"its content")
    found = landing(root)
    found.archives_to(root.below("archive"))
    (first,) = found.files_in(0, first_offset(1))
    copy = {"a": "b", "b": "a"}[first.path]
    root.put(f"landing/{first.path}", b"rewritten before it was read")
    read, at = list[str](), 0
    for _ in range(4):
        found.end_offsets()
        assert root.below("archive").info(copy) is None or copy in read
        end = found.batch_end(at, found.ends()[found.topic][0] >> 32)
        read += [one.path for one in found.files_in(first_offset(at), first_offset(end))]
        at = end
    assert sorted(read) == ["a", "b"]


@pytest.mark.parametrize("content", [b"", b"of another name by now"])
def test_a_file_that_is_not_taken_any_more_holds_up_no_other(root: PosixFiles, content: bytes) -> None:
    long_ago = time.time() - 3600
    for path in ("a.json", "b.json"):
        root.put(f"landing/{path}", b"its content " + path.encode())
        os.utime(f"{root.url}/landing/{path}", (long_ago, long_ago - (path == "a.json")))
    landing(root, settle="60 s")
    root.put("landing/a.json", content)
    found = landing(root, settle="60 s", glob="b*")
    assert batch(found) == ["b.json"], "more may come of the other"
    assert batch(found, 2) == []
    os.utime(f"{root.url}/landing/a.json", (long_ago, long_ago))
    assert batch(landing(root, settle="60 s", glob="b*"), 2) == ["a.json"], "which is told, not waited for"


def test_a_file_that_is_written_to_for_ever_waits_alone_and_is_read_once_it_has_settled(
    root: PosixFiles,
) -> None:
    long_ago = time.time() - 3600
    for path in ("a.json", "b.json"):
        root.put(f"landing/{path}", b"its content " + path.encode())
        os.utime(f"{root.url}/landing/{path}", (long_ago, long_ago - (path == "a.json")))
    landing(root, settle="60 s")
    root.put("landing/a.json", b"a line more")
    found = landing(root, settle="60 s")
    assert batch(found) == ["b.json"]
    assert batch(found, 2) == [], "behind which there is nothing yet"
    os.utime(f"{root.url}/landing/a.json", (long_ago, long_ago))
    found.end_offsets()
    assert batch(found, 2) == ["a.json"]


def test_a_registered_file_that_cannot_be_read_waits_alone_once_a_batch_failed_at_it(
    root: PosixFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    for name in "abc":
        root.put(f"landing/{name}", name.encode())
        os.utime(f"{root.url}/landing/{name}", (1000, 1000 + ord(name)))
    found, opened, shut = landing(root, identity="etag"), PosixFiles.reader, {"b"}

    def reader(self: PosixFiles, path: str, size: int) -> Any:
        if path in shut:
            raise PermissionError(13, "Permission denied", path)
        return opened(self, path, size)

    assert batch(found) == ["a", "b", "c"], "nobody knows of anything"
    monkeypatch.setattr(PosixFiles, "reader", reader)
    assert batch(found) == ["a", "c"], "which is asked for once more"
    assert "1 files or folders cannot be read" in caplog.text
    assert batch(found, 3) == [], "and is not waited for by others"
    root.put("landing/d", b"later")
    found.end_offsets()
    assert batch(found, 3) == ["d"]
    shut.clear()
    assert batch(found, 5) == ["b"]


def test_a_file_that_fills_a_batch_and_cannot_be_read_keeps_no_later_one_from_being_read(
    root: PosixFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "abc":
        root.put(f"landing/{name}", name.encode())
        os.utime(f"{root.url}/landing/{name}", (1000, 1000 + ord(name)))
    found, opened, shut = landing(root, identity="etag", max_files_a_batch=1), PosixFiles.reader, {"a", "b"}

    def reader(self: PosixFiles, path: str, size: int) -> Any:
        if path in shut:
            raise PermissionError(13, "Permission denied", path)
        return opened(self, path, size)

    monkeypatch.setattr(PosixFiles, "reader", reader)
    assert batch(found) == [], "which is put behind all others"
    assert batch(found, 1) == ["b"], "of which nobody knows yet"
    assert batch(found, 1) == []
    assert batch(found, 2) == ["c"]
    known = found.ends()
    assert [batch(found, 3) for _ in range(3)] == [[]] * 3
    assert found.ends() == known, "where there is none but such, nothing is written"
    shut.clear()
    assert batch(found, 3) == ["a"]
    assert batch(found, 4) == ["b"]


def test_what_a_run_before_failed_at_is_looked_at_by_the_first_batch(
    root: PosixFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    root.put("landing/a", b"1")
    landing(root, identity="etag")

    def reader(self: PosixFiles, path: str, size: int) -> Any:
        raise PermissionError(13, "Permission denied", path)

    found = landing(root, identity="etag")
    monkeypatch.setattr(PosixFiles, "reader", reader)
    assert batch(found) == []


def test_a_registered_file_that_may_not_even_be_asked_about_keeps_no_other_from_being_read(
    root: PosixFiles, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As in stores, which answer 403 to HEAD and GET alike, and below a folder that was shut."""
    for name in "abc":
        root.put(f"landing/{name}", name.encode())
        os.utime(f"{root.url}/landing/{name}", (1000, 1000 + ord(name)))
    found, shut = landing(root, identity="etag"), {"b"}

    def refusing(asked: Any) -> Any:
        def ask(self: PosixFiles, path: str, *more: Any) -> Any:
            if path in shut:
                raise PermissionError(13, "Permission denied", path)
            return asked(self, path, *more)

        return ask

    for name in ("info", "reader"):
        monkeypatch.setattr(PosixFiles, name, refusing(getattr(PosixFiles, name)))
    assert batch(found) == ["a", "c"]
    assert "1 files or folders cannot be read" in caplog.text
    shut.clear()
    assert batch(found, 3) == ["b"]


def test_a_file_behind_one_that_is_being_written_to_and_may_not_be_asked_about_ends_no_run(
    root: PosixFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    long_ago = time.time() - 3600
    for path in ("a", "b"):
        root.put(f"landing/{path}", path.encode())
        os.utime(f"{root.url}/landing/{path}", (long_ago, long_ago - (path == "a")))
    landing(root, settle="60 s")
    root.put("landing/a", b"a line more")
    found, asked = landing(root, settle="60 s", max_files_a_batch=1), PosixFiles.info

    def info(self: PosixFiles, path: str) -> Any:
        if path == "b":
            raise PermissionError(13, "Permission denied", path)
        return asked(self, path)

    monkeypatch.setattr(PosixFiles, "info", info)
    assert batch(found) == [], "neither can be read now"


@pytest.mark.parametrize("last", range(4))
def test_at_whichever_question_a_file_may_not_be_asked_about_any_more_it_ends_no_run(
    root: PosixFiles, monkeypatch: pytest.MonkeyPatch, last: int
) -> None:
    root.put("landing/a", b"its content")
    os.utime(f"{root.url}/landing/a", (1000, 1000))
    found, asked, calls = landing(root, settle="60 s"), PosixFiles.info, count()
    root.put("landing/a", b"a line more")

    def info(self: PosixFiles, path: str) -> Any:
        if path == "a" and next(calls) >= last:
            raise PermissionError(13, "Permission denied", path)
        return asked(self, path)

    monkeypatch.setattr(PosixFiles, "info", info)
    end = found.end_offsets()[found.topic][0] >> 32
    assert end == 1
    found.batch_end(0, end)


def test_the_columns_of_a_file_that_can_be_read_again_come_with_its_batch(
    root: PosixFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in "ab":
        content = io.BytesIO()
        pq.write_table(pa.table({name: [1]}), content)
        root.put(f"landing/{name}", content.getvalue())
    found, opened = landing(root, identity="etag", format="parquet"), PosixFiles.reader

    def reader(self: PosixFiles, path: str, size: int) -> Any:
        if path == "b":
            raise PermissionError(13, "Permission denied", path)
        return opened(self, path, size)

    def names(ends: Positions | None = None) -> list[str]:
        return sorted(one["name"] for one in json.loads(found.columns(ends) or "{}")["fields"])

    with monkeypatch.context() as shut:
        shut.setattr(PosixFiles, "reader", reader)
        assert names() == ["a"]
    assert sorted(batch(found)) == ["a", "b"]
    assert names({found.topic: {0: first_offset(2)}}) == ["a", "b"]


@pytest.fixture
def behind(s3_store: Store) -> Iterator[tuple[Relay, Files]]:
    """A relay, and a place behind it whose client asks but once."""
    with relayed(s3_store.port) as relay:
        options = s3_store.options_by(relay.port)
        once = options.model_copy(update={"http": options.http.model_copy(update={"retry_seconds": 0.0})})
        yield relay, open_files(Place.parse(s3_store.files().url), once)


def opened_landing(folder: Files, root: Files, waits: Waits | None = None, **chosen: Any) -> LandingFolder:
    source = FilesSource.model_validate({"path": "/landing", **chosen})
    return LandingFolder(folder, root, source, skips_gone=False, waits=waits)


def test_a_store_that_files_land_in_is_waited_for_and_that_is_told(
    behind: tuple[Relay, Files], tmp_path: Path
) -> None:
    relay, folder = behind
    folder.put("a.json", b"{}")
    told: list[str] = []

    def tell(why: str, seconds: float) -> None:
        told.append(why)
        relay.away = None

    waiting = opened_landing(folder, PosixFiles(tmp_path), Waits(tell))
    relay.away = "503"
    assert waiting.end_offsets() == {"landing": {0: first_offset(1)}}
    assert told[0].startswith(f"{folder.url} does not answer")
    assert not waiting.was_away()
    relay.away = "cut"
    assert waiting.was_away()
    assert list(folder.names("_probe")) == [], "where files land nothing is written"
    relay.away = "503"
    with pytest.raises(ConnectionError):
        opened_landing(folder, PosixFiles(tmp_path)).end_offsets()


@pytest.mark.parametrize("kind", ["folder", "store"])
def test_files_are_archived_once_nothing_may_have_to_be_written_again_from_them(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    root: Files = PosixFiles(tmp_path / "root")
    if kind == "store":
        root = request.getfixturevalue("s3_store").files()
    folder, archive = PosixFiles(tmp_path / "landing"), PosixFiles(tmp_path / "archive")
    source = opened_landing(folder, root)
    source.archives_to(archive)
    for number in range(3):
        folder.put(f"{number}.json", b"%d" % number)
        source.lag({"landing": {0: first_offset(number)}})
        source.batch_end(number, number + 1)
        archived = sorted(info.path for info in archive.walk() if not info.path.startswith("."))
        late = 0 if kind == "store" else 1
        assert archived == [f"{n}.json" for n in range(max(0, number - late))]
    source.batch_end(3, 3)
    assert ("2.json" in {info.path for info in archive.walk()}) == (kind == "store")


def four_files_one_a_batch(folder: Files, root: Files, archive: Files) -> LandingFolder:
    """Files that land and are registered, and then are to be archived."""
    for number in range(4):
        folder.put(f"{number}.json", b"%d" % number)
    source = opened_landing(folder, root, max_files_a_batch=1)
    source.archives_to(archive)
    source.lag({"landing": {0: 0}})
    return source


def test_what_time_did_not_suffice_for_is_archived_by_a_later_batch_of_a_run_that_looks_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, root, archive = (PosixFiles(tmp_path / name) for name in ("landing", "root", "archive"))
    source = four_files_one_a_batch(folder, root, archive)
    with monkeypatch.context() as slow:
        slow.setattr(archiving, "monotonic", count(step=3600).__next__)
        for number in range(4):
            source.batch_end(number, 4)
    assert not archive.has_files()
    source.batch_end(4, 4)
    assert list(archive.names()) == ["0.json", "1.json", "2.json"]


def test_files_that_were_moved_since_a_copy_was_made_that_is_put_back_are_told(
    tmp_path: Path,
) -> None:
    """Register, tables and log are one copy, and nothing else would say that files came since: they are where nobody looks."""
    root, archive = PosixFiles(tmp_path / "root"), PosixFiles(tmp_path / "archive")
    folder = PosixFiles(tmp_path / "landing")
    copied = tmp_path / "copy"

    def read(first: int, last: int) -> None:
        source = opened_landing(folder, root)
        source.archives_to(archive)
        for number in range(first, last):
            folder.put(f"{number}.json", b"%d" % number)
            source.lag({"landing": {0: first_offset(number)}})
            source.batch_end(number, number + 1)

    read(0, 3)
    shutil.copytree(root.url, copied)
    read(3, 6)
    shutil.rmtree(root.url)
    copied.rename(root.url)
    with pytest.raises(CheckpointMismatch, match=r"files up to number 3 were moved .* none from number 3 on"):
        goes_on(folder, root, archive, 3)
    for info in list(archive.walk()):
        if not info.path.startswith("."):
            folder.put(info.path, archive.read(info.path))
    archive.clear(".distributary-archived")
    source = goes_on(folder, root, archive, 3)
    found = source.files_in(first_offset(3), source.ends()["landing"][0])
    assert sorted(one.path for one in found) == ["3.json", "4.json", "5.json"]


def goes_on(
    folder: Files, root: Files, archive: Files, first: int, *, reads_again: bool = False
) -> LandingFolder:
    """The folder once the first batch of a run was asked for, which begins with this file."""
    source = opened_landing(folder, root)
    source.archives_to(archive, lambda: reads_again)
    source.lag({"landing": {0: first_offset(first)}})
    source.batch_end(first, source.ends()["landing"][0] >> 32)
    return source


def test_files_that_were_registered_when_a_copy_was_made_and_moved_since_are_told(tmp_path: Path) -> None:
    """A backlog is in the copy's register, and that alone would say nothing."""
    folder, root, archive = (PosixFiles(tmp_path / name) for name in ("landing", "root", "archive"))
    source = four_files_one_a_batch(folder, root, archive)
    for number in range(5):
        source.batch_end(number, 4)
    assert len([info for info in archive.walk() if not info.path.startswith(".")]) == 3
    with pytest.raises(CheckpointMismatch, match=r"files up to number 2 were moved .* none from number 1 on"):
        goes_on(folder, root, archive, 1)
    goes_on(folder, root, archive, 3)
    # Whoever reads all again is told of each that is not there, and not that there are such.
    said = rf"3 files of .* went away .*: 0\.json.* 3 of them were read before and are in {archive}: put them back from there"
    with pytest.raises(FilesGone, match=said):
        goes_on(folder, root, archive, 0, reads_again=True)


def test_whoever_only_asks_beside_a_run_that_moves_files_is_refused_nothing(tmp_path: Path) -> None:
    folder, root, archive = (PosixFiles(tmp_path / name) for name in ("landing", "root", "archive"))
    asking = opened_landing(folder, root)
    folder.put("a.json", b"{}")
    source = goes_on(folder, root, archive, 0)
    folder.put("b.json", b"[]")
    source.end_offsets()
    source.batch_end(1, 2)
    source.batch_end(2, 2)
    assert archive.info("a.json") is not None
    asking.archives_to(archive)
    assert asking.end_offsets() == {"landing": {0: first_offset(2)}}
