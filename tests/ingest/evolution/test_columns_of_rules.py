"""What a new schema means for tables whose rule has columns otherwise: evolution sees the columns that they have."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.ingest.avro_records import GAME, event, one, pinned
from tests.ingest.pipelines import checkpoint, registry, rules_for, schema_book, settings
from tests.ingest.reshaping.test_shape import rule

from distributary.codecs.base import load_codec
from distributary.ingest.checkpoint.histories import Met
from distributary.ingest.columns.growth import GrowthRules
from distributary.ingest.columns.layout import Layout
from distributary.ingest.evolution.candidates import Candidates
from distributary.ingest.evolution.meetings import Meetings
from distributary.ingest.evolution.pairing import Known
from distributary.ingest.evolution.planner import Planner
from distributary.ingest.evolution.rules_of_tables import ShapedBy, rules_in_plan
from distributary.ingest.evolution.transitions import Transitions
from distributary.ingest.pins import PinnedTable, RecordKey
from distributary.ingest.settings.model import Settings
from distributary.registry.base import Schema
from distributary.registry.memory import MemoryRegistry

AVRO = load_codec("avro")
MOOD = {"type": "enum", "name": "Mood", "symbols": ["up", "down"]}
WIDER = {"type": "enum", "name": "Mood", "symbols": ["up", "down", "so"]}
PLACE = {"type": "record", "name": "Place", "fields": [one("string", "name"), one("int", "zip")]}
LATER = {
    "type": "record",
    "name": "Place",
    "fields": [one("string", "name"), one("long", "zip"), one("int", "x", default=0)],
}
NULLABLE: Any = ["null", "string"]


def told(old: Schema, new: Schema, **said: Any) -> list[tuple[str, str, str, str]]:
    """What led from one to the other, as tables of a rule know it."""
    changes = Transitions(AVRO, pinned(old, new)).changes((1, ()), (2, ()), rule(**said))
    return [(one.kind, one.column, one.before, one.after) for one in changes]


@pytest.mark.parametrize(
    ("before", "after", "said", "expected"),
    [
        ([one("int")], [], {"leave": ["x"]}, []),
        ([], [one("int")], {"take": ["game"]}, []),
        ([one("int")], [one("long")], {"rename": {"x": "y"}}, [("widened", "y", "int", "bigint")]),
        ([one("int")], [one("long")], {"hash": ["x"]}, []),
        ([one("int")], [one("string")], {"mask": {"x": "m"}}, []),
        ([one("int")], [one("string")], {"cast": {"x": "string"}}, []),
        ([one("int")], [one("int", "y", aliases=["x"])], {}, [("renamed", "y", "x", "y")]),
        ([one("int")], [one("int", "y", aliases=["x"])], {"rename": {"x": "y"}}, []),
        ([one(MOOD)], [one(WIDER)], {"rename": {"x": "m"}}, [("enum_value_added", "m", "", "so")]),
        ([one(MOOD)], [one(WIDER)], {"hash": ["x"]}, []),
        ([one("string")], [one(NULLABLE, default=None)], {"hash": ["x"]}, [("made_optional", "x", "required", "optional")]),
        ([one(PLACE)], [one(LATER)], {"rename": {"x.zip": "code"}, "leave": ["x.x"]}, [("widened", "x.code", "int", "bigint")]),
        (
            [one({"type": "array", "items": PLACE})],
            [one({"type": "array", "items": LATER})],
            {"leave": ["x.zip"]},
            [("added", "x.element.x", "", "int")],
        ),
        (
            [one({"type": "map", "values": PLACE})],
            [one({"type": "map", "values": LATER})],
            {"hash": ["x.zip"]},
            [("added", "x.value.x", "", "int")],
        ),
        ([one("int")], [one("int")], {"constants": {"x": 1}}, []),
    ],
)  # fmt: skip
def test_a_change_is_one_of_the_columns_that_tables_have(
    before: list[dict[str, Any]],
    after: list[dict[str, Any]],
    said: dict[str, Any],
    expected: list[tuple[str, str, str, str]],
) -> None:
    assert told(event(1, GAME, *before), event(2, GAME, *after), **said) == expected


def chosen(root: Path, columns: dict[str, Any], **more: Any) -> Settings:
    given = {"decode": {"format": "avro"}, "route": {"field": "game", "table": "{entity}"}, **more}
    return settings(root, tables=[{"match": "*", "columns": columns}], **given)


def plan(
    by: Settings, *versions: Schema, layout: pa.Schema, met: int | None = 1
) -> list[tuple[str, str, str, str]]:
    """What is told of the golf's table, whose records came with the version met last."""
    held = MemoryRegistry()
    for one_ in versions:
        held.register("t-value", one_.text, "AVRO")
    kept: dict[RecordKey, Schema] = {
        (n, ()): Schema(n, "AVRO", one_.text) for n, one_ in enumerate(versions, 1)
    }
    known = Known(
        {"golf": PinnedTable("golf", Layout(layout))}, {} if met is None else {"golf": ((met, ()),)}, kept
    )
    planner = Planner(AVRO, Candidates(AVRO, held, ["t-value"]), rules_for(by), known)
    return [
        (one_.kind, one_.column, one_.action, one_.setting)
        for step in planner.plan().steps
        for one_ in step.verdicts
    ]


OLD = event(1, GAME, one("int", "level"), one("string", "email"))
NEW = event(2, GAME, one("int", "level"), one("string", "email"), one("string", "phone", default=""))


def test_a_plan_tells_of_the_columns_that_the_rule_makes(tmp_path: Path) -> None:
    layout = pa.schema([("game", pa.string()), ("stage", pa.int32()), ("email", pa.string())])
    columns = {"rename": {"level": "stage"}, "leave": ["phone"]}
    assert plan(chosen(tmp_path, columns), OLD, NEW, layout=layout) == []
    assert plan(chosen(tmp_path, {"rename": {"level": "stage"}}), OLD, NEW, layout=layout) == [
        ("added", "phone", "add", "policies.new_field")
    ]
    # So where nobody knows what the table met.
    assert plan(chosen(tmp_path, columns), OLD, NEW, layout=layout, met=None) == []
    assert plan(chosen(tmp_path, {"leave": ["phone"]}), OLD, NEW, layout=layout, met=None) == [
        ("added", "level", "add", "policies.new_field"),
        ("dropped", "stage", "keep", ""),
    ]


def test_a_rule_that_is_new_is_told_of_tables_that_know_their_records(tmp_path: Path) -> None:
    layout = pa.schema([("game", pa.string()), ("level", pa.int64()), ("email", pa.string())])
    columns = {"rename": {"email": "mail"}, "hash": {"fields": ["level"], "secret": "0123456789abcdef"}}
    assert plan(chosen(tmp_path, columns), OLD, layout=layout) == [
        ("added", "mail", "add", "policies.new_field"),
        ("changed", "level", "quarantine", "policies.incompatible_type"),
    ]
    # Of what it leaves as it was nothing is told, whatever does not fit.
    narrow = layout.set(1, pa.field("level", pa.int8()))
    assert plan(chosen(tmp_path, {"leave": ["email"]}), OLD, layout=narrow) == []
    refused = plan(chosen(tmp_path, {"rename": {"email": "game"}}), OLD, layout=layout)
    assert refused == [("changed", "", "quarantine", "tables[0].columns")]


def test_a_schema_of_which_the_columns_cannot_be_made_is_told_for_each_table(tmp_path: Path) -> None:
    layout = pa.schema([("game", pa.string())])
    columns = {"rename": {"level": "phone"}}
    expected = [("changed", "", "quarantine", "tables[0].columns")]
    for met in (1, None):
        assert plan(chosen(tmp_path, columns), OLD, NEW, layout=layout, met=met) == expected


@pytest.mark.parametrize("met", [1, 2, None])
def test_a_schema_that_calls_a_hidden_field_otherwise_is_told(tmp_path: Path, met: int | None) -> None:
    """Its records wait, and those of tables that have met it go on."""
    layout = pa.schema([("game", pa.string()), ("level", pa.int32())])
    later = event(2, GAME, one("int", "level"), one("string", "mail", aliases=["email"]))
    told = [("changed", "", "quarantine", "tables[0].columns")] if met != 2 else []
    assert plan(chosen(tmp_path, {"leave": ["email"]}), OLD, later, layout=layout, met=met) == told
    # It has no place where tables get no columns; or whoever wrote the rule knows of it.
    nowhere = chosen(tmp_path, {"leave": ["email"]}, policies={"new_field": "ignore"})
    known = chosen(tmp_path, {"leave": ["email"], "cast": {"mail": "string"}})
    for by in (nowhere, known):
        assert not [one_ for one_ in plan(by, OLD, later, layout=layout, met=met) if one_[0] == "changed"]


def test_so_is_one_of_which_only_schemas_before_the_last_tell_it(tmp_path: Path) -> None:
    """A run holds it against all that it knows, and its records wait."""
    between = event(2, GAME, one("string", "mail", aliases=["email"]))
    without = event(3, GAME, one("int", "level"))
    later = event(4, GAME, one("int", "level"), one("string", "mail"))
    layout = pa.schema([("game", pa.string()), ("level", pa.int32())])
    by, versions = chosen(tmp_path, {"leave": ["email"]}), (OLD, between, without, later)
    told = [("changed", "", "quarantine", "tables[0].columns")]
    for met in (3, None):
        assert plan(by, *versions, layout=layout, met=met) == told


def test_a_table_that_meets_such_a_schema_tells_of_that_and_of_no_column_that_is_gone(tmp_path: Path) -> None:
    by = rules_for(chosen(tmp_path, {"rename": {"level": "phone"}}))
    layout = pa.schema([("game", pa.string()), ("phone", pa.int32()), ("email", pa.string())])
    known = {"golf": PinnedTable("golf", Layout(layout))}
    again = event(3, GAME, one("int", "level"), one("string", "email"), one("int", "n", default=0))
    meetings = Meetings(Transitions(AVRO, pinned(OLD, NEW, again)), by, known, {})
    met: Met = {(2, ()): {"golf": ("t", 0, 0)}, (3, ()): {"golf": ("t", 0, 1)}}
    refused, taken = meetings.of(met, {"golf": ((1, ()),)})
    assert [(one_.action, one_.setting) for one_ in refused.verdicts] == [("quarantine", "tables[0].columns")]
    assert not refused.brought
    assert not [one_ for one_ in taken.verdicts if one_.kind == "dropped"]


def test_a_routing_field_that_is_gone_is_told_though_no_table_has_it(tmp_path: Path) -> None:
    layout = pa.schema([("level", pa.int32()), ("email", pa.string())])
    without = event(2, one("int", "level"), one("string", "email"))
    found = plan(chosen(tmp_path, {"leave": ["game"]}), OLD, without, layout=layout)
    assert found == [("dropped", "game", "quarantine", "policies.no_entity")]
    by = rules_for(chosen(tmp_path, {"leave": ["game"]}))
    known = {"golf": PinnedTable("golf", Layout(layout))}
    meetings = Meetings(Transitions(AVRO, pinned(OLD, without)), by, known, {})
    (meeting,) = meetings.of({(2, ()): {"golf": ("t", 0, 0)}}, {"golf": ((1, ()),)})
    assert [(one_.column, one_.action) for one_ in meeting.verdicts] == [("game", "quarantine")]


def test_a_record_type_brings_what_tables_of_some_rule_get_of_it(tmp_path: Path) -> None:
    book = schema_book(checkpoint(tmp_path), registry())
    book.open(["game-events-value"])
    (first, *_, last) = book.records
    only_first = schema_book(checkpoint(tmp_path, "other"), registry(1))
    only_first.open(["game-events-value"])
    rules = GrowthRules()
    brought = only_first.brings(last, rules)
    assert brought
    assert only_first.brings(last, rules, (rule(leave=list(brought)),)) == ()
    assert only_first.brings(last, rules, (rule(leave=list(brought)), None)) == brought
    assert only_first.brings(first, rules, (rule(constants={"region": "eu"}),)) == ()


def test_what_a_rule_names_and_no_schema_has_is_told_with_it(tmp_path: Path) -> None:
    by = settings(
        tmp_path,
        tables=[
            {
                "match": "golf",
                "columns": {"leave": ["a", "gone"], "rename": {"b.x": "y", "b.no": "z"}},
                "mode": "upsert",
                "keys": ["b.y"],
            },
            {"match": "*", "columns": {"rename": {"a": "b"}}},
        ],
    )
    schemas = [pa.schema([("a", pa.string()), ("b", pa.struct([("x", pa.int64())]))])]
    first, second, sink = rules_in_plan(by.rule_book(), {}, {}, schemas)
    assert first.shaped is not None
    assert (first.shaped.lacking, first.shaped.refused, first.lacking) == (("gone", "b.no"), (), ())
    assert second.shaped == ShapedBy(
        rule(rename={"a": "b"}), (), ("a field is to be called b, and there is one already",)
    )
    assert (first.open, second.open, sink.shaped, sink.open) == (True, True, None, False)
    # Before there is a schema nobody can tell.
    assert not any(one_.open for one_ in rules_in_plan(by.rule_book(), {}, {}, []))
