"""A plan for schemas that no table's history leads to: where their records may go into tables that are there."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.ingest.avro_records import GAME, event, one
from tests.ingest.pipelines import rules_for, settings

from distributary.codecs.base import load_codec
from distributary.ingest.columns.layout import Layout
from distributary.ingest.evolution.candidates import OFFERED, Candidate, Candidates
from distributary.ingest.evolution.pairing import Known
from distributary.ingest.evolution.planner import Planner, Step
from distributary.ingest.pins import PinnedTable, RecordKey
from distributary.registry.base import Schema
from distributary.registry.memory import MemoryRegistry

AVRO = load_codec("avro")
EVENTS, OTHER = "games-value", "purchases-value"
BEFORE = event(0, GAME, one("int", "level"))
PURCHASE = event(0, GAME, one("string", "level"), one("long", "amount"), name="Purchase")
ROUTES: list[dict[str, Any]] = [
    {"field": "game"},
    {"by": "key", "field": None},
    {"by": "topic", "field": None},
    {"by": "header", "field": None, "header": "h"},
]


@pytest.mark.parametrize("route", ROUTES)
def test_a_record_type_that_no_table_met_is_held_against_those_its_records_may_go_to(
    route: dict[str, Any], tmp_path: Path
) -> None:
    known, unmet = plan(tmp_path, {"chess": BEFORE, "golf": BEFORE}, route, other=PURCHASE)
    assert (known.tables, known.record, known.unmet, known.open) == (
        ("chess", "golf"),
        "games.Event",
        False,
        False,
    )
    assert (unmet.tables, unmet.record, unmet.before, unmet.unmet) == (
        ("chess", "golf"),
        "games.Purchase",
        None,
        True,
    )
    assert [
        (told.kind, told.column, told.before, told.after, told.action, told.open) for told in unmet.verdicts
    ] == [
        ("added", "amount", "", "bigint", "add", False),
        ("changed", "level", "int", "string", "quarantine", True),
    ]


def test_a_record_type_that_fits_the_tables_needs_no_decision(tmp_path: Path) -> None:
    fits = event(0, GAME, one("int", "level"), one("long", "amount"), name="Purchase")
    steps = plan(tmp_path, {"golf": BEFORE}, other=fits)
    assert [(step.tables, step.unmet, step.open) for step in steps] == [
        (("golf",), False, False),
        (("golf",), True, False),
    ]


def test_only_the_tables_that_a_new_type_does_not_go_into_are_told(tmp_path: Path) -> None:
    longer = event(0, GAME, one("string", "level"), name="Login")
    steps = plan(tmp_path, {"chess": BEFORE, "golf": longer}, other=PURCHASE)
    assert {step.tables: step.open for step in steps if step.unmet} == {("chess",): True, ("golf",): False}


def test_by_record_a_new_type_has_tables_of_its_own(tmp_path: Path) -> None:
    steps = plan(tmp_path, {"golf": BEFORE}, {"by": "record", "field": None}, other=PURCHASE)
    assert [(step.tables, step.record, step.verdicts) for step in steps] == [
        (("golf",), "games.Event", ()),
        ((), "games.Purchase", ()),
    ]


def test_a_new_type_that_no_table_could_be_for_is_held_against_none(tmp_path: Path) -> None:
    homeless = event(0, one("string", "level"), name="Purchase")
    known, unmet = plan(tmp_path, {"golf": BEFORE}, other=homeless)
    assert (known.tables, unmet.tables) == (("golf",), ())
    assert [(told.kind, told.column, told.action) for told in unmet.verdicts] == [
        ("dropped", "game", "quarantine")
    ]


@pytest.mark.parametrize("route", [{"field": "game"}, {"by": "record", "field": None}])
def test_a_schema_of_another_subject_is_told_to_the_tables_that_met_its_record_type(
    route: dict[str, Any], tmp_path: Path
) -> None:
    """Their own subject has a newest schema of it, too."""
    offered = event(0, one("int", "game"), one("int", "level"))
    steps = plan(tmp_path, {"golf": BEFORE}, route, other=PURCHASE, offered=offered)
    (step,) = [step for step in steps if step.candidate.ref == OFFERED]
    assert (step.tables, step.before, step.unmet) == (("golf",), 1, False)
    assert [(told.kind, told.column, told.before, told.after) for told in step.verdicts] == [
        ("changed", "game", "string", "int")
    ]


def test_a_name_that_a_table_met_is_known_though_the_record_has_another_since(tmp_path: Path) -> None:
    renamed = event(0, GAME, one("int", "level"), name="EventV2", aliases=["games.Event"])
    offered = event(0, one("int", "game"))
    steps = plan(tmp_path, {"golf": BEFORE}, other=PURCHASE, offered=offered, then=renamed)
    (step,) = [step for step in steps if step.candidate.ref == OFFERED]
    assert (step.tables, step.before, step.unmet) == (("golf",), 1, False)
    assert [(told.kind, told.column, told.action) for told in step.verdicts] == [
        ("changed", "game", "quarantine"),
        ("dropped", "level", "keep"),
    ]


def test_a_thousand_tables_are_held_against_a_new_type_together(tmp_path: Path) -> None:
    names = sorted(f"t{n}" for n in range(1000))
    _, unmet = plan(tmp_path, dict.fromkeys(names, BEFORE), other=PURCHASE)
    assert (unmet.tables, unmet.open) == (tuple(names), True)


def plan(
    root: Path,
    tables: dict[str, Schema],
    route: dict[str, Any] | None = None,
    *,
    other: Schema,
    offered: Schema | None = None,
    then: Schema | None = None,
) -> tuple[Step, ...]:
    """The plan for tables that met a schema each; `other` is another subject's, and `offered` its next one.

    `then` is what all tables met after that, of their own subject; what is offered follows on it.
    """
    registry = MemoryRegistry()
    ids = {one_.text: registry.register(EVENTS, one_.text, "AVRO") for one_ in tables.values()}
    registry.register(OTHER, other.text, "AVRO")
    chosen = settings(root, route=route or {"field": "game"}, decode={"format": "avro"})
    last = [] if then is None else [registry.register(EVENTS, then.text, "AVRO")]
    met: dict[str, tuple[RecordKey, ...]] = {
        folder: tuple((ref, ()) for ref in (ids[schema.text], *last)) for folder, schema in tables.items()
    }
    schemas = {key: registry.by_ref(key[0]) for history in met.values() for key in history}
    layouts = {schema.text: AVRO.reader(schema, ()).schema for schema in tables.values()}
    there = {folder: PinnedTable(folder, Layout(layouts[schema.text])) for folder, schema in tables.items()}
    newest = None if offered is None else Candidate(OTHER if then is None else EVENTS, None, OFFERED, offered)
    candidates = Candidates(AVRO, registry, [EVENTS, OTHER], newest)
    return Planner(AVRO, candidates, rules_for(chosen), Known(there, met, schemas)).plan().steps
