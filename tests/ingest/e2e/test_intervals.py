"""How long records wait for others before a batch takes them: a full batch's for nothing, and fewer for as long as the settings say."""

from __future__ import annotations

import time

import pytest
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest import supervisor
from distributary.ingest.progress import Silent
from distributary.ingest.supervision.clocks import WallClock

pytestmark = [pytest.mark.spark, pytest.mark.stack]


class Sizes(Silent):
    """Keeps how many records each batch had."""

    def __init__(self) -> None:
        self.of: list[int] = []

    def batch_done(
        self, batch_id: int, rows: int, tables: int, seconds: float, total_known: int | None
    ) -> None:
        self.of.append(rows)


def test_a_backlog_waits_for_nothing_and_what_makes_no_full_batch_does(kit: PipelineKit) -> None:
    kit.configured(trigger={"interval_seconds": 3600}, limits={"batch_rows": 100})
    kit.simulate(events=30)
    sizes = Sizes()
    with kit.running(sizes) as run:
        # What is there when a query begins waits for nothing, either.
        run.wait_for(30)
        kit.simulate(events=230)
        run.wait_for(220)
    first, *full = sizes.of
    # Spark rounds each partition's share down.
    assert (first, len(full), min(full) > 90) == (30, 2, True)
    kit.configured(trigger={"available_now": True})
    kit.run()
    kit.assert_clean()


def test_a_clock_that_is_set_back_has_no_record_wait_until_it_is_where_it_was(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark would: it takes how long records have waited from the clock."""
    back = [0.0]
    monkeypatch.setattr(supervisor, "WallClock", lambda: WallClock(lambda: time.time() - back[0]))
    kit.configured(trigger={"interval_seconds": 3600})
    kit.simulate(events=30)
    with kit.running() as run:
        run.wait_for(30)
        kit.simulate(events=60)
        back[0] = 86_400.0
        run.wait_for(90)
    kit.assert_clean()
