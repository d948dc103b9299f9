"""The random walk without a stack: what its model makes of records, and which steps the dice choose."""

from __future__ import annotations

import random
from datetime import datetime, timedelta, timezone
from typing import Any, cast

from drills.walk import walking
from drills.walk.model import Model, Record
from drills.walk.pipeline import Shape, State, Walk
from drills.walk.sending import Fields

START = datetime(2026, 1, 1, tzinfo=timezone.utc)


def record(offset: int, game: str | None, at: int | None = 0, **more: Any) -> Record:
    moment = None if at is None else START + timedelta(hours=at)
    body = {"uid": offset, "game": game, "who": "ann", "at": moment, "op": "u", "score": 1, **more}
    return Record(("topic", 0, offset), body["who"], b"bytes", body)


def read(*records: Record, limit: int | None = None) -> Model:
    model = Model(list(records), limit)
    model.read()
    return model


def test_a_record_has_one_place() -> None:
    bad, tombstone = (
        Record(("topic", 0, 7), "ann", b"{", None, bad=True),
        Record(("topic", 0, 8), "ann", None, None),
    )
    model = read(
        record(0, "log", None),
        record(1, "now", None),
        record(2, None),
        record(3, "log", score=9),
        bad,
        tombstone,
        limit=5,
    )
    assert [one.place[2] for one in model.of("table")] == [0]
    assert [one.place[2] for one in model.of("quarantine")] == [1, 2, 3, 7]
    assert [one.place[2] for one in model.of("nowhere")] == [8]
    assert len(model.kept()) == 6
    model.limit = None
    model.brought_back()
    assert [one.place[2] for one in model.of("table")] == [0, 3]
    model.erased("ann")
    assert (model.of("table"), model.kept()) == ([], {})


def test_of_a_key_the_newest_record_is_its_row_and_a_delete_leaves_none() -> None:
    model = read(record(0, "now", 2), record(1, "now", 1), record(2, "now", 2))
    assert [row["uid"] for row in model.rows("now")] == [2]
    model = read(record(0, "now", 1), record(1, "now", 2, op="d"), record(2, "log", 2, op="d"))
    assert (model.rows("now"), len(model.rows("log"))) == ([], 1)


def test_what_was_true_has_a_row_for_all_the_time_that_it_was() -> None:
    told = [
        record(0, "was", 1),
        record(1, "was", 5, op="d"),
        record(2, "was", 3),
        record(3, "was", 4, score=2),
        record(4, "was", 7),
    ]
    rows = read(*told).rows("was")
    hours = [
        (
            row["uid"],
            *(row[name] and (row[name] - START).seconds // 3600 for name in ("valid_from", "valid_to")),
        )
        for row in rows
    ]
    assert hours == [(0, 1, 4), (3, 4, 5), (4, 7, None)]
    assert [row["is_current"] for row in rows] == [False, False, True]


def test_what_is_put_back_is_as_it_was_and_the_rest_is_to_be_read() -> None:
    model = read(record(0, "log"), record(1, "log"))
    before = model.snapshot()
    model.erased("ann")
    model.records.append(record(2, "log"))
    model.read()
    model.put_back(before)
    assert [one.where for one in model.records] == ["table", "table", "unread"]


def test_of_a_topic_that_is_made_anew_nothing_is_to_be_there() -> None:
    model = read(record(0, "log"), record(1, None), Record(("other", 0, 0), "ann", b"{", None, bad=True))
    model.made_anew("topic")
    assert [one.place for one in model.records] == [("other", 0, 0)]
    assert model.known == {("topic", 0, 1), ("other", 0, 0)}


def test_the_same_seed_walks_the_same_way_whatever_is_left_out() -> None:
    walk = cast("Walk", type("Still", (), {"state": State()})())

    def chosen(number: int) -> str:
        dice = random.Random(f"7/{number}")
        return walking._chosen(walk, walking.Wanted(7, 40), number, dice).name

    names = [chosen(number) for number in range(41)]
    assert names == [chosen(number) for number in range(41)]
    assert len(set(names)) > 10
    assert names[0] == "_begin" and names[-1] == "_end"
    assert Shape.thrown(random.Random(7)) == Shape.thrown(random.Random(7))


def test_each_operation_says_what_it_does() -> None:
    assert [one.name for one in walking.EVERY if not one.does.__doc__] == []
    assert len({one.name for one in walking.EVERY}) == len(walking.EVERY)


def test_a_field_never_comes_back_as_another_type() -> None:
    fields, seen = Fields(), dict[str, str]()
    for _ in range(5):
        fields.add()
        fields.rename(next(iter(fields.types)))
        fields.add()
        for name in fields.narrow()[:1]:
            fields.widen(name)
        for name, type_ in fields.types.items():
            assert {seen.setdefault(name, type_), type_} <= {"int", "long"} or seen[name] == type_
