"""The graph of a pipeline before and after it ran, held against its tables, and as the commands show it."""

from __future__ import annotations

import json

import pytest
from openlineage.client.serde import Serde
from tests.ingest.e2e.keyed import GAMES, Keyed, held
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said

from distributary.errors import PipelineError
from distributary.ingest.derived.refresh import Refreshed
from distributary.ingest.lineage.of_commands import told_of
from distributary.ingest.lineage.seen import flow
from distributary.ingest.progress import Silent
from distributary.ingest.rebuild.silver import replay
from distributary.ingest.replay.bring_back import bring_back

pytestmark = [pytest.mark.spark, pytest.mark.stack]


# Lighter: tests/cli/views/graph has each part of it.
@pytest.mark.heavy
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

    for name, one in tables.items():
        made_of = {column.name: column.made_of for column in after.node(f"table:gold_{one.entity}").columns}
        assert made_of == {"gamer_id": (f"{name}.gamer_id",), "events": ()}

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


class Heard(Silent):
    """What a run says of waits."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def waiting(self, reason: str, seconds: float) -> None:
        """Keeps it."""
        self.said.append(reason)


def test_runs_tell_data_catalogues_of_themselves_and_go_on_where_nobody_listens(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OF_HASHES", "0123456789abcdef")
    file = kit.folder / "catalogue" / "runs.jsonl"
    hashed = {"fields": ["device"], "secret": "${OF_HASHES}"}
    rules = [{"match": "*", "columns": {"rename": {"gamer_id": "player"}, "hash": hashed}}]
    count = {"by": ["player"], "columns": {"n": "count(*)"}}
    kit.configured(
        lineage={"file": str(file), "namespace": "prod"},
        tables=rules,
        derive=[{"table": "gold_{entity}", "aggregate": count}],
    )
    kit.simulate(1, games=1)
    kit.run()
    events = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    of_run = [one for one in events if one["job"]["name"] == "games"]
    assert [one["eventType"] for one in of_run] == ["START", "RUNNING", "COMPLETE"]
    assert len({one["run"]["runId"] for one in of_run}) == 1
    assert of_run[-1]["inputs"][0]["namespace"] == f"kafka://{kit.bootstrap_servers}"
    table, gold = kit.folder_of(0), f"gold_{kit.folder_of(0)[7:-7]}"
    (chess,) = [one for one in of_run[-1]["outputs"] if one["name"].endswith(f"/{table}")]
    came_from = {
        name: (one["inputFields"][0]["field"], one["inputFields"][0]["transformations"][0]["masking"])
        for name, one in chess["facets"]["columnLineage"]["fields"].items()
    }
    assert (came_from["player"], came_from["device"]) == (("gamer_id", False), ("device", True))
    derived = [one for one in events if one["job"]["name"] == f"games.{gold}"]
    assert [one["eventType"] for one in derived] == ["START", "COMPLETE"]
    assert derived[1]["run"]["facets"]["parent"]["run"]["runId"] == of_run[0]["run"]["runId"]
    assert derived[1]["inputs"][0]["name"] == chess["name"]
    assert derived[1]["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == kit.rows(gold).num_rows
    (player,) = derived[1]["outputs"][0]["facets"]["columnLineage"]["fields"]["player"]["inputFields"]
    assert (player["name"], player["field"]) == (chess["name"], "player")
    # As the client writes them: nothing that it would leave out.
    assert [Serde.to_dict(one) for one in events] == events

    # Nobody listens at the first port that there is. A run that fails says so to whoever listens.
    kit.configured(lineage={"file": None, "url": "http://127.0.0.1:1"}, limits={"batch_rows": 100})
    kit.simulate(1, games=1)
    kit.run(heard := Heard())
    first, last = (one for one in heard.said if one.startswith("lineage: "))
    assert first == "lineage: http://127.0.0.1:1 does not take events (ConnectionError); the run goes on"
    assert last.endswith("events of lineage were not told")
    assert kit.rows(table).num_rows == 600
    lost = {"table": "gold_lost", "inputs": ["ledger_batches"], "sql": "SELECT nobody FROM ledger_batches"}
    kit.configured(lineage={"file": str(file), "url": None}, derive=[lost])
    with pytest.raises(PipelineError):
        kit.run()
    failed = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()][len(events) :]
    assert [(one["job"]["name"], one["eventType"]) for one in failed] == [
        ("games", "START"),
        ("games.gold_lost", "START"),
        ("games.gold_lost", "FAIL"),
        ("games", "FAIL"),
    ]
    assert "gold_lost" in failed[-1]["run"]["facets"]["errorMessage"]["message"]


# Lighter: test_runs_tell_data_catalogues_of_themselves_and_go_on_where_nobody_listens.
@pytest.mark.heavy
def test_commands_tell_of_themselves_as_runs_do(kit: PipelineKit) -> None:
    file = kit.folder / "runs.jsonl"
    kit.configured(bronze={}, lineage={"file": str(file)})
    kit.simulate(1, games=1, corrupt=0.05)
    kit.run()
    begun, table = len(file.read_text(encoding="utf-8").splitlines()), kit.folder_of(0)
    kit.delta(table).delete("kafka_offset % 2 = 1")
    made = replay(kit.settings, spark=kit.spark).tables
    assert bring_back(kit.settings, spark=kit.spark).refused
    with told_of(kit.settings, "derive") as command:
        command.derived([Refreshed(table, "failed", why="nothing")])
    told = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()][begun:]
    of_replay = [one for one in told if one["job"]["name"] == "games.replay"]
    assert [one["eventType"] for one in of_replay] == ["START", "COMPLETE"]
    assert [one["name"].rpartition("/")[2] for one in of_replay[1]["inputs"]] == ["bronze"]
    (output,) = of_replay[1]["outputs"]
    assert output["name"].rpartition("/")[2] == table
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == made[table] > 0
    for command_name in ("games.derive", "games.quarantine-replay"):
        states = [one["eventType"] for one in told if one["job"]["name"] == command_name]
        assert states == ["START", "COMPLETE"], command_name
    (ended,) = [
        one
        for one in told
        if (one["job"]["name"], one["eventType"]) == ("games.quarantine-replay", "COMPLETE")
    ]
    assert [one["name"].rpartition("/")[2] for one in ended["inputs"]] == ["quarantine"]
    with pytest.raises(KeyError), told_of(kit.settings, "reset"):
        raise KeyError("a value")
    last = json.loads(file.read_text(encoding="utf-8").splitlines()[-1])
    assert (last["job"]["name"], last["eventType"]) == ("games.reset", "FAIL")
    assert "a value" not in json.dumps(last)


@pytest.mark.heavy  # rows of tables that are appended to are counted above
def test_rows_that_were_replaced_are_not_counted(kit: PipelineKit) -> None:
    keyed = Keyed(kit).configured({"mode": "upsert", "keys": "kafka_key"})
    for _ in range(2):
        keyed.send(60)
        kit.run()
    told = {one.name: one.rows for one in flow(kit.settings).nodes if one.kind == "table"}
    assert set(told) == set(GAMES)
    assert sum(rows or 0 for rows in told.values()) == len(held(kit))
