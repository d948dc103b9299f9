"""A root that several pipelines fill: what is verified is one pipeline's own."""

from __future__ import annotations

from pathlib import Path

from tests.ingest.kafka_records import TOPIC, numbered
from tests.ingest.pipelines import checkpoint, settings
from tests.ingest.queries import EVENTS, Query

from distributary.ingest.checkpoint.generation import World, born
from distributary.producer_sim.verify.comparison import compare
from distributary.producer_sim.verify.lake import Lake

ROUTES = {name: {"table": f"{name}_{{entity}}"} for name in ("games", "other")}


def test_records_that_two_pipelines_have_each_are_not_there_twice(tmp_path: Path) -> None:
    for name, route in ROUTES.items():
        born(checkpoint(tmp_path, name), name, World("cluster", {TOPIC: "topic"}, {}))
        Query(tmp_path, name, route=route).batch(0, numbered(EVENTS))
    for name, route in ROUTES.items():
        chosen = settings(tmp_path, route=route).model_copy(update={"name": name})
        verdict = compare(Lake.of(chosen))
        assert verdict.differences == ()
        assert (verdict.batches, verdict.rows_quarantined) == (1, 1)
        assert {table.name.partition("_")[0] for table in verdict.tables} == {name}
