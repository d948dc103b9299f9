"""Entries as text: what was written is read, what is newer is refused by name, what was edited is told from both."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.commit_log.logs import begun, decided
from tests.ingest.commit_log.memory import MemoryFiles

from distributary.errors import CheckpointMismatch
from distributary.ingest.commit_log import entry_json
from distributary.ingest.commit_log.entries import (
    Batch,
    Entry,
    HandedOver,
    Owner,
    Parked,
    Process,
    Rewritten,
    Standing,
    Start,
)
from distributary.ingest.commit_log.reading import CommitLog, entry_path

NUMBERS = st.integers(0, 10**10 - 1)
OFFSETS = st.integers(0, 2**63 - 1)
TEXTS = st.text('aé🦊\n"\\', max_size=4)
TOPICS = st.sampled_from(("games", "a.b_c-d"))
POSITIONS = st.dictionaries(TOPICS, st.dictionaries(st.integers(0, 999), OFFSETS, min_size=1), max_size=3)
RANGES = st.dictionaries(
    TOPICS, st.dictionaries(st.integers(0, 999), st.tuples(OFFSETS, OFFSETS), min_size=1), max_size=3
)
PARKED = st.dictionaries(TEXTS, st.lists(NUMBERS, min_size=1).map(tuple), max_size=2)
STANDINGS = st.builds(
    Standing,
    st.integers(-1, 10**10),
    st.none() | NUMBERS,
    st.lists(NUMBERS).map(tuple),
    POSITIONS,
    POSITIONS,
    PARKED,
    st.dictionaries(TOPICS, TEXTS, max_size=2),
    st.booleans(),
)
COMMON = {"number": NUMBERS, "id": TEXTS, "at": TEXTS, "so_far": STANDINGS}
DECIDED = st.dictionaries(TEXTS, st.none() | st.booleans() | NUMBERS | TEXTS | st.lists(TEXTS), max_size=3)
ENTRIES = st.one_of(
    st.builds(Start, **COMMON, by=st.builds(Process, TEXTS, NUMBERS, TEXTS)),
    st.builds(
        Batch, **COMMON, start=NUMBERS, offsets=RANGES, decided=DECIDED, waits=st.lists(TEXTS).map(tuple)
    ),
    st.builds(Parked, **COMMON, start=NUMBERS, decided=DECIDED, parked=PARKED),
    st.builds(Rewritten, **COMMON, start=NUMBERS, decided=DECIDED),
    st.builds(HandedOver, **COMMON, to=st.builds(Owner, TEXTS, TEXTS, TEXTS)),
)


@given(ENTRIES)
def test_what_was_written_is_read(entry: Entry) -> None:
    data = entry_json.to_bytes(entry_json.to_json(entry))
    assert entry_json.from_json(entry_json.value_of(data, "there")) == entry


def log_with(entry: dict[str, object]) -> CommitLog:
    files = MemoryFiles()
    decided(begun(files))
    value = json.loads(files.there[entry_path(1)])
    files.put(entry_path(1), json.dumps({**value, **entry}).encode())
    return CommitLog(files)


def test_a_newer_format_is_refused_by_name_whatever_else_it_says() -> None:
    with pytest.raises(CheckpointMismatch, match=r"0000000001.json has format 5, .* reads up to 4: a newer"):
        log_with({"format": 5, "kind": "dream", "number": "one"}).state()


@pytest.mark.parametrize(
    "edited",
    [
        {"kind": "dream"},
        {"number": 2},
        {"number": None},
        {"so_far": {}},
        {"so_far": None},
        {"format": "two"},
        {"offsets": {"games": {"0": [1]}}},
        {"decided": 3},
    ],
    ids=str,
)
def test_an_edited_entry_is_told_by_its_path(edited: dict[str, object]) -> None:
    with pytest.raises(CheckpointMismatch, match=r"memory://tests/log/0000000001.json was cut off or edited"):
        log_with(edited).state()


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"7", b"\xff", b'{"format": 1}'])
def test_an_entry_cut_off_is_told_by_its_path(data: bytes) -> None:
    files = MemoryFiles()
    begun(files)
    files.put(entry_path(0), data)
    with pytest.raises(CheckpointMismatch, match=r"log/0000000000.json was cut off or edited"):
        CommitLog(files).state()
