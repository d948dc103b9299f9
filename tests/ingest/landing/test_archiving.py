from __future__ import annotations

from distributary.ingest.landing.archiving import move
from distributary.ingest.storage.contract import Files, Info


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
