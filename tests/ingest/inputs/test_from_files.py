from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from distributary.ingest.inputs.from_files import FilesGone, LandingFolder
from distributary.ingest.landing.numbers import first_offset
from distributary.ingest.settings.source.landing import FilesSource
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
    end = found.batch_end(first, found.ends()[found.topic][0] >> 32)
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
    with pytest.raises(FilesGone, match="1 files of .* went away before they were read: a"):
        batch(found)


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
    waits = landing(root, settle="60 s", glob="b*")
    assert batch(waits) == [], "more may come"
    os.utime(f"{root.url}/landing/a.json", (long_ago, long_ago))
    assert batch(landing(root, settle="60 s", glob="b*")) == ["a.json", "b.json"], "of which one is told"
