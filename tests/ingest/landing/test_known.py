from __future__ import annotations

import random

import pytest

from distributary.ingest.landing import known as module
from distributary.ingest.landing.known import Known, digest, state_of


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
