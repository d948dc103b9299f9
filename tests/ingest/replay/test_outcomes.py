"""What replays tell of records: each is where the newest of them says, whatever those before it said."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.commit_log.owners import Whose, said_of
from distributary.ingest.replay.outcomes import Outcome, tell
from distributary.ingest.replay.places import Partition
from distributary.ingest.storage.opening import files_at
from distributary.ingest.upkeep.replayed import OUTCOMES, Since, since

WAYS = ("added", "merged", "refused", "dropped")

PARTITION: Partition = ("t", 0)


def outcome(**offsets: list[int]) -> dict[str, Any]:
    return Outcome(**{way: {PARTITION: np.array(some, np.int64)} for way, some in offsets.items()}).to_json()


def held(found: Since) -> tuple[list[int], list[int]]:
    return sorted(found.added.get(PARTITION, ())), sorted(found.let_out.get(PARTITION, ()))


@given(st.lists(st.dictionaries(st.integers(0, 12), st.sampled_from(WAYS), max_size=8), max_size=6))
def test_the_newest_replay_of_each_record_says_where_it_is(replays: list[dict[int, str]]) -> None:
    found, wanted = Since(), dict[int, str]()
    for went in replays:
        found.take(outcome(**{way: [one for one in went if went[one] == way] for way in WAYS}))
        wanted |= went
    # Where rows take the place of others by themselves nobody expects that of each record.
    added = {one for one, way in wanted.items() if way == "added"}
    out = {one for one, way in wanted.items() if way in {"refused", "dropped"}}
    mine, let_out = held(found)
    assert added <= set(mine)
    assert out == set(let_out)
    assert not set(mine) & set(let_out)


def test_those_of_a_pipeline_are_taken_in_the_order_in_which_they_were_begun(tmp_path: Path) -> None:
    root = files_at(tmp_path)
    assert held(since(root, Whose.of("games"))) == ([], [])
    tell(root, said_of("games", None), "b", "2026-01-01T00:00:00+00:00", outcome(dropped=[1, 2]))
    tell(root, said_of("games", None), "a", "2026-01-02T00:00:00+00:00", outcome(added=[2, 3]))
    tell(root, said_of("others", None), "c", "2026-01-03T00:00:00+00:00", outcome(dropped=[3]))
    assert held(since(root, Whose.of("games"))) == ([2, 3], [1])
    # Told once more by whoever goes on behind a crash.
    tell(root, said_of("games", None), "a", "2026-01-02T00:00:00+00:00", outcome(added=[2, 3]))
    assert held(since(root, Whose.of("games"))) == ([2, 3], [1])


@pytest.mark.parametrize("content", [b"{", b"{}", b'{"at": "", "pipeline": "games"}'])
def test_what_is_none_of_these_is_told(tmp_path: Path, content: bytes) -> None:
    root = files_at(tmp_path)
    root.put_new(f"{OUTCOMES}/a.json", content)
    with pytest.raises((ValueError, KeyError, TypeError)):
        since(root, Whose.of("games"))
