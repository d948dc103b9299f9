"""Verdicts against what really becomes of records: the same classes of change, through the worker's own code."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.arrow_data import batches, schemas
from tests.ingest.avro_records import GAME, event, one, sent_as
from tests.ingest.kafka_records import Sent, batch, pins, rows_of
from tests.ingest.pipelines import rules_for, settings

from distributary.codecs.base import load_codec
from distributary.codecs.changes.classify import SchemaChange, classify
from distributary.codecs.changes.description import RecordDescription, described_columns
from distributary.errors import BadSchema
from distributary.ingest.columns.growth import extend, grown
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import table_name
from distributary.ingest.conform.conversion import conversion_for
from distributary.ingest.evolution.rules import tables_grow, tables_widen, worker_policies
from distributary.ingest.evolution.verdicts import TableVerdict, verdicts, verdicts_of_table
from distributary.ingest.pins import PinnedRecord, PinnedTable
from distributary.ingest.settings.model import Settings
from distributary.ingest.worker.demux import Demultiplexer
from distributary.producer_sim.formats.corruption import framed
from distributary.registry.base import Schema

AVRO = load_codec("avro")


@dataclass(frozen=True)
class Case:
    """A field before and after (None: it is not there), a record of the newer kind, and what must become of it."""

    kind: str
    before: Any
    after: Any
    sent: dict[str, Any]
    action: str
    policies: dict[str, Any] = field(default_factory=dict)
    evolution: str = "restart"
    by: str = "field"
    record: dict[str, Any] = field(default_factory=dict)
    routing: dict[str, Any] | None = field(default_factory=lambda: GAME)


def enum(*symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": "Rank", "symbols": list(symbols)}


def struct(*fields: dict[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "In", "fields": list(fields)}


WIDE, ODD = 2**40, "text"
CASES = {
    "added": Case("added", None, one("int"), {"x": 1}, "add"),
    "added in a struct": Case(
        "added", one(struct(one("int", "a"))), one(struct(one("int", "a"), one("int", "b"))), {"x": {"a": 1, "b": 2}}, "add"
    ),
    "added in a list's elements": Case(
        "added",
        one({"type": "array", "items": struct(one("int", "a"))}),
        one({"type": "array", "items": struct(one("int", "a"), one("int", "b"))}),
        {"x": [{"a": 1, "b": 2}]},
        "add",
    ),
    "added in a map's values": Case(
        "added",
        one({"type": "map", "values": struct(one("int", "a"))}),
        one({"type": "map", "values": struct(one("int", "a"), one("int", "b"))}),
        {"x": {"k": {"a": 1, "b": 2}}},
        "rescue",
        {"new_field": "rescue"},
    ),
    "changed in a struct in a list": Case(
        "changed",
        one({"type": "array", "items": struct(one("int", "a"), one("int", "b"))}),
        one({"type": "array", "items": struct(one("int", "a"), one("string", "b"))}),
        {"x": [{"a": 1, "b": ODD}]},
        "quarantine",
    ),
    "changed among numbers": Case("changed", one("long"), one("double"), {"x": 0.5}, "rescue"),
    "changed to a struct": Case("changed", one("int"), one(struct(one("int", "a"))), {"x": {"a": 1}}, "quarantine"),
    "added, rescued": Case("added", None, one("int"), {"x": 1}, "rescue", {"new_field": "rescue"}),
    "added, ignored": Case("added", None, one("int"), {"x": 1}, "ignore", {"new_field": "ignore"}),
    "added, tables fixed": Case("added", None, one("int"), {"x": 1}, "rescue", evolution="ignore"),
    "widened": Case("widened", one("int"), one("long"), {"x": WIDE}, "rescue"),
    "widened, to quarantine": Case(
        "widened", one("int"), one("long"), {"x": WIDE}, "quarantine", {"wider_type": "quarantine"}
    ),
    "widened, with the column": Case(
        "widened", one("int"), one("long"), {"x": WIDE}, "widen", {"wider_type": "widen"}
    ),
    "widened, tables fixed": Case(
        "widened", one("int"), one("long"), {"x": WIDE}, "rescue", {"wider_type": "widen"}, evolution="ignore"
    ),
    "widened by a date's time": Case(
        "widened",
        one({"type": "int", "logicalType": "date"}),
        one({"type": "long", "logicalType": "local-timestamp-micros"}),
        {"x": 1},
        "widen",
        {"wider_type": "widen"},
    ),
    "changed to what Delta does not widen to": Case(
        "changed", one("long"), one("double"), {"x": 0.5}, "rescue", {"wider_type": "widen"}
    ),
    "widened, stops": Case("widened", one("int"), one("long"), {"x": WIDE}, "fail", {"wider_type": "fail"}),
    "widened within a list": Case(
        "widened",
        one({"type": "array", "items": "int"}),
        one({"type": "array", "items": "long"}),
        {"x": [WIDE]},
        "rescue",
    ),
    "narrowed": Case("narrowed", one("long"), one("int"), {"x": 7}, "fit"),
    "changed": Case("changed", one("int"), one("string"), {"x": ODD}, "quarantine"),
    "changed, rescued": Case(
        "changed", one("int"), one("string"), {"x": ODD}, "rescue", {"incompatible_type": "rescue"}
    ),
    "changed, stops": Case(
        "changed", one("int"), one("string"), {"x": ODD}, "fail", {"incompatible_type": "fail"}
    ),
    "dropped": Case("dropped", one("int"), None, {}, "keep"),
    "renamed": Case("renamed", one("int"), one("int", "y", aliases=["x"]), {"y": 5}, "add"),
    "renamed, rescued": Case(
        "renamed", one("int"), one("int", "y", aliases=["x"]), {"y": 5}, "rescue", {"new_field": "rescue"}
    ),
    "made required": Case("made_required", one(["null", "int"], default=None), one("int"), {"x": 5}, "fit"),
    "made optional": Case("made_optional", one("int"), one(["null", "int"]), {"x": None}, "fit"),
    "enum value added": Case("enum_value_added", one(enum("A")), one(enum("A", "B")), {"x": "B"}, "fit"),
    "enum value removed": Case("enum_value_removed", one(enum("A", "B")), one(enum("A")), {"x": "A"}, "fit"),
    "record renamed": Case("record_renamed", None, None, {}, "fit", record={"name": "Other"}),
    "record renamed, routed by it": Case(
        "record_renamed", None, None, {}, "other_table", record={"name": "Other"}, by="record"
    ),
    "record renamed, no new tables": Case(
        "record_renamed", None, None, {}, "quarantine", {"new_entity": "quarantine"}, by="record",
        record={"name": "Other"},
    ),
    "routing field dropped": Case("dropped", None, None, {}, "quarantine", routing=None),
    "routing field dropped, drop": Case("dropped", None, None, {}, "drop", {"no_entity": "drop"}, routing=None),
    "routing field dropped, a table for it": Case(
        "dropped", None, None, {}, "other_table", {"no_entity": {"table": "strays"}}, routing=None
    ),
    "routing field renamed": Case(
        "renamed", None, None, {"title": "golf"}, "quarantine", routing=one("string", "title", aliases=["game"])
    ),
    "routing field made a struct": Case(
        "changed", None, None, {"game": {"a": 1}}, "quarantine", routing=one(struct(one("int", "a")), "game")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_what_is_told_of_a_change_is_what_becomes_of_its_records(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    before, after = _schema(case, 1), _schema(case, 2)
    chosen = _settings(case, tmp_path)
    found = classify(AVRO.description(before, ()), AVRO.description(after, ()))
    (verdict,) = _verdicts(found, before, after, chosen)
    assert (verdict.kind, verdict.action) == (case.kind, case.action)
    assert _happened(case, (before, after), chosen, tmp_path, verdict) == case.action
    asks = case.action in {"rescue", "quarantine", "fail", "drop", "other_table"} or case.kind == "renamed"
    assert verdict.open is asks


def test_what_changed_beside_its_name_does_not_concern_the_table_that_a_record_leaves(tmp_path: Path) -> None:
    before, after = event(1, one("int", "a")), event(2, one("string", "a"), name="Other")
    found = classify(AVRO.description(before, ()), AVRO.description(after, ()))
    elsewhere, here = (
        [
            (told.kind, told.action)
            for told in _verdicts(found, before, after, settings(tmp_path, route=route))
        ]
        for route in ({"by": "record", "field": None}, {"by": "key", "field": None})
    )
    assert elsewhere == [("record_renamed", "other_table")]
    assert here == [("record_renamed", "fit"), ("changed", "quarantine")]


def test_a_name_that_only_its_case_changed_of_leads_to_the_same_table(tmp_path: Path) -> None:
    before, after = event(1, one("int", "a")), event(2, one("string", "a"), name="EVENT")
    found = classify(AVRO.description(before, ()), AVRO.description(after, ()))
    for fold_case, told in (
        (True, [("record_renamed", "fit"), ("changed", "quarantine")]),
        (False, [("record_renamed", "other_table")]),
    ):
        chosen = settings(tmp_path, route={"by": "record", "field": None, "fold_case": fold_case})
        assert [(one_.kind, one_.action) for one_ in _verdicts(found, before, after, chosen)] == told


PROTO = 'syntax = "proto3"; message E { string game = 1; oneof pick { string a = 2; %s } }'


@pytest.mark.parametrize(
    ("before", "after", "kind"),
    [("", "int32 b = 3;", "oneof_arm_added"), ("int32 b = 3;", "int32 c = 3;", "renamed")],
)
def test_arms_and_numbers_of_protobuf_are_judged_alike(
    before: str, after: str, kind: str, tmp_path: Path
) -> None:
    schemas = Schema(1, "PROTOBUF", PROTO % before), Schema(2, "PROTOBUF", PROTO % after)
    chosen, codec = settings(tmp_path, route={"field": "game"}), load_codec("protobuf")
    old, new = (codec.description(one, (0,)) for one in schemas)
    columns = [codec.reader(one, (0,)).schema for one in schemas]
    (verdict,) = verdicts(
        classify(old, new),
        columns[1],
        Layout(extend(pa.schema([]), columns[0], frozenset())),
        rules_for(chosen),
    )
    assert (verdict.kind, verdict.action) == (kind, "add")
    assert _fate("golf", schemas, framed(2, b"\x0a\x04golf\x18\x05"), chosen, tmp_path, verdict) == "add"


@given(st.data())
def test_no_harm_comes_to_a_value_untold(data: st.DataObject) -> None:
    """Whatever schemas and values: what is rejected, rescued or left out, a verdict on the schemas had said."""
    before, after = data.draw(schemas()), data.draw(schemas())
    policies = {
        name: data.draw(st.sampled_from(values))
        for name, values in (
            ("new_field", ["add", "rescue", "ignore"]),
            ("wider_type", ["rescue", "quarantine"]),
            ("incompatible_type", ["quarantine", "rescue"]),
        )
    }
    rules = rules_for(settings(Path("pipeline").absolute(), policies=policies))
    layout = extend(pa.schema([]), before, rules.columns.reserved())
    old, new = (RecordDescription("", "e", described_columns(one)) for one in (before, after))
    told = {found.action for found in verdicts(classify(old, new), after, Layout(layout), rules)}
    held = grown(Layout(layout), after, rules.growth).columns
    came = conversion_for(after, held, rules.policies).apply(data.draw(batches(after)))
    if came.rejected:
        assert "quarantine" in told
    if came.rescued is not None:
        assert told & {"rescue", "quarantine"}
    if not told & {"rescue", "quarantine", "ignore"}:
        assert not came.rejected
        assert conversion_for(after, held, rules.policies).trouble == ()


def test_a_column_that_cannot_become_wider_keeps_its_type_and_the_rest_is_rescued(tmp_path: Path) -> None:
    chosen = settings(tmp_path, policies={"wider_type": "widen"})
    before, after = pa.schema([("x", pa.int32())]), pa.schema([("x", pa.int64())])
    (widened,) = verdicts_of_table(after, Layout(before), rules_for(chosen))
    assert (widened.kind, widened.action, widened.table, widened.open) == (
        "widened",
        "widen",
        "bigint",
        False,
    )
    (kept,) = verdicts_of_table(after, Layout(before), rules_for(chosen).with_fixed(frozenset({"x"})))
    assert (kept.kind, kept.action, kept.table, kept.open) == ("widened", "rescue", "int", True)


def test_growth_that_the_settings_forbid_stops_the_run(tmp_path: Path) -> None:
    case = CASES["added"]
    for groups, setting in (
        ({"policies": {"new_field": "fail"}}, "policies.new_field"),
        ({"decode": {"format": "avro", "evolution": "fail"}}, "decode.evolution"),
    ):
        chosen = settings(tmp_path, route={"field": "game"}, **groups)
        (verdict,) = _verdicts(
            [SchemaChange("added", "x", "", "int")], _schema(case, 1), _schema(case, 2), chosen
        )
        assert (verdict.action, verdict.setting, verdict.open) == ("fail", setting, True)


def test_another_format_is_decoded_only_where_every_format_is(tmp_path: Path) -> None:
    case = CASES["added"]
    found = [SchemaChange("format_switched", "", "PROTOBUF", "AVRO"), SchemaChange("added", "x", "", "int")]
    fixed = _verdicts(found, _schema(case, 1), _schema(case, 2), settings(tmp_path))
    assert [(one.kind, one.action, one.open) for one in fixed] == [("format_switched", "quarantine", True)]
    codec, pinned = load_codec("protobuf"), _schema(case, 2)
    with pytest.raises(BadSchema):
        codec.reader(pinned, (0,))
    mixed = settings(tmp_path, decode={"format": "auto"})
    told = _verdicts(found, _schema(case, 1), _schema(case, 2), mixed)
    assert [(one.kind, one.action, one.open) for one in told] == [
        ("format_switched", "fit", True),
        ("added", "add", False),
    ]


def _schema(case: Case, version: int) -> Schema:
    routing = GAME if version == 1 else case.routing
    fields = [one for one in (routing, case.before if version == 1 else case.after) if one is not None]
    return event(version, *fields, **(case.record if version == 2 else {}))


def _settings(case: Case, root: Path) -> Settings:
    route = {"by": case.by, "field": "game" if case.by == "field" else None}
    decode = {"format": "avro", "evolution": case.evolution}
    return settings(root, route=route, policies=case.policies, decode=decode)


def _verdicts(
    found: list[SchemaChange], before: Schema, after: Schema, chosen: Settings
) -> tuple[TableVerdict, ...]:
    old, new = (AVRO.reader(one, ()).schema for one in (before, after))
    return verdicts(found, new, Layout(extend(pa.schema([]), old, frozenset())), rules_for(chosen))


def _happened(
    case: Case, schemas: tuple[Schema, Schema], chosen: Settings, root: Path, verdict: TableVerdict
) -> str:
    """What becomes of one record of the newer schema, with a table as the older one made it."""
    entity = "games.Event" if case.by == "record" else "golf"
    fields = {"game": "golf", **case.sent} if case.routing is GAME else case.sent
    return _fate(entity, schemas, sent_as(schemas[1], **fields), chosen, root, verdict)


def _fate(  # noqa: PLR0917
    entity: str,
    schemas: tuple[Schema, Schema],
    value: bytes,
    chosen: Settings,
    root: Path,
    verdict: TableVerdict,
) -> str:
    codec = load_codec(chosen.decode.format)
    path = codec.default_path
    home = table_name(chosen.route.table, entity, True)
    layout = extend(pa.schema([]), codec.reader(schemas[0], path).schema, frozenset())
    by = pins(
        root,
        codec=chosen.decode.format,
        records=tuple(PinnedRecord((one.id, path), one) for one in schemas),
        route=chosen.route,
        policies=worker_policies(chosen.decode, chosen.policies),
        grow=tables_grow(chosen.decode, chosen.policies),
        widen=tables_widen(chosen.decode, chosen.policies),
        known={home: PinnedTable(entity, Layout(layout))},
        new_tables=0 if chosen.policies.new_entity == "quarantine" else 10,
        schemas_final=True,
        tables_final=True,
    )
    task = Demultiplexer(by)
    task.take(batch([Sent(value)]))
    report = task.finish()
    for fate, met in (
        ("fail", report.stops),
        ("quarantine", report.counts.quarantined),
        ("drop", report.counts.dropped),
    ):
        if met:
            return fate
    if report.files.wishes:
        return "widen"
    (written,) = [one for one in report.files.written if one.entity is not None]
    if written.file.table != home:
        return "other_table"
    (row,) = rows_of(by, report, home)
    if row.get("_rescued_data") is not None:
        return "rescue"
    return _in_columns(verdict, row, layout, written.layout.columns)


def _in_columns(verdict: TableVerdict, row: dict[str, Any], before: pa.Schema, after: pa.Schema) -> str:
    if not after.equals(before):
        return "add"
    top = verdict.column.partition(".")[0]
    if top and top not in before.names:
        return "ignore"
    return "keep" if verdict.kind == "dropped" and row[top] is None else "fit"
