"""What thousands of replays told becomes one file that says the same, to whoever reads it and whatever dies when."""

from __future__ import annotations

import shutil
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.replay.outcomes import Outcome, tell
from distributary.ingest.replay.places import Places
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.upkeep.replayed import OUTCOMES, begun_before, replays_before, since, tell_together

AT = datetime(2026, 1, 1, tzinfo=timezone.utc)

WAYS = ("added", "merged", "refused", "dropped")


def of(*offsets: int) -> Places:
    return {("t", 0): np.array(offsets, np.int64)} if offsets else {}


def told(root: Files, number: int, went: dict[int, str], pipeline: str = "games") -> None:
    outcome = Outcome(**{way: of(*sorted(one for one in went if went[one] == way)) for way in WAYS})
    # A clock that goes back says nothing.
    at = AT - timedelta(days=number)
    tell(root, pipeline, f"{number:032x}", at.isoformat(), outcome.to_json(), number)


def held(root: Files) -> tuple[list[int], list[int]]:
    found = since(root, "games")
    return sorted(found.added.get(("t", 0), ())), sorted(found.let_out.get(("t", 0), ()))


@given(
    st.lists(st.dictionaries(st.integers(0, 9), st.sampled_from(WAYS), max_size=6), min_size=9, max_size=20)
)
def test_it_says_the_same(tmp_path_factory: pytest.TempPathFactory, replays: list[dict[int, str]]) -> None:
    folder = tmp_path_factory.mktemp("any")
    one, other = files_at(folder / "one"), files_at(folder / "other")
    for number, went in enumerate(replays, 1):
        told(one, number, went)
        told(other, number, went)
        if number in (8, 15):
            assert tell_together(other, "games") == 8
    assert held(one) == held(other)
    assert len(list(other.names(OUTCOMES))) < 9


def test_others_files_stay_and_who_dies_amid_it_has_both(tmp_path: Path) -> None:
    root = files_at(tmp_path)
    told(root, 1, {5: "added"}, "others")
    for number in range(2, 10):
        told(root, number, {number: "added", number - 1: "dropped"})
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / OUTCOMES, copy)
    before = held(root)
    assert tell_together(root, "games") == 8
    assert len(list(root.names(OUTCOMES))) == 2
    shutil.copytree(copy, tmp_path / OUTCOMES, dirs_exist_ok=True)
    assert held(root) == before
    assert tell_together(root, "games") == 9
    assert held(root) == before
    assert sorted(since(root, "others").added["t", 0]) == [5]


def test_when_those_were_that_refused_records_stays_known_until_these_are_gone(tmp_path: Path) -> None:
    root = files_at(tmp_path)
    for number in range(1, 9):
        told(root, number, {number: "refused" if number < 3 else "added"})
    tell_together(root, "games")
    now = datetime.now(timezone.utc)
    assert replays_before(root, now - timedelta(days=1)) == {}
    late = now + timedelta(days=1)
    known = replays_before(root, late)
    assert set(known) == {f"{number:032x}" for number in (1, 2)}
    # By their own word they are older; the later one of both counts.
    assert begun_before(root, known, known, now - timedelta(days=1)) == []
    assert len(begun_before(root, known, known, late)) == 2
    for number in range(11, 20):
        told(root, number, {number: "added"})
    tell_together(root, "games", gone=late)
    assert replays_before(root, late) == {}
