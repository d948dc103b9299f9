"""Tables against the newest schemas: which schema is held against which table."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
from tests.ingest.avro_records import GAME, event, one
from tests.ingest.pipelines import rules_for, settings

from distributary.codecs.base import Codec, load_codec
from distributary.ingest.checkpoint.histories import Histories
from distributary.ingest.columns.growth import extend
from distributary.ingest.columns.layout import Layout
from distributary.ingest.evolution.candidates import Candidates
from distributary.ingest.evolution.pairing import Known
from distributary.ingest.evolution.planner import Planner, TablePlan
from distributary.ingest.pins import PinnedTable, RecordKey
from distributary.ingest.schemas.inferred import SchemaLocation
from distributary.ingest.storage.opening import files_at
from distributary.registry.base import Schema, SchemaRegistry
from distributary.registry.memory import MemoryRegistry

SUBJECT = "games-value"
PROTO = 'syntax = "proto3"; package g; message A { string game = 1; %s } message B { string game = 1; %s }'


def test_a_message_further_down_is_held_against_its_own_next_version(tmp_path: Path) -> None:
    registry = MemoryRegistry()
    first = _registered(registry, PROTO % ("int32 a = 2;", "int32 b = 2;"), "PROTOBUF")
    second = _registered(registry, PROTO % ("int64 a = 2;", "int32 b = 2; int32 c = 3;"), "PROTOBUF")
    met = {"golf": ((first, (1,)),), "chess": ((first, (0,)),)}
    found = _plan(tmp_path, "protobuf", registry, met, {"route": {"field": "game"}})
    assert {
        (step.record, *step.tables): [(told.kind, told.column, told.action) for told in step.verdicts]
        for step in found.steps
    } == {
        ("g.B", "golf"): [("added", "c", "add")],
        ("g.A", "chess"): [("widened", "a", "rescue")],
    }
    assert {step.candidate.schema_id for step in found.steps} == {second}


def test_another_format_is_for_all_who_came_before_in_its_subject(tmp_path: Path) -> None:
    registry = MemoryRegistry()
    first = _registered(registry, event(0, GAME, one("int", "a")).text, "AVRO")
    _registered(registry, PROTO % ("int32 a = 2;", ""), "PROTOBUF")
    met = {"golf": ((first, ()),)}
    for name, expected in (
        ("avro", [("format_switched", "quarantine", True)]),
        ("auto", [("format_switched", "fit", True)]),
    ):
        found = _plan(tmp_path, name, registry, met)
        (step,) = found.steps
        told = [(one_.kind, one_.action, one_.open) for one_ in step.verdicts]
        assert [one_ for one_ in told if one_[0] == "format_switched"] == expected
        assert found.open


def test_a_schema_that_nobody_can_decode_with_is_no_progress(tmp_path: Path) -> None:
    registry = MemoryRegistry()
    first = _registered(registry, event(0, GAME).text, "AVRO")
    _registered(registry, '{"type": "nope"}', "AVRO")
    found = _plan(tmp_path, "avro", registry, {"golf": ((first, ()),)})
    (step,) = found.steps
    (told,) = step.verdicts
    assert (step.tables, told.action, told.setting) == (("golf",), "quarantine", "policies.undecodable")
    assert told.detail


def test_records_that_no_table_could_be_for_are_told_before_the_first_comes(tmp_path: Path) -> None:
    registry = MemoryRegistry()
    _registered(registry, event(0, one("int", "a")).text, "AVRO")
    found = _plan(tmp_path, "avro", registry, {})
    (step,) = found.steps
    assert step.tables == ()
    assert [(told.kind, told.column, told.action) for told in step.verdicts] == [
        ("dropped", "game", "quarantine")
    ]


def test_versions_of_an_inferred_schema_are_planned_for(tmp_path: Path) -> None:
    location = SchemaLocation(files_at(tmp_path / "schemas"), SUBJECT)
    for names in (("game",), ("game", "a")):
        location.register(SUBJECT, json.dumps({"type": "struct", "fields": [_text(name) for name in names]}))
    found = _plan(tmp_path, "json", location, {"golf": ((1, ()),), "chess": ((1, ()), (2, ()))})
    assert {step.tables: [told.column for told in step.verdicts] for step in found.steps} == {
        ("golf",): ["a"],
        ("chess",): [],
    }


def test_a_thousand_tables_of_one_history_have_one_answer(tmp_path: Path) -> None:
    registry = MemoryRegistry()
    first = _registered(registry, event(0, GAME).text, "AVRO")
    _registered(registry, event(0, GAME, one("int", "a")).text, "AVRO")
    names = sorted(f"t{n}" for n in range(1000))
    (step,) = _plan(tmp_path, "avro", registry, dict.fromkeys(names, ((first, ()),))).steps
    assert step.tables == tuple(names)
    assert [told.column for told in step.verdicts] == ["a"]


def test_tables_of_rules_with_policies_of_their_own_have_answers_of_their_own(tmp_path: Path) -> None:
    registry = MemoryRegistry()
    first = _registered(registry, event(0, GAME, one("int", "level")).text, "AVRO")
    _registered(registry, event(0, GAME, one("long", "level"), one("int", "a")).text, "AVRO")
    own = {"match": "g*", "policies": {"new_field": "rescue", "wider_type": "quarantine"}}
    met = dict.fromkeys(("golf", "gym", "hop"), ((first, ()),))
    found = _plan(tmp_path, "avro", registry, met, {"tables": [own, {"match": "hop"}]})
    assert {
        step.tables: {told.column: (told.action, told.setting) for told in step.verdicts}
        for step in found.steps
    } == {
        ("golf", "gym"): {
            "level": ("quarantine", "tables[0].policies.wider_type"),
            "a": ("rescue", "tables[0].policies.new_field"),
        },
        ("hop",): {"level": ("rescue", "policies.wider_type"), "a": ("add", "policies.new_field")},
    }


def _plan(
    root: Path,
    name: str,
    registry: SchemaRegistry,
    met: Histories,
    groups: dict[str, Any] | None = None,
) -> TablePlan:
    """The plan for tables that were made by the records they met."""
    codec = load_codec(name)
    chosen = settings(root, **{"route": {"field": "game"}, "decode": {"format": name}, **(groups or {})})
    keys = {key for history in met.values() for key in history}
    schemas = {key: registry.by_ref(key[0]) for key in keys}
    layouts = {history: _layout(codec, schemas, history) for history in met.values()}
    tables = {folder: PinnedTable(folder, Layout(layouts[history])) for folder, history in met.items()}
    candidates = Candidates(codec, registry, [SUBJECT])
    return Planner(codec, candidates, rules_for(chosen), Known(tables, met, schemas)).plan()


def _layout(codec: Codec, schemas: dict[RecordKey, Schema], history: tuple[RecordKey, ...]) -> pa.Schema:
    layout = pa.schema([])
    for key in history:
        layout = extend(layout, codec.reader(schemas[key], key[1]).schema, frozenset())
    return layout


def _registered(registry: MemoryRegistry, text: str, kind: Any) -> int:
    return registry.register(SUBJECT, text, kind)


def _text(name: str) -> dict[str, Any]:
    return {"name": name, "type": "string", "nullable": True, "metadata": {}}
