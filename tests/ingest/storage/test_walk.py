"""The files in all folders below, as every implementation of the seam tells them."""

from __future__ import annotations

from distributary.ingest.storage.contract import Files


def test_a_walk_finds_the_files_in_all_folders_below(files: Files) -> None:
    assert list(files.walk()) == list(files.walk("nowhere")) == []
    there = {"a", "b/c", "b/d/e", "b/d/with a space", "bb/f"}
    for path in there:
        files.put(path, path.encode())
    assert sorted(info.path for info in files.walk()) == sorted(there)
    assert sorted(info.path for info in files.walk("b")) == ["b/c", "b/d/e", "b/d/with a space"]
    found, asked = {info.path: info for info in files.walk()}["b/c"], files.info("b/c")
    assert asked is not None and (found.size, found.tag) == (asked.size, asked.tag)
