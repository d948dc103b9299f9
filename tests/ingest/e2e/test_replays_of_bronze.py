"""Tables made again from bronze: each record once, at its own place in Kafka, whatever dies when; and `verify` finds nothing missing."""

from __future__ import annotations

from typing import Any

import pytest
from tests.ingest.e2e.handmade import quarantined
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.test_bronze import send_mixed

from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.replay.dry import lacking
from distributary.ingest.replay.silver import Replayed, replay
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def again(kit: PipelineKit, chosen: Chosen | None = None) -> Replayed:
    return replay(kit.settings, chosen, spark=kit.spark)


def silver(kit: PipelineKit) -> dict[str, list[dict[str, Any]]]:
    """All rows of all entities' tables, in Kafka's order."""
    found = {}
    for name in kit.lake.entity_tables():
        rows = kit.rows(name).to_pylist()
        found[name] = sorted(
            rows, key=lambda row: (row["kafka_topic"], row["kafka_partition"], row["kafka_offset"])
        )
    return found


def assert_clean(kit: PipelineKit) -> None:
    found = verify(kit.settings)
    assert not found.differences, "\n".join(map(str, found.differences))


def without_rows(kit: PipelineKit, game: str, where: str) -> None:
    kit.delta(kit.folder_of(game)).delete(where)


@pytest.fixture
def kept(kit: PipelineKit) -> PipelineKit:
    """A pipeline that has kept all kinds of records as they came, in several batches."""
    kit.configured(bronze={}, decode={"evolution": "inline"}, limits={"batch_rows": 11})
    send_mixed(kit)
    kit.run()
    return kit


def test_rows_that_are_gone_come_back_once_and_nothing_else_changes(kept: PipelineKit) -> None:
    before, waiting = silver(kept), quarantined(kept)
    assert again(kept).tables == {}
    without_rows(kept, "g1", "level > 4")
    assert silver(kept) != before
    dry = lacking(kept.settings)
    done = again(kept)
    assert set(done.tables) == {kept.folder_of("g1")}
    assert (dry.records, dry.there) == (done.records, done.there)
    assert silver(kept) == before
    assert quarantined(kept) == waiting
    assert_clean(kept)
    assert again(kept).tables == {}
    assert silver(kept) == before
    # The pipeline goes on.
    send_mixed(kept)
    kept.run()
    assert_clean(kept)
    assert kept.unnamed_files() == set()
