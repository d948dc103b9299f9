"""A pipeline as an event of OpenLineage's, by that specification's names for topics, folders and stores."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pytest

from distributary.ingest.lineage.flow import Flow, FlowColumn, FlowNode
from distributary.views.graph.openlineage import event

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=timezone.utc)


def told(*nodes: FlowNode, namespace: str = "prod") -> dict[str, Any]:
    hub = FlowNode("pipeline:games", "pipeline", "games", "protobuf, routed by field game_name")
    topic = FlowNode("topic:events", "topic", "events", "kafka-1:9092, kafka-2:9092")
    return event(Flow("games", (topic, hub, *nodes), ()), namespace, NOW)


def table(url: str, *columns: FlowColumn) -> FlowNode:
    return FlowNode("table:chess", "table", "chess", url, "chess", 3, columns)


def test_a_job_has_what_it_reads_and_what_it_writes() -> None:
    quarantine = FlowNode("table:quarantine", "quarantine", "quarantine", "/lake/quarantine")
    pattern = FlowNode("table:{entity}", "pattern", "{entity}", "/lake/{entity}")
    found = told(table("/lake/chess"), quarantine, pattern)
    assert found["eventTime"] == "2026-01-02T03:04:05+00:00"
    assert found["schemaURL"].endswith("#/$defs/JobEvent")
    assert (found["job"]["namespace"], found["job"]["name"]) == ("prod", "games")
    assert found["inputs"] == [{"namespace": "kafka://kafka-1:9092", "name": "events"}]
    assert found["outputs"] == [
        {"namespace": "file", "name": "/lake/chess", "facets": {}},
        {"namespace": "file", "name": "/lake/quarantine", "facets": {}},
    ]


@pytest.mark.parametrize(
    ("url", "namespace", "name"),
    [
        ("s3://bucket/lake/chess", "s3://bucket", "lake/chess"),
        ("s3a://bucket/chess", "s3://bucket", "chess"),
        ("gs://bucket/lake/chess", "gs://bucket", "lake/chess"),
        (
            "abfss://box@account.dfs.core.windows.net/lake/chess",
            "abfss://box@account.dfs.core.windows.net",
            "lake/chess",
        ),
        ("hdfs://name:8020/lake/chess", "hdfs://name:8020", "lake/chess"),
    ],
)
def test_tables_in_stores_are_named_as_others_name_them(url: str, namespace: str, name: str) -> None:
    (found,) = told(table(url))["outputs"]
    assert (found["namespace"], found["name"]) == (namespace, name)


@pytest.mark.parametrize("protocol", ["SASL_SSL", "SSL", "PLAINTEXT", "sasl_plaintext"])
def test_brokers_that_are_given_with_their_protocol_are_no_place(protocol: str) -> None:
    """As Confluent Cloud tells them, and Kafka's clients take them."""
    topic = FlowNode("topic:t", "topic", "t", f"{protocol}://kafka-1:9092,{protocol}://kafka-2:9092")
    (found,) = event(Flow("games", (topic,), ()), "prod", NOW)["inputs"]
    assert found == {"namespace": "kafka://kafka-1:9092", "name": "t"}


def test_columns_say_which_field_they_hold_and_whether_it_is_hidden() -> None:
    columns = (
        FlowColumn("customer_id", "string", "custId"),
        FlowColumn("email", "string", "email", masked=True),
        FlowColumn("kafka_offset", "bigint"),
    )
    (found,) = told(table("/lake/chess", *columns))["outputs"]
    facets = found["facets"]
    assert facets["schema"]["fields"] == [
        {"name": "customer_id", "type": "string"},
        {"name": "email", "type": "string"},
        {"name": "kafka_offset", "type": "bigint"},
    ]
    topic = {"namespace": "kafka://kafka-1:9092", "name": "events"}
    assert facets["columnLineage"]["fields"] == {
        "customer_id": {
            "inputFields": [
                {
                    **topic,
                    "field": "custId",
                    "transformations": [{"type": "DIRECT", "subtype": "IDENTITY", "masking": False}],
                }
            ]
        },
        "email": {
            "inputFields": [
                {
                    **topic,
                    "field": "email",
                    "transformations": [{"type": "DIRECT", "subtype": "TRANSFORMATION", "masking": True}],
                }
            ]
        },
    }
    assert all(one["_schemaURL"].startswith("https://openlineage.io/spec/facets/") for one in facets.values())
