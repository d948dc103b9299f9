"""The graph of a pipeline before and after it ran, held against its tables, and as the commands show it."""

from __future__ import annotations

import json

import pytest
from tests.ingest.e2e.keyed import GAMES, Keyed, held
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said

from distributary.ingest.lineage.seen import flow

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def test_a_graph_says_what_is_there_and_how_much_went_there(kit: PipelineKit) -> None:
    per_player = {"by": ["gamer_id"], "columns": {"events": "count(*)"}}
    kit.configured(derive=[{"table": "gold_{entity}", "aggregate": per_player}], bronze={"table": "raw"})
    before = flow(kit.settings)
    assert [(one.kind, one.name) for one in before.nodes] == [
        ("topic", kit.topic),
        ("registry", "schema registry"),
        ("pipeline", "games"),
        ("pattern", "silver_{entity}_events"),
        ("bronze", "raw"),
        ("quarantine", "quarantine"),
        ("ledger", "ledger_batches"),
        ("ledger", "ledger_changes"),
    ]
    assert {edge.count for edge in before.edges} == {None}

    kit.simulate(1, events=200, corrupt=0.05)
    kit.run()
    kit.simulate(2, events=100, games=2, corrupt=0.05)
    kit.run()
    verdict = kit.assert_clean()

    after = flow(kit.settings)
    counts = {
        after.node(edge.source if edge.what == "schemas" else edge.target).name: edge.count
        for edge in after.edges
    }
    assert counts["quarantine"] == verdict.rows_quarantined == kit.rows("quarantine").num_rows > 0
    assert counts["ledger_batches"] == after.batches == verdict.batches
    read = next(edge.count for edge in after.edges if edge.source == f"topic:{kit.topic}")
    assert read == verdict.rows_in_tables + verdict.rows_quarantined + verdict.rows_dropped
    tables = {one.name: one for one in after.nodes if one.kind == "table"}
    assert {name: one.rows for name, one in tables.items()} == {
        kit.folder_of(game): kit.rows(kit.folder_of(game)).num_rows for game in range(3)
    }
    assert {one.entity for one in tables.values()} == {
        kit.delta(name).metadata().configuration["distributary.entity"] for name in tables
    }
    for name, one in tables.items():
        assert [column.name for column in one.columns] == [
            field.name for field in kit.delta(name).schema().fields
        ]
    first = {column.name: column.source for column in next(iter(tables.values())).columns}
    assert (first["game_name"], first["kafka_offset"], first["schema_id"]) == ("game_name", None, None)

    raw = after.node("table:raw")
    assert (raw.kind, raw.rows, raw.columns) == ("bronze", read, ())
    derived = {one.id: one for one in after.nodes if one.kind == "derived"}
    assert {one.name: one.rows for one in derived.values()} == {
        f"gold_{one.entity}": len(set(kit.rows(name)["gamer_id"].to_pylist())) for name, one in tables.items()
    }
    assert {(edge.source, edge.target) for edge in after.edges if edge.target in derived} == {
        (f"table:{name}", f"table:gold_{one.entity}") for name, one in tables.items()
    }

    file = str(kit.settings_file)
    code, printed = said(kit, "graph", file, "--json")
    assert (code, json.loads(printed)["batches"]) == (0, after.batches)
    assert said(kit, "graph", file)[1].startswith("flowchart LR\n")
    told = json.loads(said(kit, "graph", file, "--format", "openlineage", "--namespace", "games")[1])
    assert told["job"]["namespace"] == "games"
    assert told["inputs"] == [{"namespace": f"kafka://{kit.bootstrap_servers}", "name": kit.topic}]
    assert {one["name"].rpartition("/")[2] for one in told["outputs"]} >= set(tables)
    assert "2 more tables" in said(kit, "graph", file, "--format", "svg", "--tables", "2")[1]
    # A trial has nothing yet, whatever the real one has.
    trial = json.loads(said(kit, "graph", file, "--json", "--debug-suffix", "_debug")[1])
    assert (trial["batches"], [one["kind"] for one in trial["nodes"]].count("pattern")) == (0, 1)


@pytest.mark.heavy  # rows of tables that are appended to are counted above
def test_rows_that_were_replaced_are_not_counted(kit: PipelineKit) -> None:
    keyed = Keyed(kit).configured({"mode": "upsert", "keys": "kafka_key"})
    for _ in range(2):
        keyed.send(60)
        kit.run()
    told = {one.name: one.rows for one in flow(kit.settings).nodes if one.kind == "table"}
    assert set(told) == set(GAMES)
    assert sum(rows or 0 for rows in told.values()) == len(held(kit))
