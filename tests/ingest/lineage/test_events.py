"""Events of OpenLineage's, by the client's own classes and its way to write them."""

from __future__ import annotations

import uuid
from typing import Any, cast

from openlineage.client.event_v2 import RunEvent, RunState
from openlineage.client.serde import Serde

from distributary.ingest.derived.refresh import Refreshed
from distributary.ingest.lineage.events import Telling
from distributary.ingest.lineage.flow import Flow, FlowColumn, FlowEdge, FlowNode
from distributary.ingest.origins.plans import Origin

TOPIC = FlowNode("topic:events", "topic", "events", "kafka-1:9092, kafka-2:9092")
HUB = FlowNode("pipeline:games", "pipeline", "games", "protobuf, routed by field game_name")
COLUMNS = (
    FlowColumn("customer", "string", "custId"),
    FlowColumn("email", "string", "player.email", masked=True),
    FlowColumn("kafka_offset", "long"),
)
CHESS = FlowNode("table:chess", "table", "chess", "s3a://bucket/lake/chess", "chess", 3, COLUMNS)
GOLD = FlowNode("table:gold", "derived", "gold", "/lake/gold", columns=(FlowColumn("n", "long"),))
DEVICES = FlowNode("static:/lookup/devices.csv", "static", "devices", "/lookup/devices.csv")
SENT = FlowNode("sent:counts", "sent", "counts", "kafka-1:9092")
FILES = FlowNode("sent:/out/gold", "sent", "gold/*.parquet", "/out/gold")
FLOW = Flow(
    "games",
    (TOPIC, HUB, CHESS, DEVICES, GOLD, SENT, FILES),
    (
        FlowEdge(TOPIC.id, HUB.id, "records"),
        FlowEdge(HUB.id, CHESS.id, "rows"),
        FlowEdge(CHESS.id, GOLD.id, "rows"),
        FlowEdge(DEVICES.id, GOLD.id, "rows"),
        FlowEdge(GOLD.id, SENT.id, "rows"),
        FlowEdge(GOLD.id, FILES.id, "rows"),
    ),
)
TELLING = Telling.begun("urn:distributary:test", "prod", "games")


def written(event: RunEvent) -> dict[str, Any]:
    assert isinstance(event, RunEvent)
    return cast("dict[str, Any]", Serde.to_dict(event))


def names(datasets: list[dict[str, Any]]) -> list[tuple[str, str]]:
    return [(one["namespace"], one["name"]) for one in datasets]


def test_a_run_is_told_with_what_it_reads_and_writes_and_where_each_column_came_from() -> None:
    found = written(TELLING.of_run(RunState.START, 0.0, FLOW))
    assert (found["eventType"], found["eventTime"]) == ("START", "1970-01-01T00:00:00+00:00")
    assert found["producer"] == "urn:distributary:test"
    assert (found["job"]["namespace"], found["job"]["name"]) == ("prod", "games")
    assert str(uuid.UUID(found["run"]["runId"])) == TELLING.run
    assert names(found["inputs"]) == [("kafka://kafka-1:9092", "events")]
    assert names(found["outputs"]) == [("s3://bucket", "lake/chess")]
    facets = found["outputs"][0]["facets"]
    assert [one["name"] for one in facets["schema"]["fields"]] == ["customer", "email", "kafka_offset"]
    came_from = facets["columnLineage"]["fields"]
    assert {name: one["inputFields"][0]["field"] for name, one in came_from.items()} == {
        "customer": "custId",
        "email": "player.email",
    }
    hidden = {name: one["inputFields"][0]["transformations"][0]["masking"] for name, one in came_from.items()}
    assert hidden == {"customer": False, "email": True}


def test_a_run_that_failed_says_why_in_a_sentence() -> None:
    found = written(TELLING.of_run(RunState.FAIL, 0.0, None, "x" * 5000))
    assert found["eventType"] == "FAIL"
    assert len(found["run"]["facets"]["errorMessage"]["message"]) == 1000
    assert found["inputs"] == found["outputs"] == []


def test_a_derived_table_is_a_job_of_its_own_within_the_run() -> None:
    done = Refreshed("gold", "made", 7, 4, {"chess": 12, "devices": 0}, seconds=2.0)
    began, ended = (written(one) for one in TELLING.of_derived(done, FLOW, 10.0))
    assert (began["eventType"], began["eventTime"][17:19]) == ("START", "08")
    assert (ended["eventType"], ended["eventTime"][17:19]) == ("COMPLETE", "10")
    assert began["run"]["runId"] == ended["run"]["runId"] != TELLING.run
    assert ended["run"]["facets"]["parent"]["run"]["runId"] == TELLING.run
    assert ended["job"]["name"] == "games.gold"
    assert names(ended["inputs"]) == [("s3://bucket", "lake/chess"), ("file", "/lookup/devices.csv")]
    assert ended["inputs"][0]["facets"]["version"]["datasetVersion"] == "12"
    assert names(ended["outputs"]) == [
        ("file", "/lake/gold"),
        ("kafka://kafka-1:9092", "counts"),
        ("file", "/out/gold"),
    ]
    assert ended["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 7
    assert "columnLineage" not in ended["outputs"][0]["facets"]


def test_a_derived_table_that_failed_says_so_and_writes_nothing() -> None:
    done = Refreshed("gold", "failed", why="chess is not there")
    _, ended = (written(one) for one in TELLING.of_derived(done, FLOW, 10.0))
    assert (ended["eventType"], ended["outputs"]) == ("FAIL", [])
    assert ended["run"]["facets"]["errorMessage"]["message"] == "chess is not there"


def test_which_columns_a_derived_tables_are_made_of_is_told_as_far_as_it_is_known() -> None:
    columns = {
        "n": (Origin("chess", "customer", "AGGREGATION"), Origin("devices", "price", "AGGREGATION")),
        "of_nobody": (Origin("gone", "x", "IDENTITY"),),
    }
    done = Refreshed("gold", "added", 7, 4, {"chess": 12, "devices": 0}, columns=columns)
    _, ended = (written(one) for one in TELLING.of_derived(done, FLOW, 10.0))
    told = ended["outputs"][0]["facets"]["columnLineage"]["fields"]
    assert list(told) == ["n"]
    assert [(one["name"], one["field"]) for one in told["n"]["inputFields"]] == [
        ("lake/chess", "customer"),
        ("/lookup/devices.csv", "price"),
    ]
    assert {one["transformations"][0]["subtype"] for one in told["n"]["inputFields"]} == {"AGGREGATION"}


def test_a_command_is_a_job_of_its_own_and_those_of_its_derived_tables_are_called_as_in_runs() -> None:
    telling = Telling.begun("urn:distributary:test", "prod", "games", "reset")
    found = written(telling.of_command(RunState.COMPLETE, 0.0, FLOW, ("static",), {"chess": 5, "nobody": 1}))
    assert (found["job"]["name"], found["eventType"]) == ("games.reset", "COMPLETE")
    assert found["job"]["facets"]["jobType"]["processingType"] == "BATCH"
    assert names(found["inputs"]) == [("file", "/lookup/devices.csv")]
    assert names(found["outputs"]) == [("s3://bucket", "lake/chess")]
    assert found["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] == 5
    assert "columnLineage" not in found["outputs"][0]["facets"]
    _, ended = (written(one) for one in telling.of_derived(Refreshed("gold", "made", 7), FLOW, 10.0))
    assert ended["job"]["name"] == "games.gold"
    assert ended["run"]["facets"]["parent"]["job"]["name"] == "games.reset"
    failed = written(telling.of_command(RunState.FAIL, 0.0, None, (), {}, "a reason"))
    assert failed["run"]["facets"]["errorMessage"]["message"] == "a reason"
