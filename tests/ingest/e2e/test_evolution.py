"""Schemas that grow in the middle of the stream, in each way the settings offer."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import EvolutionStopped
from distributary.producer_sim.events.versions import arrow_schema
from distributary.producer_sim.traffic.events import game_names

pytestmark = [pytest.mark.spark, pytest.mark.stack]

EVENTS = 600
SECOND = {"season", "guild", "achievements"}
THIRD = {"wallet", "platform", "coins", "item"}


def payload_columns(kit: PipelineKit, table: str) -> set[str]:
    kafka = {name for _, name in kit.settings.sink.columns if name != "_rescued_data"}
    return {field.name for field in kit.delta(table).schema().fields} - kafka


def changes(kit: PipelineKit, table: str, kind: str) -> list[dict[str, Any]]:
    rows = kit.rows("ledger_changes").to_pylist()
    return [row for row in rows if (row["table"], row["kind"]) == (table, kind)]


def schema_id(kit: PipelineKit, version: int) -> int:
    found = {group.schema_id for group, sent in kit.truth.sent.items() if sent.version == version}
    (only,) = found
    assert only is not None
    return only


def row_at(rows: pa.Table, change: dict[str, Any]) -> dict[str, Any]:
    """The row at the coordinates that a change names."""
    place = (pc.field("kafka_partition") == change["kafka_partition"]) & (
        pc.field("kafka_offset") == change["kafka_offset"]
    )
    found: list[dict[str, Any]] = rows.filter(place).to_pylist()
    assert len(found) == 1, change
    return found[0]


# `inline` in three versions is in `make test` with JSON Schema: test_formats.py; more games bring more of the same commits.
@pytest.mark.parametrize(
    ("mode", "games"),
    [("restart", 4), *(pytest.param(mode, 10, marks=pytest.mark.heavy) for mode in ("restart", "inline"))],
)
def test_three_versions_over_several_games(kit: PipelineKit, mode: str, games: int) -> None:
    kit.configured(decode={"evolution": mode}, limits={"batch_rows": 400})
    with kit.running() as running:
        running.wait_until_started()
        for version in (1, 2, 3):
            kit.simulate(version, EVENTS, games, old_producers=0.2, corrupt=0.01, tombstones=0.01)
            running.wait_for(kit.truth.records)
    outcome = running.outcome()

    verdict = kit.assert_clean()
    assert len(verdict.tables) == games
    assert outcome.summary.failures == 0
    assert outcome.summary.rows == kit.truth.records
    assert kit.unnamed_files() == set()
    if mode == "restart":
        assert outcome.summary.evolutions == len(outcome.restarts) == 2
        for restart, version, brought in zip(outcome.restarts, (2, 3), (SECOND, THIRD), strict=True):
            said = "; ".join(restart.changes)
            assert f"schema {schema_id(kit, version)} brings" in said
            assert all(name in said for name in brought)
            assert restart.met_at < restart.decoding_at
    else:
        assert outcome.summary.evolutions == len(outcome.restarts) == 0

    for number in range(games):
        table = kit.folder_of(number)
        assert payload_columns(kit, table) == set(arrow_schema(3).names)
        assert {row["column"] for row in changes(kit, table, "created")} == set(arrow_schema(1).names)
        added, rows = changes(kit, table, "added"), kit.rows(table)
        assert sorted(row["column"] for row in added) == sorted(SECOND | THIRD)
        for change in added:
            version = 2 if change["column"] in SECOND else 3
            assert change["schema_id"] == schema_id(kit, version)
            assert change["entity"] == game_names(games)[number]
            # The change names the event that brought the column, and this event has its value.
            assert row_at(rows, change)["schema_id"] == change["schema_id"]


# With versions that meet in one batch: test_two_new_versions_meet_in_one_batch_beside_old_producers.
@pytest.mark.heavy
def test_a_new_column_reaches_only_the_tables_of_the_games_that_carried_it(kit: PipelineKit) -> None:
    one, two, three = game_names(3)
    kit.simulate(1, game_names=(one, two))
    kit.run()
    kit.simulate(2, game_names=(two, three))
    kit.run()
    kit.assert_clean()
    assert payload_columns(kit, kit.folder_of(one)) == set(arrow_schema(1).names)
    assert payload_columns(kit, kit.folder_of(two)) == set(arrow_schema(2).names)
    assert payload_columns(kit, kit.folder_of(three)) == set(arrow_schema(2).names)
    assert changes(kit, kit.folder_of(one), "added") == []


# In the stream the batch has begun already when the schema is met; `ignore` is tested with one known at the start.
@pytest.mark.parametrize(
    "known_at_start",
    [pytest.param(True, marks=pytest.mark.heavy, id="at the start"), pytest.param(False, id="in the stream")],
)
def test_fail_stops_before_anything_of_the_batch_is_visible(kit: PipelineKit, known_at_start: bool) -> None:
    kit.configured(decode={"evolution": "fail"})
    kit.simulate(1)
    if known_at_start:
        kit.run()
        kit.simulate(2)
        before = kit.versions()
        with pytest.raises(EvolutionStopped, match=r"season.*decode\.evolution is `fail`"):
            kit.run()
    else:
        with (
            pytest.raises(EvolutionStopped, match=r"season.*decode\.evolution is `fail`"),
            kit.running() as running,
        ):
            running.wait_for(kit.truth.records)
            before = kit.versions()
            kit.simulate(2)
            running.wait_for(kit.truth.records)
    assert kit.versions() == before
    assert kit.unnamed_files() == set()

    kit.configured(decode={"evolution": "inline"}, trigger={"available_now": True})
    kit.run()
    kit.assert_clean()


@pytest.mark.parametrize(
    "known_at_start",
    [pytest.param(True, id="at the start"), pytest.param(False, marks=pytest.mark.heavy, id="in the stream")],
)
def test_ignore_leaves_the_tables_and_rescues_new_values(kit: PipelineKit, known_at_start: bool) -> None:
    kit.configured(decode={"evolution": "ignore"})
    kit.simulate(1, games=2)
    if known_at_start:
        kit.run()
        kit.simulate(2, games=3)
        kit.run()
    else:
        with kit.running() as running:
            running.wait_for(kit.truth.records)
            kit.simulate(2, games=3)
            running.wait_for(kit.truth.records)
        assert running.outcome().summary.evolutions == 0
    second = schema_id(kit, 2)
    for number in (0, 1):
        table = kit.folder_of(number)
        assert payload_columns(kit, table) == {*arrow_schema(1).names, "_rescued_data"}
        told = {(row["column"], row["decision"]) for row in changes(kit, table, "added")}
        assert told - {("_rescued_data", "add")} == {(name, "rescue") for name in SECOND}
        of_second = kit.rows(table).filter(pc.field("schema_id") == second)
        rescued = [json.loads(text) for text in of_second["_rescued_data"].to_pylist() if text is not None]
        assert rescued
        assert set().union(*rescued) == SECOND
        of_first = kit.rows(table).filter(pc.field("schema_id") != second)
        assert of_first["_rescued_data"].null_count == of_first.num_rows > 0
    # A table that is new has no columns to keep: it gets those of the event.
    assert payload_columns(kit, kit.folder_of(2)) == set(arrow_schema(2).names)
    verdict = kit.verify()
    assert sum(table.rows for table in verdict.tables) == kit.truth.good
