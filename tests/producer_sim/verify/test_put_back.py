"""A table that alone was put back from an older copy: `verify` names it, also where no count of rows shows it."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from tests.ingest import queries
from tests.ingest.batch.test_one_put_back import deleted
from tests.ingest.batch.test_parked_partitions import GONE, UPSERT, WITH_DELETES, begun, golf
from tests.ingest.pipelines import settings
from tests.ingest.queries import GOLF

from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.stuck import Resolutions
from distributary.ingest.routing.conditions import conditions_ahead
from distributary.ingest.running.rules import run_rules
from distributary.producer_sim.verify.comparison import Beside, compare
from distributary.producer_sim.verify.lake import Lake
from distributary.producer_sim.verify.verdict import Difference


def found(root: Path, rule: Mapping[str, Any] = UPSERT) -> list[Difference]:
    beside = Beside(Checkpoint.at(root / "checkpoint"))
    return list(compare(Lake.of(settings(root, tables=[rule])), beside=beside).differences)


def test_one_with_one_row_a_key_is_named_until_it_is_to_go_without(tmp_path: Path) -> None:
    run, table, copy = begun(tmp_path, UPSERT), tmp_path / "lake" / GOLF, tmp_path / "copy"
    for offset in range(3):
        if offset == 1:
            shutil.copytree(table, copy)
        run.batch(offset, golf(offset, score=offset))
    assert found(tmp_path) == []
    shutil.rmtree(table)
    shutil.copytree(copy, table)
    (lost,) = found(tmp_path)
    assert (lost.kind, lost.where) == ("tables_behind", GOLF)
    assert lost.detail.startswith("it has batch 1 as its newest one, and batch 3 was in it, too")
    Resolutions(run.here).skip(3, GOLF)
    assert found(tmp_path) == []


def test_one_that_was_taken_away_is_named_until_it_is_made_anew(tmp_path: Path) -> None:
    run = begun(tmp_path, UPSERT)
    for offset in range(2):
        run.batch(offset, golf(offset, score=offset))
    shutil.rmtree(tmp_path / "lake" / GOLF)
    (lost,) = found(tmp_path)
    assert (lost.kind, lost.where) == ("table_missing", GOLF)
    assert lost.detail.startswith("batch 2 was in it, and it is not there")
    run.batch(2, golf(2, score=2))
    assert found(tmp_path) == []


def test_what_remembers_deletes_is_named_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    conditions = conditions_ahead([("deletes", GONE)])
    monkeypatch.setattr(queries, "run_rules", partial(run_rules, conditions=conditions))
    memory = deleted(tmp_path, (11, 12, 13, 1, 2), copied_behind=1)
    (lost,) = found(tmp_path, WITH_DELETES)
    assert (lost.kind, lost.where) == ("tables_behind", memory.name)
    assert lost.detail.startswith("it has batch 1 as its newest one, and batch 3 was in it, too")
    Resolutions(Checkpoint.at(tmp_path / "checkpoint")).skip(3, GOLF)
    assert found(tmp_path, WITH_DELETES) == []
