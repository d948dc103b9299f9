"""The checkpoint of a log behind upkeep: where readers would go through many entries, and beside runs that write theirs."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest
from tests.ingest.tables.test_in_stores import read
from tests.ingest.tables.test_log_checkpoint import A, checkpoints, commit

from distributary.ingest.log_paths import LOG
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables import log_checkpoint
from distributary.ingest.tables.change import create
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import last_checkpoint
from distributary.ingest.tables.log_checkpoint import Committed, LogCheckpoints, shorten_tail
from distributary.ingest.tables.log_commit import NativeCommits


def test_behind_upkeep_a_log_gets_one_where_readers_would_go_through_many_entries(tmp_path: Path) -> None:
    place = files_at(tmp_path).below("t")
    create(place, A, {})
    with closing(NativeCommits()) as commits:
        commit(commits, files_at(tmp_path), 0, 8)
        assert not shorten_tail(place, opened(place).version(), {})
        commit(commits, files_at(tmp_path), 8, 4)
        assert shorten_tail(place, opened(place).version(), {})
        assert checkpoints(place) == [12]
        assert sorted(row["a"] for row in read(place)) == list(range(12))
        assert not shorten_tail(place, opened(place).version(), {})
        # The run that commits meanwhile takes it for its own.
        commits.settle()
        LogCheckpoints()._renew(Committed(place, 11, {"delta.checkpointInterval": "1"}, None, {}))
        assert (checkpoints(place), last_checkpoint(place).version) == ([12], 12)


@pytest.mark.parametrize(("size", "due"), [(0, 10), (800, 10), (8_000, 100)])
def test_behind_upkeep_it_is_worth_as_many_entries_as_it_takes_to_read(
    tmp_path: Path, size: int, due: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log_checkpoint, "_write", lambda *_: None)
    place = files_at(tmp_path)
    place.put(f"{LOG}/_last_checkpoint", json.dumps({"version": 100, "size": size}).encode())
    assert [shorten_tail(place, 100 + tail, {}) for tail in (due - 1, due)] == [False, True]
