from __future__ import annotations

import random

import pytest

from distributary.ingest.landing import known as module
from distributary.ingest.landing.known import Known, Marks, digest, state_of


@pytest.mark.parametrize("apart", [1, 7, 50_000])
def test_what_was_put_last_is_found_however_much_is_apart(
    apart: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_APART", apart)
    dice, known, truth = random.Random(5), Known(), dict[bytes, tuple[int, int]]()
    for number in range(500):
        key = digest(f"file {dice.randrange(200)}")
        known.put(key, number, state_of(number, "tag"))
        truth[key] = (number, state_of(number, "tag"))
    assert {key: known.get(key) for key in truth} == truth
    assert known.get(digest("no file")) is None
    numbers, _ = known.get_all([digest("no file"), *truth, digest("none either")])
    assert numbers.tolist() == [-1, *(number for number, _ in truth.values()), -1]


def test_digests_that_agree_in_half_are_two(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_APART", 2)
    known, keys = Known(), [b"\1" * 8 + bytes([n]) * 8 for n in range(6)]
    for number, key in enumerate(keys[:5]):
        known.put(key, number)
    assert [known.get(key) for key in keys] == [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), None]


def test_nothing_is_known_at_first() -> None:
    assert Known().get(digest("a")) is None
    assert len(Known()) == 0


@pytest.mark.parametrize("together", [3, 1000])
def test_what_comes_in_many_parts_is_known_as_what_comes_at_once(together: int) -> None:
    dice, known, names = random.Random(7), Known(), Known(states=False)
    every = [(digest(f"file {dice.randrange(300)}"), n, state_of(n, "tag")) for n in range(1000)]
    for at in range(0, len(every), together):
        keys, numbers, states = zip(*every[at : at + together], strict=True)
        known.put_many(keys, numbers, states)
        names.put_many(keys, numbers, states)
    truth = {key: (number, state) for key, number, state in every}
    assert {key: known.get(key) for key in truth} == truth
    assert {key: names.get(key) for key in truth} == {key: (number, 0) for key, (number, _) in truth.items()}
    assert len(known) == len(truth)


def test_marks_are_a_set_of_numbers() -> None:
    marks = Marks()
    assert 0 not in marks
    assert marks == set()
    marks.update([9, 0, 70_000, 9])
    assert marks == {0, 9, 70_000}
    assert [one in marks for one in (1, 8, 9, 70_001, 1_000_000)] == [False, False, True, False, False]
