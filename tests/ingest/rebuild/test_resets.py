"""What a reset keeps of itself: numbers, the formats of earlier versions, and no files once a later one is begun."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from distributary.errors import CheckpointMismatch
from distributary.ingest.rebuild.resets import FORMAT, Reset, unfinished
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.transaction import is_of_replay


def test_one_that_an_earlier_version_began_is_gone_on_with_by_its_own_application(tmp_path: Path) -> None:
    files = files_at(tmp_path)
    files.put_new("resets/a/begun.json", json.dumps({"format": 1, "tables": ["t"], "at": ""}).encode())
    found = unfinished(files)
    assert found == Reset("a", ("t",), None)
    told = found.transaction("generation")
    assert (told.app_id, told.batch_id) == ("generation/reset/a", 0)
    # Its number is no batch's, whoever asks.
    assert is_of_replay(told.app_id) and not is_of_replay("generation/events")


def test_of_those_that_are_done_nothing_stays_once_a_later_one_is_begun(tmp_path: Path) -> None:
    files = files_at(tmp_path)
    for name, number in (("a", 5), ("b", 6)):
        one = Reset(name, ("t",), number)
        one.begin(files, "2026-01-01")
        assert unfinished(files) == one
        assert files.folders("resets") == [name]
        one.end(files, {"replayed": {}})
        assert unfinished(files) is None
    assert one.transaction("generation").batch_id == 6


def test_a_newer_one_is_refused_by_name(tmp_path: Path) -> None:
    files = files_at(tmp_path)
    files.put_new("resets/a/begun.json", json.dumps({"format": FORMAT + 1}).encode())
    with pytest.raises(CheckpointMismatch, match=f"format {FORMAT + 1}"):
        unfinished(files)
