"""Which version of a table a sink has, as files say it."""

from __future__ import annotations

from dataclasses import replace
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


def test_what_is_no_mark_is_passed_by(tmp_path: Path) -> None:
    kept = marks(tmp_path)
    kept.files.put("sent/gold/README.json", b"a note")
    assert kept.last() == (0, None)
    assert kept.put(1, mark(1))
    assert kept.last() == (1, mark(1))
    assert "README.json" in set(kept.files.names("sent/gold"))


def test_who_sent_what_is_newer_is_believed_though_an_earlier_sender_puts_first(tmp_path: Path) -> None:
    kept = marks(tmp_path)
    # Both had found nothing; the one that was taken over from wakes, and puts before the other does.
    assert kept.put(1, mark(6))
    kept.put_behind(0, mark(7))
    assert kept.last() == (2, mark(7))
    kept.put_behind(0, mark(6))
    assert kept.last() == (2, mark(7))


def test_one_of_before_is_of_any_topic_and_later_ones_of_their_own(tmp_path: Path) -> None:
    kept = marks(tmp_path)
    kept.files.put(
        "sent/gold/00000000000000000001.json",
        b'{"sink": "s", "id": "t", "version": 3, "entry": "e", "writer": "w"}',
    )
    number, before = kept.last()
    assert before is not None
    assert before.is_of("anew")
    assert kept.put(number + 1, replace(before, topic="one"))
    later = kept.last()[1]
    assert later is not None
    assert later.is_of("one")
    assert later.is_of("")
    assert not later.is_of("another")


def test_where_a_topic_ended_is_kept_and_what_nobody_knows_is_no_difference(tmp_path: Path) -> None:
    kept = marks(tmp_path)
    kept.put(1, replace(mark(3), ends={0: 7, 12: 1}, begun="sink"))
    told = kept.last()[1]
    assert told is not None
    assert (told.ends, told.begun) == ({0: 7, 12: 1}, "sink")
    assert told.is_at({12: 1, 0: 7})
    assert told.is_at({})
    assert not told.is_at({0: 8, 12: 1})
    assert not told.is_at({0: 6, 12: 1})
    assert not told.is_at({0: 7, 12: 1, 13: 0})
    assert mark(3).is_at({0: 7})
