"""A plan where a routing expression names the tables: it tells where a run would stop, and what no record has."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.ingest.avro_records import GAME, event, one
from tests.ingest.pipelines import rules_for, settings

from distributary.codecs.base import load_codec
from distributary.errors import ConfigError
from distributary.ingest.columns.layout import Layout
from distributary.ingest.evolution.candidates import Candidates
from distributary.ingest.evolution.pairing import Known
from distributary.ingest.evolution.planner import Planner, Step
from distributary.ingest.pins import PinnedTable, RecordKey
from distributary.ingest.routing.read_ahead import ReadExpression
from distributary.ingest.routing.tree import Call, Field, Literal, Node, evaluate
from distributary.registry.base import Schema
from distributary.registry.memory import MemoryRegistry

SUBJECT, OTHER, AVRO = "games-value", "other-value", load_codec("avro")
# concat(game, '_', lower(coalesce(country, 'nowhere')))
COUNTRY = Call("coalesce", (Field(("country",)), Literal("nowhere")))
TREE = Call("concat", (Field(("game",)), Literal("_"), Call("lower", (COUNTRY,))))
TEXT = "concat(game, '_', lower(coalesce(country, 'nowhere')))"
READ = ReadExpression(TREE, (("game",), ("country",)))
PLACE: dict[str, Any] = {"type": "record", "name": "Place", "fields": [one("string", "name")]}


@pytest.mark.parametrize(
    ("after", "kind"),
    [(one(PLACE, "country"), "changed"), (one("double", "country"), "changed")],
)
def test_a_change_that_the_expression_cannot_be_evaluated_after_leaves_records_without_an_entity(
    after: dict[str, Any], kind: str, tmp_path: Path
) -> None:
    versions = event(0, GAME, one("string", "country")), event(0, GAME, after)
    (step,) = _plan(tmp_path, versions, {"golf": 1})
    (told,) = [verdict for verdict in step.verdicts if verdict.column == "country"]
    assert (told.kind, told.action, told.setting) == (kind, "quarantine", "policies.no_entity")
    assert told.open
    assert told.detail.startswith(f"{_said_by_a_run(versions[1])}. ")
    assert step.verdicts == (told,)


def test_a_wider_number_that_has_no_text_here_leaves_records_without_an_entity(tmp_path: Path) -> None:
    versions = event(0, GAME, one("int", "level")), event(0, GAME, one("double", "level"))
    tree = Call("concat", (Field(("game",)), Field(("level",))))
    read = ReadExpression(tree, (("game",), ("level",)))
    (step,) = _plan(tmp_path, versions, {"golf": 1}, read, "concat(game, level)")
    assert [(told.kind, told.action) for told in step.verdicts] == [("widened", "quarantine")]
    assert "concat makes text of double" in step.verdicts[0].detail


def test_records_that_the_expression_never_went_with_are_told_where_nothing_changed(tmp_path: Path) -> None:
    for known in ({}, {"golf": None}, {"golf": 1}):
        (step,) = _plan(tmp_path, (event(0, GAME, one(PLACE, "country")),), known)
        (told,) = [verdict for verdict in step.verdicts if verdict.action == "quarantine"]
        assert (told.setting, told.open, told.routing) == ("policies.no_entity", True, True)
        assert "coalesce is given struct<" in told.detail


def test_a_change_that_the_expression_goes_with_may_move_records_and_stops_nothing(tmp_path: Path) -> None:
    versions = event(0, GAME, one("string", "country")), event(0, GAME)
    (step,) = _plan(tmp_path, versions, {"golf": 1})
    (told,) = step.verdicts
    assert (told.kind, told.column, told.action, told.routing) == ("dropped", "country", "keep", True)
    assert "may go to other tables" in told.detail


@pytest.mark.parametrize("known", [{}, {"golf": None}, {"golf": 1}])
def test_a_field_that_no_schema_has_needs_a_decision(known: dict[str, int | None], tmp_path: Path) -> None:
    tree = Call("coalesce", (Field(("nosuchfield",)), Field(("at", "nowhere")), Field(("GAME",))))
    read = ReadExpression(tree, (("nosuchfield",), ("at", "nowhere"), ("GAME",)))
    versions = (event(0, GAME, one(PLACE, "at")),)
    (step,) = _plan(tmp_path, versions, known, read, "coalesce(nosuchfield, at.nowhere, GAME)")
    assert [(told.column, told.action, told.setting, told.open) for told in step.verdicts] == [
        (name, "quarantine", "policies.no_entity", True) for name in ("nosuchfield", "at.nowhere")
    ]
    assert "the routing expression reads nosuchfield, which games.Event lacks" in step.verdicts[0].detail


def test_a_field_that_an_older_version_had_is_told_when_it_goes_and_not_again(tmp_path: Path) -> None:
    versions = event(0, GAME, one("string", "country")), event(0, GAME)
    assert [step.verdicts for step in _plan(tmp_path, versions, {"golf": 2})] == [()]
    (step,) = _plan(tmp_path, versions[::-1], {"golf": None})
    assert not step.open
    (step,) = _plan(tmp_path, versions, {"golf": None})
    assert [(told.kind, told.column) for told in step.verdicts if told.open] == [("dropped", "country")]


def test_a_record_type_that_has_no_field_of_the_expression_needs_a_decision(tmp_path: Path) -> None:
    whole = event(0, GAME, one("string", "country"))
    for name, opened in (("game", []), ("id", ["game", "country"])):
        other = event(0, one("string", name), name="Other")
        told = _plan(tmp_path, (whole,), {"golf": 1}, other=other)
        opens = {step.record: [verdict.column for verdict in step.verdicts if verdict.open] for step in told}
        assert opens == {"games.Event": [], "games.Other": opened}


def test_a_routing_field_that_never_was_is_not_told_as_one_that_is_gone(tmp_path: Path) -> None:
    (step,) = _plan(tmp_path, (event(0, GAME),), {}, None, field="nosuchfield")
    (told,) = step.verdicts
    assert (told.column, told.action, told.open) == ("nosuchfield", "quarantine", True)
    assert told.detail == "records are routed by nosuchfield, which they do not have"


def _said_by_a_run(schema: Schema, tree: Node = TREE) -> str:
    """What stops a worker that meets a record of this schema."""
    columns = AVRO.reader(Schema(1, schema.type, schema.text), ()).schema
    rows = pa.RecordBatch.from_pylist([{}], columns)
    with pytest.raises(ConfigError) as stopped:
        evaluate(tree, rows)
    return str(stopped.value)


def _plan(
    root: Path,
    versions: tuple[Schema, ...],
    known: Mapping[str, int | None],
    read: ReadExpression | None = READ,
    text: str = TEXT,
    *,
    field: str | None = None,
    other: Schema | None = None,
) -> tuple[Step, ...]:
    """The plan for tables that met this many of the versions; None where nobody knows what they met.

    They are routed by the field instead, where one is given; `other` is another record type of the topic.
    """
    registry = MemoryRegistry()
    ids = [registry.register(SUBJECT, schema.text, "AVRO") for schema in versions]
    if other is not None:
        registry.register(OTHER, other.text, "AVRO")
    by_expression = {"by": "expression", "expression": text, "field": None}
    route = by_expression if field is None else {"field": field}
    chosen = settings(root, route=route, decode={"format": "avro"})
    layout = AVRO.reader(registry.by_ref(ids[0]), ()).schema
    met = {folder: tuple((one_, ()) for one_ in ids[:count]) for folder, count in known.items() if count}
    pinned: dict[RecordKey, Schema] = {
        key: registry.by_ref(key[0]) for history in met.values() for key in history
    }
    past = Known({folder: PinnedTable(folder, Layout(layout)) for folder in known}, met, pinned)
    return (
        Planner(AVRO, Candidates(AVRO, registry, [SUBJECT, OTHER]), rules_for(chosen, read), past)
        .plan()
        .steps
    )
