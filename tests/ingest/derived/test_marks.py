"""Which version of a table a sink has, as files say it."""

from __future__ import annotations

from pathlib import Path

from distributary.ingest.derived.marks import Mark, Marks
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.place import Place


def marks(tmp_path: Path) -> Marks:
    return Marks(open_files(Place.parse(str(tmp_path / "state"))), "gold")


def mark(version: int) -> Mark:
    return Mark("sink", "table", version, f"entry{version}")


def test_the_last_one_counts_and_no_others_are_kept_for_long(tmp_path: Path) -> None:
    kept = marks(tmp_path)
    assert kept.last() == (0, None)
    for number in range(1, 12):
        assert kept.put(number, mark(number))
        assert kept.last() == (number, mark(number))
    assert len(list(kept.files.names("sent/gold"))) == 2


def test_who_is_second_leaves_the_mark_of_the_first(tmp_path: Path) -> None:
    kept = marks(tmp_path)
    assert kept.put(1, mark(7))
    assert not kept.put(1, mark(6))
    assert kept.last() == (1, mark(7))


def test_one_that_cannot_be_read_is_none_and_is_followed_by_others(tmp_path: Path) -> None:
    kept = marks(tmp_path)
    kept.files.put("sent/gold/00000000000000000004.json", b'{"of": "a later version"}')
    assert kept.last() == (4, None)
    assert kept.put(5, mark(1))
    assert kept.last() == (5, mark(1))
