"""A root that several pipelines fill: what is verified is one pipeline's own."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

from tests.ingest.kafka_records import TOPIC, numbered
from tests.ingest.pipelines import checkpoint, settings
from tests.ingest.queries import EVENTS, Query

from distributary.ingest.checkpoint.generation import World, born
from distributary.ingest.commit_log.entries import Owner
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.storage.opening import files_at
from distributary.producer_sim.verify.comparison import Beside, compare
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


def test_a_pipeline_that_has_no_table_of_its_own_is_not_taken_for_another(tmp_path: Path) -> None:
    groups: dict[str, dict[str, Any]] = {name: {"route": route} for name, route in ROUTES.items()}
    groups["other"]["policies"] = {"new_entity": "quarantine"}
    for name, given in groups.items():
        born(checkpoint(tmp_path, name), name, World("cluster", {TOPIC: "topic"}, {}))
        Query(tmp_path, name, **given).batch(0, numbered(EVENTS))
    for name, rows in (("games", 1), ("other", 3)):
        chosen = settings(tmp_path, **groups[name]).model_copy(update={"name": name})
        verdict = compare(Lake.of(chosen), beside=Beside(checkpoint(tmp_path, name)))
        assert verdict.differences == ()
        assert (verdict.batches, verdict.rows_quarantined) == (1, rows)


def test_a_pipeline_that_got_another_name_has_all_batches_that_it_had_by_the_one_before(
    tmp_path: Path,
) -> None:
    for place, begin in (("first", 0), ("second", len(EVENTS))):
        born(checkpoint(tmp_path, place), "games", World("cluster", {TOPIC: "topic"}, {}))
        query = Query(tmp_path, place, {TOPIC: {0: begin}}, decode={"evolution": "inline"})
        query.batch(begin, [replace(one, offset=begin + one.offset) for one in numbered(EVENTS)])
        # As from before tables had owners: nothing but the ledger tells what it was called.
        shutil.rmtree(tmp_path / "lake/.distributary/owners")
    lake = Lake.of(settings(tmp_path).model_copy(update={"name": "renamed"}))
    verdict = compare(lake, beside=Beside(checkpoint(tmp_path, "second")))
    assert verdict.differences == ()
    assert (verdict.batches, verdict.rows_quarantined) == (2, 2)


def test_what_an_earlier_checkpoint_read_under_another_name_is_known_by_whose_the_tables_were(
    tmp_path: Path,
) -> None:
    born(checkpoint(tmp_path, "first"), "games", World("cluster", {TOPIC: "topic"}, {}))
    Query(tmp_path, "first").batch(0, numbered(EVENTS))
    # Handed over to a checkpoint that has read nothing yet, and renamed then.
    records = Records(files_at(tmp_path / "lake"))
    for table in records.tables():
        assert records.put(table, 1, Owner("renamed", "/second", "second"))
    verdict = compare(Lake.of(settings(tmp_path).model_copy(update={"name": "renamed"})))
    assert verdict.differences == ()
    assert (verdict.batches, verdict.rows_quarantined) == (1, 1)
