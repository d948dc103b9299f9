"""Objects that a store lists and that nobody can ask for, in a folder that files land in; and such a folder that is away itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from tests.ingest.inputs.test_from_files import batch, landing, opened_landing
from tests.ingest.storage.stores import Store
from tests.ingest.storage.test_unreadable_names import put_raw

from distributary.ingest.inputs.from_files import REGISTERS, LandingFolder
from distributary.ingest.landing import looking
from distributary.ingest.landing.gone import FilesGone
from distributary.ingest.landing.numbers import Landed, first_offset
from distributary.ingest.landing.reading import rows_of
from distributary.ingest.landing.told import read
from distributary.ingest.settings.source.landing import FilesSource
from distributary.ingest.storage.posix import PosixFiles
from distributary.registry.base import Guid


def read_at_four_looks(found: LandingFolder) -> tuple[list[str], int]:
    """The files that batches are made of, a batch a look, and behind which number there are no more."""
    first, read = 0, list[str]()
    for _ in range(4):
        end = found.end_offsets()["landing"][0] >> 32
        if end > first:
            last = found.batch_end(first, end)
            read += [one.path for one in found.files_in(first_offset(first), first_offset(last))]
            first = last
    return read, first


@pytest.mark.parametrize("beside", [False, True])
@pytest.mark.parametrize("identity", ["etag", "path", "content"])
def test_an_object_whose_key_ends_with_a_slash_is_passed_by_and_makes_no_batch_after_batch(
    s3_store: Store, caplog: pytest.LogCaptureFixture, identity: str, *, beside: bool
) -> None:
    files = s3_store.files()
    files.put("landing/0", b"{}")
    if beside:
        files.put("landing/of_days", b"[]")
    put_raw(s3_store, files, "landing/of_days/")
    found = opened_landing(files.below("landing"), files, identity=identity)
    read, _ = read_at_four_looks(found)
    assert read == ["0", *(["of_days"] if beside else [])]
    assert caplog.text.count("it is listed, and is not there when it is asked for") == 1
    files.delete(["landing/0"])
    entries = files.below(f"{REGISTERS}/landing/entries")
    before = list(entries.names())
    found.end_offsets()
    assert list(entries.names()) == before, "and it is learnt once"


@pytest.mark.parametrize("identity", ["etag", "path", "content"])
@pytest.mark.parametrize("policy", ["ingest", "quarantine"])
def test_an_object_whose_key_ends_with_a_slash_takes_no_place_of_one_that_a_listing_tells_long_before_it(
    s3_store: Store,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    identity: str,
    policy: str,
) -> None:
    """Between both are the keys of which the next character comes before a slash."""
    monkeypatch.setattr(looking, "_AT_ONCE", 1)
    files = s3_store.files()
    for name in ("days", "days-1", "days.csv"):
        files.put(f"landing/{name}", name.encode())
    put_raw(s3_store, files, "landing/days/")
    found = opened_landing(files.below("landing"), files, identity=identity, on_rewrite=policy)
    read, first = read_at_four_looks(found)
    assert (sorted(read), first) == (["days", "days-1", "days.csv"], 3)
    assert caplog.text.count("it is listed, and is not there when it is asked for") == 1


def test_an_object_whose_key_is_a_slash_keeps_no_other_of_its_bucket_from_being_read(s3_store: Store) -> None:
    s3_store.require_odd_keys()
    bucket = s3_store.files_at(s3_store.url.rpartition("/")[0])
    put_raw(s3_store, bucket, "/")
    beside = s3_store.files()
    beside.put("0", b"{}")
    name = beside.url.rpartition("/")[2]
    found = opened_landing(bucket, s3_store.files(), glob=f"**/{name}/*")
    assert found.end_offsets() == {"landing": {0: first_offset(1)}}


def test_of_a_folder_that_is_not_there_itself_no_file_is_told_as_gone(tmp_path: Path) -> None:
    """As where it lies on what is not mounted: each of its files would be told so."""
    root = PosixFiles(tmp_path)
    root.put("landing/a", b"its content")
    found = landing(root, skips_gone=True)
    root.rename("landing", "elsewhere")
    with pytest.raises(FilesGone, match=r"/landing is not there, of which 1 files are to be read"):
        batch(found)
    (file,) = found.files_in(0, first_offset(1))
    with pytest.raises(FileNotFoundError):
        list(rows_of(found.landing, file, Guid))
    root.put("landing/b", b"another content")
    assert batch(found) == ["a", "b"], "of which the one is told as gone now"


def reasons(found: LandingFolder, number: int) -> list[str]:
    """What the records of a file tell of it; nothing where they are its own."""
    (file,) = found.files_in(first_offset(number), first_offset(number + 1))
    values = [value for rows in rows_of(found.landing, file, Guid) for value in rows["value"].to_pylist()]
    return [told[0] for value in values if (told := read(value)) is not None]


@pytest.mark.parametrize("identity", ["content", "etag", "path"])
@pytest.mark.parametrize(
    ("path", "content"),
    [("a", b"its content\n"), ("b", b"its content\n"), ("a", b"another content\n"), ("a", None)],
)
def test_what_was_told_as_gone_is_read_once_it_is_there_again(
    tmp_path: Path, identity: str, path: str, content: bytes | None
) -> None:
    root = PosixFiles(tmp_path)
    root.put("landing/a", b"its content\n")
    os.utime(f"{root.url}/landing/a", (1000, 1000))
    found = landing(root, skips_gone=True, identity=identity)
    root.rename("landing/a", "elsewhere")
    assert batch(found) == ["a"]
    assert reasons(found, 0) == ["file_gone"]
    if content is None:
        root.rename("elsewhere", "landing/a")
    else:
        root.put(f"landing/{path}", content)
    again = landing(root, skips_gone=True, identity=identity)
    for folder in (found, again):
        assert batch(folder, 1) == [path]
        assert reasons(folder, 1) == []
        assert reasons(folder, 0) == ["file_gone"], "a batch is the same one, however often it is begun"
        assert folder.batch_end(0, 2) == 2
        assert folder.end_offsets() == {"landing": {0: first_offset(2)}}, "and nothing is read twice"


def test_what_is_there_again_is_archived_once_it_was_read_and_not_before(tmp_path: Path) -> None:
    root = PosixFiles(tmp_path)
    root.put("landing/a", b"its content\n")
    found = landing(root, skips_gone=True, archive_to=f"{root.url}/archive", archive_after=0)
    found.archives_to(root.below("archive"))
    root.rename("landing/a", "elsewhere")
    assert batch(found) == ["a"]
    for number, name in enumerate("bc", 1):
        root.put(f"landing/{name}", name.encode())
        assert batch(found, number) == [name]
    root.rename("elsewhere", "landing/a")
    assert batch(found, 3) == ["a"]
    assert root.below("archive").info("a") is None
    for number, name in enumerate("de", 4):
        root.put(f"landing/{name}", name.encode())
        assert batch(found, number) == [name]
    assert root.below("archive").info("a") is not None


def test_one_that_was_rewritten_and_went_away_is_told_as_rewritten_and_never_read(tmp_path: Path) -> None:
    root = PosixFiles(tmp_path)
    root.put("landing/a", b"its content\n")
    found = landing(root, skips_gone=True)
    assert batch(found) == ["a"]
    root.put("landing/a", b"another content\n")
    found.end_offsets()
    root.rename("landing/a", "elsewhere")
    assert batch(found, 1) == ["a"]
    root.rename("elsewhere", "landing/a")
    assert reasons(found, 1) == ["file_rewritten"]
    assert batch(found, 2) == []


def overtaken(monkeypatch: pytest.MonkeyPatch, by_another: Callable[[], object]) -> None:
    """Have another run do something right before this one says that files are gone."""
    lose = looking.Looking.lose

    def late(self: looking.Looking, files: Sequence[Landed]) -> bool:
        monkeypatch.undo()
        by_another()
        return lose(self, files)

    monkeypatch.setattr(looking.Looking, "lose", late)


def test_where_another_run_finds_a_file_that_one_misses_it_is_read_from_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = PosixFiles(tmp_path)
    root.put("landing/a", b"its content\n")
    found = landing(root, skips_gone=True)
    root.rename("landing/a", "elsewhere")

    def by_another() -> None:
        root.rename("elsewhere", "landing/b")
        landing(root).batch_end(0, 1)

    overtaken(monkeypatch, by_another)
    assert found.batch_end(0, 1) == 1
    assert [one.path for one in found.files_in(0, first_offset(2))] == ["b"]


def test_where_another_run_registers_something_else_meanwhile_what_went_is_told_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = PosixFiles(tmp_path)
    root.put("landing/a", b"its content\n")
    found = landing(root, skips_gone=True)
    root.rename("landing/a", "elsewhere")

    def by_another() -> None:
        root.put("landing/b", b"another content\n")
        landing(root)

    overtaken(monkeypatch, by_another)
    assert found.batch_end(0, 1) == 1
    root.rename("elsewhere", "landing/a")
    assert reasons(found, 0) == ["file_gone"]
    assert batch(found, 1) == ["b", "a"]


def test_what_was_told_as_gone_ends_no_run_that_is_to_end_where_files_went(tmp_path: Path) -> None:
    """As where a run died right behind that, and the setting was taken out again."""
    root = PosixFiles(tmp_path)
    root.put("landing/a", b"its content\n")
    found = landing(root, skips_gone=True)
    root.delete(["landing/a"])
    found.batch_end(0, 1)
    later = landing(root)
    assert batch(later) == ["a"]
    assert reasons(later, 0) == ["file_gone"]


def test_an_object_whose_key_is_that_of_one_that_was_told_as_gone_and_a_slash_gets_no_number(
    s3_store: Store,
) -> None:
    files = s3_store.files()
    files.put("landing/a", b"{}")
    settings = FilesSource.model_validate({"path": "/landing"})
    found = LandingFolder(files.below("landing"), files, settings, skips_gone=True)
    found.end_offsets()
    files.delete(["landing/a"])
    assert found.batch_end(0, 1) == 1
    put_raw(s3_store, files, "landing/a/")
    assert found.end_offsets() == {"landing": {0: first_offset(1)}}
