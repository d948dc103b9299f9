"""What thousands of replays told becomes one file that says the same, to whoever reads it and whatever dies when."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import PipelineError
from distributary.ingest.commit_log.owners import Whose, said_of
from distributary.ingest.replay.outcomes import Outcome, tell
from distributary.ingest.replay.places import Places
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.upkeep.replayed import (
    OUTCOMES,
    begun_before,
    replays_before,
    since,
    tell_together,
    with_replays,
)
from distributary.ingest.upkeep.resolved import MOVED, TO_TABLE, keep_moved, let_go

GAMES = Whose.of("games")

AT = datetime(2026, 1, 1, tzinfo=timezone.utc)

WAYS = ("added", "merged", "refused", "dropped")


def of(*offsets: int) -> Places:
    return {("t", 0): np.array(offsets, np.int64)} if offsets else {}


def told(root: Files, number: int, went: dict[int, str], pipeline: str = "games") -> None:
    outcome = Outcome(**{way: of(*sorted(one for one in went if went[one] == way)) for way in WAYS})
    # A clock that goes back says nothing.
    at = AT - timedelta(days=number)
    tell(root, said_of(pipeline, None), f"{number:032x}", at.isoformat(), outcome.to_json(), number)


def held(root: Files) -> tuple[list[int], list[int]]:
    found = since(root, GAMES)
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
            assert tell_together(other, GAMES) == 8
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
    assert tell_together(root, GAMES) == 8
    assert len(list(root.names(OUTCOMES))) == 2
    shutil.copytree(copy, tmp_path / OUTCOMES, dirs_exist_ok=True)
    assert held(root) == before
    assert tell_together(root, GAMES) == 9
    assert held(root) == before
    assert sorted(since(root, Whose.of("others")).added["t", 0]) == [5]


class BesideUpkeep(PosixFiles):
    """Files of which those of a folder are brought together right before the first of them is read."""

    def __init__(self, root: Files, folder: str, together: Callable[[Files], object]) -> None:
        super().__init__(root.url)
        self._plain, self._folder, self._together = root, folder, [together]

    def read(self, path: str) -> bytes:
        if path.startswith(self._folder) and self._together:
            self._together.pop()(self._plain)
        return super().read(path)


def test_who_reads_while_they_are_brought_together_misses_nothing(tmp_path: Path) -> None:
    root = files_at(tmp_path)
    for number in range(1, 10):
        told(root, number, {number: "added"})
    assert held(BesideUpkeep(root, OUTCOMES, lambda plain: tell_together(plain, GAMES))) == held(root)

    def rows(offset: int) -> pa.Table:
        place = {"kafka_topic": "t", "kafka_partition": 0, "kafka_offset": offset}
        return pa.Table.from_pylist([{**place, "generation": "mine", "outcome": TO_TABLE}])

    keep_moved(root, GAMES, rows(1))
    amid = BesideUpkeep(root, MOVED, lambda plain: keep_moved(plain, GAMES, rows(2)))
    assert {part: sorted(offsets) for part, offsets in let_go(amid, GAMES)} == {("t", 0): [1, 2]}


def test_what_is_listed_and_never_there_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def gone(files: PosixFiles, path: str) -> bytes:
        raise FileNotFoundError(path)

    told(files_at(tmp_path), 1, {1: "added"})
    monkeypatch.setattr(PosixFiles, "read", gone)
    with pytest.raises(FileNotFoundError):
        since(files_at(tmp_path), GAMES)


def test_when_those_were_that_refused_records_stays_known_until_these_are_gone(tmp_path: Path) -> None:
    root = files_at(tmp_path)
    for number in range(1, 9):
        told(root, number, {number: "refused" if number < 3 else "added"})
    tell_together(root, GAMES)
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
    tell_together(root, GAMES, gone=late)
    assert replays_before(root, late) == {}


def test_a_pipeline_that_got_another_name_has_its_replays_of_before(tmp_path: Path) -> None:
    root = files_at(tmp_path)
    told(root, 1, {1: "refused"})
    told(root, 2, {2: "refused"}, "others")
    whose = Whose("matches", frozenset({"matches", "games"}), frozenset({"mine"}))
    assert with_replays(root, whose).mine == {"mine", f"{1:032x}"}
    assert with_replays(root, GAMES) == GAMES
    for number in range(3, 12):
        told(root, number, {number: "added"})
    assert tell_together(root, whose)
    known = with_replays(root, whose).mine
    assert {"mine", f"{1:032x}"} <= known
    assert f"{2:032x}" not in known
    root.put(f"{OUTCOMES}/{12:032x}.json", b"{")
    with pytest.raises(PipelineError, match="replays cannot be read"):
        with_replays(root, whose)


def test_what_replays_of_another_refused_that_had_the_name_before_is_not_of_who_has_it_now(
    tmp_path: Path,
) -> None:
    root = files_at(tmp_path)
    for number in range(1, 9):
        outcome = Outcome(refused=of(number)).to_json()
        tell(root, said_of("games", "theirs"), f"{number:032x}", AT.isoformat(), outcome, number)
    told(root, 9, {9: "refused"})
    whose = Whose("games", frozenset({"games"}), frozenset({"mine"}), frozenset({"theirs"}))

    def assert_known() -> None:
        known = with_replays(root, whose)
        assert [known.has("games", f"{number:032x}") for number in range(1, 10)] == [False] * 8 + [True]

    assert_known()
    theirs = Whose("plays", frozenset({"plays"}), frozenset({"theirs"}), frozenset({"mine"}), "theirs")
    assert tell_together(root, theirs) == 8
    assert_known()
