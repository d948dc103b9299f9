"""Objects that a store lists and that nobody can ask for, in a folder that files land in; and such a folder that is away itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.ingest.inputs.test_from_files import batch, landing, opened_landing
from tests.ingest.storage.stores import Store
from tests.ingest.storage.test_unreadable_names import put_raw

from distributary.ingest.inputs.from_files import REGISTERS, FilesGone, LandingFolder
from distributary.ingest.landing import looking
from distributary.ingest.landing.numbers import first_offset
from distributary.ingest.landing.reading import rows_of
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
    """As where it lies on what is not mounted: what is told as gone is never read."""
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


def test_what_was_told_as_gone_is_read_once_it_comes_with_another_name_and_content(tmp_path: Path) -> None:
    root = PosixFiles(tmp_path)
    root.put("landing/a", b"its content\n")
    found = landing(root, skips_gone=True)
    root.delete(["landing/a"])
    assert batch(found) == ["a"]
    root.put("landing/a", b"its content\n")
    root.put("landing/b", b"its content\n\n")
    assert batch(found, 1) == ["b"]
