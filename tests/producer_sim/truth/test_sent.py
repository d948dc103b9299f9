"""The truth survives its file, adds up over several simulations, and a broken file is said to be one."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import ConfigError
from distributary.producer_sim.truth.checksum import MASK
from distributary.producer_sim.truth.sent import (
    Corrupt,
    Group,
    PartitionOffset,
    Sent,
    Truth,
    joined,
    load,
    save,
)

FIRST = Truth(
    topic="games",
    sent={Group("golf", 1): Sent(1, 10, MASK), Group('Überraschung! "x"', 1): Sent(1, 5, 7)},
    corrupt={PartitionOffset(0, 3): Corrupt("bad_magic", "00ff")},
    tombstones=frozenset({PartitionOffset(1, 2)}),
    offsets={0: ((0, 12),), 1: ((5, 10),)},
    runs=({"seed": 1},),
)
SECOND = Truth(
    topic="games",
    sent={Group("golf", 1): Sent(1, 1, 2), Group("golf", 2): Sent(2, 4, 9)},
    corrupt={PartitionOffset(0, 15): Corrupt("no_entity", "aa")},
    offsets={0: ((12, 17),), 2: ((0, 1),)},
    runs=({"seed": 2},),
)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "truth.json"
    assert save(FIRST, path) == FIRST
    assert load(path) == FIRST


def test_saving_again_replaces(tmp_path: Path) -> None:
    path = tmp_path / "truth.json"
    save(FIRST, path)
    save(SECOND, path)
    assert load(path) == SECOND
    assert [file.name for file in tmp_path.iterdir()] == ["truth.json"]


def test_appending_adds_up(tmp_path: Path) -> None:
    path = tmp_path / "truth.json"
    save(FIRST, path, append=True)
    both = save(SECOND, path, append=True)
    assert load(path) == both == FIRST.merged(SECOND)
    assert both.sent[Group("golf", 1)] == Sent(1, 11, 1)
    assert both.good == FIRST.good + SECOND.good == 20
    assert both.offsets == {0: ((0, 17),), 1: ((5, 10),), 2: ((0, 1),)}
    assert both.records == 23
    assert both.corrupt_by_kind() == {"bad_magic": 1, "no_entity": 1}
    assert both.runs == ({"seed": 1}, {"seed": 2})


def test_events_without_a_schema_id_stand_beside_those_with_one(tmp_path: Path) -> None:
    group = Group("golf", None)
    nameless = Truth("games", {group: Sent(2, 3, 5)}, offsets={4: ((0, 3),)})
    path = tmp_path / "truth.json"
    save(FIRST, path)
    save(nameless, path, append=True)
    both = save(Truth("games", {group: Sent(1, 1, MASK)}, offsets={4: ((3, 4),)}), path, append=True)
    assert load(path) == both
    assert both.sent[group] == Sent(2, 4, 4)
    assert both.sent[Group("golf", 1)] == FIRST.sent[Group("golf", 1)]


def test_two_topics_do_not_mix(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="one truth file a topic"):
        FIRST.merged(Truth("other"))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        "[" * 100_000,
        '{"format": [3]}',
        '{"format": 3}',
        '{"format": 1}',
        '{"format": 1, "topic": "t", "sent": [1]}',
        '{"format": 3, "topic": "t", "sent": [], "corrupt": [], "tombstones": [], "offsets": {}, "runs": []}',
    ],
)
def test_a_file_that_is_no_truth_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "truth.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"truth\.json"):
        load(path)


def test_no_file_is_refused_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="distributary simulate"):
        load(tmp_path / "none.json")


SPANS = st.tuples(st.integers(0, 30), st.integers(1, 5)).map(lambda span: (span[0], span[0] + span[1]))


@settings(deadline=None)
@given(st.lists(SPANS, max_size=8))
def test_stretches_are_joined_to_the_fewest(spans: list[tuple[int, int]]) -> None:
    runs = joined(spans)
    offsets = {offset for start, end in spans for offset in range(start, end)}
    assert [offset for start, end in runs for offset in range(start, end)] == sorted(offsets)
    assert all(before[1] < after[0] for before, after in pairwise(runs))
