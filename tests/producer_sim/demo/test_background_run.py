from __future__ import annotations

import threading
from pathlib import Path
from typing import cast

import pytest
from pyspark.sql import SparkSession
from tests.ingest.pipelines import settings

from distributary.errors import ConfigError, PipelineError
from distributary.ingest.progress import Progress, Silent, Summary
from distributary.ingest.supervision.outcome import Outcome
from distributary.producer_sim.demo import background_run
from distributary.producer_sim.demo.background_run import BackgroundRun

NO_SPARK = cast("SparkSession", None)


class Pipeline:
    """In the place of the real one, which the end-to-end tests run: it says it does so much, and then ends as told."""

    def __init__(self, rows: int = 0, error: BaseException | None = None, waits: bool = True) -> None:
        self._rows, self._error, self._waits = rows, error, waits

    def __call__(self, settings: object, progress: Progress, stop: threading.Event, spark: object) -> Outcome:
        progress.started("games", None)
        progress.reading()
        progress.batch_done(0, self._rows, 1, 0.1, None)
        if self._error is not None:
            raise self._error
        if self._waits:
            assert stop.wait(30)
        return Outcome(Summary(rows=self._rows), ())


class Watcher(Silent):
    def __init__(self) -> None:
        self.totals: list[int | None] = []

    def started(self, name: str, total_known: int | None) -> None:
        self.totals.append(total_known)


def running(
    monkeypatch: pytest.MonkeyPatch, root: Path, pipeline: Pipeline, watcher: Watcher | None = None
) -> BackgroundRun:
    monkeypatch.setattr(background_run, "run", pipeline)
    return BackgroundRun(settings(root), NO_SPARK, watcher, total=70)


def test_leaving_the_block_stops_the_pipeline_and_gives_its_outcome(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    watcher = Watcher()
    with running(monkeypatch, tmp_path, Pipeline(rows=7), watcher) as run:
        run.wait_until_started()
        run.wait_for(7)
        with pytest.raises(PipelineError, match="not over yet"):
            run.outcome()
    assert run.outcome().summary.rows == 7
    assert watcher.totals == [70]


def test_what_the_pipeline_stops_with_reaches_whoever_waits(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = Pipeline(error=ConfigError("no such topic"))
    with pytest.raises(ConfigError, match="no such topic"), running(monkeypatch, tmp_path, broken) as run:
        run.wait_for(1)
    with pytest.raises(ConfigError):
        run.outcome()


def test_an_error_is_raised_on_leaving_even_if_nobody_waited(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = running(monkeypatch, tmp_path, Pipeline(error=ConfigError("no such topic")))
    with pytest.raises(ConfigError, match="no such topic"), broken:
        assert broken.settings.name == "games"


def test_waiting_for_too_much_ends_with_an_error(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    late = pytest.raises(
        PipelineError, match=r"no sign of life for 0\.1 s before it could commit 1,000 .*; it has 7 rec"
    )
    with running(monkeypatch, tmp_path, Pipeline(rows=7)) as run, late:
        run.wait_for(1000, seconds=0.1)


def test_a_pipeline_that_ends_too_early_keeps_nobody_waiting(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    early = pytest.raises(PipelineError, match="ended before it could commit 1,000 records; it has 7")
    with running(monkeypatch, tmp_path, Pipeline(rows=7, waits=False)) as run, early:
        run.wait_for(1000)
