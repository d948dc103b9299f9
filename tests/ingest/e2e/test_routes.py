"""Whatever tables are named after: every event of a simulation is in the table where it belongs, with its values, once."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pytest
from tests.ingest.e2e.pipeline_kit import PipelineKit

pytestmark = [pytest.mark.spark, pytest.mark.stack]

# What is evaluated in the workers, and what Spark alone knows.
NATIVE = "concat(case when premium then 'gold' else upper(season) end, '-', if(level >= 50, 'high', 'low'))"
ONLY_SPARK = "concat(soundex(country), '-', try_cast(season as int) is null)"
GUILD = {"by": "field", "field": "guild.name"}


@dataclass(frozen=True)
class Case:
    """What the events are written as, how they are routed, and how many tables they then have."""

    written: str
    route: dict[str, Any]
    tables: int
    settings: dict[str, Any] = field(default_factory=dict)
    sent: dict[str, Any] = field(default_factory=dict)


CASES = [
    # By a field in most other tests, Avro by its keys below.
    pytest.param(Case("avro", GUILD, 6), marks=pytest.mark.heavy, id="field-avro"),
    # JSON by a field is in test_formats.py, the table for what has none in test_records_entities.py.
    pytest.param(
        Case("json", GUILD, 7, {"policies": {"no_entity": {"table": "strays"}}}),
        marks=pytest.mark.heavy,
        id="field-json",
    ),
    # Records of two formats by their types are below.
    pytest.param(Case("jsonschema", {"by": "record"}, 3), marks=pytest.mark.heavy, id="record-jsonschema"),
    # Keyed tables are by topic: test_columns.py, and those of databases in test_change_capture.py.
    pytest.param(Case("protobuf", {"by": "topic"}, 1), marks=pytest.mark.heavy, id="topic-protobuf"),
    Case("avro", {"by": "key"}, 8, {"decode": {"key": "text"}}, {"gamers": 8}),
    # Another format by the key, and what has none dropped: tests/ingest/worker/test_demux.py drops such records.
    pytest.param(
        Case("json", {"by": "key"}, 4, {"policies": {"no_entity": "drop"}}, {"key": "season", "corrupt": 0}),
        marks=pytest.mark.heavy,
        id="key-json",
    ),
    Case("protobuf", {"by": "header", "header": "region"}, 4, {}, {"headers": {"region": "season"}}),
    # What workers evaluate is in test_mixed_topics.py, JSON Schema by itself in test_formats.py; what Spark evaluates below.
    pytest.param(
        Case("jsonschema", {"by": "expression", "expression": NATIVE}, 12),
        marks=pytest.mark.heavy,
        id="expression-jsonschema",
    ),
    Case("avro", {"by": "expression", "expression": ONLY_SPARK}, 10, {"decode": {"engine": "spark"}}),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.route['by']}-{case.written}")
def test_every_event_is_where_its_route_leads(kit: PipelineKit, case: Case) -> None:
    kit.configured(decode={"format": case.written, "evolution": "inline"}).configured(**case.settings)
    kit.configured(route={"field": None, "table": "of_{entity}", **case.route})
    usual = {"format": case.written, "event_types": 3, "corrupt": 0.05, "tombstones": 0.02}
    kit.simulate(2, 400, **{**usual, **case.sent})
    kit.run()
    assert len(kit.assert_clean().tables) == case.tables


def test_types_of_several_formats_in_one_topic_each_have_their_table(kit: PipelineKit) -> None:
    kit.configured(decode={"format": "auto", "evolution": "inline"})
    kit.configured(route={"field": None, "by": "record", "table": "of_{entity}"})
    kit.simulate(2, 300, event_types=2, tombstones=0.02)
    kit.simulate(2, 300, format="json")
    kit.run()
    verdict = kit.assert_clean()
    assert {table.name for table in verdict.tables} == {
        kit.folder_of(name) for name in ("games.GameEvent", "games.PurchaseEvent", "json")
    }
