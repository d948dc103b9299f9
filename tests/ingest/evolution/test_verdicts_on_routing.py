"""Verdicts on changes of fields that the routing expression reads: records may go to other tables then."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.ingest.avro_records import GAME, event, one
from tests.ingest.pipelines import rules_for, settings

from distributary.codecs.base import load_codec
from distributary.codecs.changes.classify import ChangeClass, SchemaChange, classify
from distributary.codecs.types.fields import part
from distributary.ingest.columns.growth import extend
from distributary.ingest.columns.layout import Layout
from distributary.ingest.evolution.verdicts import verdicts
from distributary.ingest.routing.read_ahead import ReadExpression, read_ahead

AVRO = load_codec("avro")


def test_a_field_that_the_routing_expression_reads_is_not_changed_unasked(tmp_path: Path) -> None:
    route = {"by": "expression", "expression": "concat(game, '_level')", "field": None}
    chosen = settings(tmp_path, route=route, decode={"format": "avro"})
    before, after = event(1, GAME, one("int", "level")), event(2, one("int", "other"))
    found = classify(AVRO.description(before, ()), AVRO.description(after, ()))
    old, new = (AVRO.reader(schema, ()).schema for schema in (before, after))
    rules = rules_for(chosen, ReadExpression(None, (("game",),)))
    told = verdicts(found, new, Layout(extend(pa.schema([]), old, frozenset())), rules)
    assert {(found.kind, found.column, found.action, found.open) for found in told} == {
        ("dropped", "game", "keep", True),
        ("dropped", "level", "keep", False),
        ("added", "other", "add", False),
    }


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("name", "expression", "routing"),
    [
        ("game-id", "lower(`game-id`)", True),
        ("game name", "concat(`Game Name`, 'x')", True),
        ("game-id", "lower(game)", False),
        ("game-id", "concat(game, 'game-id')", False),
        ("-", "lower(`-`)", True),
        ("-", None, False),
    ],
)
def test_a_routing_expression_reads_fields_whose_names_it_quotes(
    name: str, expression: str | None, routing: bool, tmp_path: Path
) -> None:
    by_field = {"field": "game"}
    by_expression = {"by": "expression", "expression": expression, "field": None}
    chosen = settings(tmp_path, route=by_expression if expression else by_field)
    rules = rules_for(chosen, read_ahead(expression, native=False) if expression else None)
    columns = pa.schema([("a", pa.string())])
    (told,) = verdicts([SchemaChange("dropped", part(name), "string", "")], columns, Layout(columns), rules)
    assert told.routing is routing


ID = pa.struct([("id", pa.string()), ("value", pa.int64())])
NESTED = pa.schema(
    [("tags", pa.list_(ID)), ("props", pa.map_(pa.string(), ID)), ("at", ID), ("id", pa.string())]
)


@pytest.mark.spark
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    ("kind", "path", "expression", "routing"),
    [
        ("dropped", "tags.element.id", "tags[0].id", True),
        ("dropped", "tags.element.id", "element_at(`tags`, 1)['id']", True),
        ("dropped", "tags.element.value", "tags[0].id", False),
        ("changed", "tags.element", "to_json(tags[0])", True),
        ("dropped", "props.value.id", "props['game'].id", True),
        ("renamed", "props.value.name", "transform_values(props, (k, v) -> v.id)['game']", True),
        ("dropped", "props.value.value", "props['game'].id", False),
        ("changed", "props.key", "props[1].id", True),
        ("dropped", "at.value", "at.id", False),
        ("dropped", "at.id", 'at["id"]', True),
        # The map's entry `id` is no field.
        ("dropped", "id", "props['id'].value", False),
        # Of what the table does not have, one too many is told.
        ("dropped", "gone.element.id", "gone[0].id", True),
    ],
)
def test_a_routing_expression_reads_fields_within_lists_and_maps(
    kind: ChangeClass, path: str, expression: str, routing: bool, tmp_path: Path
) -> None:
    route = {"by": "expression", "expression": expression, "field": None}
    change = SchemaChange(kind, path, "id" if kind == "renamed" else "string", "bigint")
    (told,) = verdicts(
        [change],
        NESTED,
        Layout(NESTED),
        rules_for(settings(tmp_path, route=route), read_ahead(expression, native=False)),
    )
    assert (told.routing, told.open) == (routing, routing)
