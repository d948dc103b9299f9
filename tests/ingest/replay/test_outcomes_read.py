"""What became of records that were replayed is what the newest replay of each said, whatever the clock was then."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from distributary.ingest.commit_log.owners import Whose, said_of
from distributary.ingest.replay.outcomes import Outcome, tell
from distributary.ingest.replay.places import Places
from distributary.ingest.storage.opening import files_at
from distributary.ingest.upkeep.replayed import OUTCOMES, since

AT = [f"2026-11-{day}T00:00:00+00:00" for day in ("28", "27", "26")]


def of(*offsets: int) -> Places:
    return {("t", 0): np.array(offsets)}


def test_a_clock_that_was_set_back_between_two_replays_makes_neither_of_them_the_older_one(
    tmp_path: Path,
) -> None:
    root = files_at(tmp_path)
    tell(root, said_of("games", None), "a" * 32, AT[0], Outcome(refused=of(5, 6)).to_json())
    tell(root, said_of("games", None), "b" * 32, AT[1], Outcome(added=of(5)).to_json())
    tell(root, said_of("others", None), "c" * 32, AT[2], Outcome(dropped=of(5)).to_json())
    found = since(root, Whose.of("games"))
    assert list(found.added["t", 0]) == [5]
    assert list(found.let_out["t", 0]) == [6]


def test_those_of_earlier_versions_come_first_by_their_times(tmp_path: Path) -> None:
    root = files_at(tmp_path)
    tell(root, said_of("games", None), "c" * 32, AT[2], Outcome(added=of(5)).to_json())
    for replay, at, outcome in (
        ("a", AT[0], Outcome(dropped=of(5, 6))),
        ("b", AT[1], Outcome(added=of(6))),
    ):
        told = {"format": 1, "pipeline": "games", "replay": replay, "at": at, **outcome.to_json()}
        root.put_new(f"{OUTCOMES}/{replay}.json", json.dumps(told).encode())
    found = since(root, Whose.of("games"))
    assert (list(found.added["t", 0]), list(found.let_out["t", 0])) == ([5], [6])
