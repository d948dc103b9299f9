"""What the driver makes of entities that have no inferred schema yet, and of those whose schema lacks a field."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.ingest import kafka_records as records
from tests.ingest.pipelines import checkpoint, settings

from distributary.codecs.base import load_codec
from distributary.errors import EvolutionStopped
from distributary.ingest.batch.new_tables import NewTables
from distributary.ingest.batch.restart import RestartToEvolve
from distributary.ingest.batch.schema_answers import SchemaAnswers
from distributary.ingest.columns.layout import Layout
from distributary.ingest.pins import PinnedTable, Pins, for_workers
from distributary.ingest.progress import Silent
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Literal
from distributary.ingest.running.rules import run_rules
from distributary.ingest.schemas.inferred_per_entity import EntitySchemas
from distributary.ingest.schemas.known import SchemaBook
from distributary.ingest.schemas.pinned import PinsStore
from distributary.ingest.schemas.registry_wait import RegistryWait
from distributary.ingest.settings.groups import Route
from distributary.ingest.storage.opening import files_at
from distributary.ingest.worker.demux import Demultiplexer

SUBJECT = "inferred:games"
GO = PinnedTable("go", Layout(pa.schema([("score", pa.int64())])))


def struct(**types: str) -> str:
    fields = [{"name": n, "type": of, "nullable": True, "metadata": {}} for n, of in types.items()]
    return json.dumps({"type": "struct", "fields": fields})


class Driver:
    """A driver over a location where `go` has version 1; anew, it knows what the one before pinned."""

    def __init__(
        self,
        root: Path,
        known: Mapping[str, PinnedTable] | None = None,
        conditions: Mapping[str, ReadCondition] | None = None,
        **groups: Any,
    ) -> None:
        self.root, self.location = root, EntitySchemas(files_at(root / "schemas"), SUBJECT)
        if not self.location.names():
            self.location.register_each({"go": struct(score="long")})
        wait = RegistryWait(Silent(), threading.Event())
        self.book = SchemaBook(load_codec("json"), self.location, PinsStore(checkpoint(root)), wait, 300.0)
        self.book.open([], SUBJECT)
        groups["decode"] = {"format": "json", "schema_per": "entity", **groups.get("decode", {})}
        groups.setdefault("route", {}).setdefault("table", "{entity}")
        told = run_rules(settings(root, **groups), conditions=conditions)
        there = {"go": GO} if known is None else known
        self.new_tables = NewTables(told.changes, there)
        self.answers = SchemaAnswers(told, there, self.book)

    def answer(self, **report: Any) -> Pins:
        total = records.task_report(**report)
        pins = self.new_tables.admitted(total, records.pins(self.root), last=False)
        return self.answers.answered(total.questions, pins, last=False)

    @property
    def columns(self) -> dict[tuple[int, str | None], list[str]]:
        """The fields of every pinned version, and whose it is."""
        return {
            (one.schema.id, one.schema.entity): self.book.layout(one.key).names for one in self.book.records
        }


def test_a_new_entity_gets_a_schema_of_what_it_brings_and_nothing_restarts(tmp_path: Path) -> None:
    driver = Driver(tmp_path, decode={"evolution": "fail"}, registry={"max_unknown_ids": 0})
    unmet = {"Go!": {struct(score="string"), struct(level="long")}, "chess": {struct(score="double")}}
    pins = driver.answer(unmet=unmet, newcomers=Counter({"Go!": 2, "chess": 1}))
    found = {entity: names for (_, entity), names in driver.columns.items()}
    assert found["chess"] == ["score"]
    assert found["go"] == ["score"]
    (name,) = set(found) - {"chess", "go"}
    assert sorted(found[name or ""]) == ["level", "score"]
    assert driver.location.entity(name or "") == "Go!"
    assert pins.schemas.records == driver.book.records
    assert Driver(tmp_path).columns == driver.columns


def test_what_the_location_has_is_taken_before_what_records_have(tmp_path: Path) -> None:
    driver = Driver(tmp_path)
    made = driver.location.register_each({"chess": struct(elo="long")})["chess"]
    driver.answer(unmet={"chess": {struct(score="double")}}, newcomers=Counter(chess=1))
    assert driver.columns[made.id, "chess"] == ["elo"]
    assert len(driver.columns) == 2


def test_a_first_schema_of_too_many_fields_has_none(tmp_path: Path) -> None:
    driver = Driver(tmp_path, decode={"max_fields": 1})
    driver.answer(unmet={"chess": {struct(a="long", b="long")}}, newcomers=Counter(chess=1))
    assert driver.columns[2, "chess"] == []


def test_of_what_is_proposed_a_schema_takes_what_fits(tmp_path: Path) -> None:
    driver = Driver(tmp_path, {}, decode={"max_fields": 3})
    made_of_data = struct(score="long", **{f"k{number}": "long" for number in range(9)})
    honest = {struct(score="long", elo="long"), struct(score="long", at="string")}
    pins = driver.answer(proposals={(1, ()): {made_of_data, *honest}})
    assert sorted(driver.columns[2, "go"]) == ["at", "elo", "score"]
    # There is room for nothing more: what is left is rescued.
    assert not pins.turn.inferred_final
    assert driver.answer(proposals={(2, ()): {made_of_data}}).turn.inferred_final


def test_a_first_schema_takes_what_fits(tmp_path: Path) -> None:
    driver = Driver(tmp_path, decode={"max_fields": 2})
    unmet = {"chess": {struct(a="long", b="long", c="long"), struct(elo="long")}}
    driver.answer(unmet=unmet, newcomers=Counter(chess=1))
    assert driver.columns[2, "chess"] == ["elo"]


def test_entities_without_room_for_a_table_get_no_schema(tmp_path: Path) -> None:
    driver = Driver(tmp_path, route={"max_tables": 2})
    unmet = {"chess": {struct(a="long")}, "ludo": {struct(a="long")}}
    pins = driver.answer(unmet=unmet, newcomers=Counter(chess=1, ludo=2))
    assert {entity for _, entity in driver.columns} == {"go", "ludo"}
    assert (pins.tables.admitted, pins.turn.tables_final, pins.tables.new_tables) == (
        frozenset({"ludo"}),
        True,
        0,
    )


@pytest.mark.parametrize("evolution", ["restart", "auto", "inline", "fail"])
def test_growth_of_one_entity_is_its_own(tmp_path: Path, evolution: str) -> None:
    driver = Driver(tmp_path, decode={"evolution": evolution})
    driver.answer(unmet={"chess": {struct(score="string")}}, newcomers=Counter(chess=1))
    # Chess has no table yet: what it brings changes none.
    driver.answer(proposals={(2, ()): {struct(score="string", elo="long")}})
    assert driver.columns[3, "chess"] == ["score", "elo"]
    grows = {"proposals": {(1, ()): {struct(score="long", elo="long")}}}
    if evolution in ("auto", "inline"):
        driver.answer(**grows)
    elif evolution == "restart":
        with pytest.raises(RestartToEvolve, match="schema 4 of go brings elo"):
            driver.answer(**grows)
    else:
        with pytest.raises(EvolutionStopped, match="schema 4 of go brings elo"):
            driver.answer(**grows)
        return
    assert Driver(tmp_path).columns == {
        (1, "go"): ["score"], (2, "chess"): ["score"], (3, "chess"): ["score", "elo"], (4, "go"): ["score", "elo"],
    }  # fmt: skip


def test_a_schema_grows_as_far_as_it_may_and_the_others_beside_it(tmp_path: Path) -> None:
    driver = Driver(tmp_path, {}, decode={"max_fields": 1})
    pins = driver.answer(proposals={(1, ()): {struct(score="long", a="long")}})
    assert pins.turn.inferred_final
    assert list(driver.columns) == [(1, "go")]


WANTS = [{"match": "go", "columns": {"constants": {"region": "eu"}, "rename": {"score": "points"}}}]


def test_a_field_that_would_have_the_rule_refuse_every_record_lets_no_schema_grow(tmp_path: Path) -> None:
    driver = Driver(tmp_path, tables=WANTS)
    hostile = struct(score="long", Region="string", points="long", elo="long")
    driver.answer(proposals={(1, ()): {hostile}})
    assert driver.columns[2, "go"] == ["score", "elo"]
    # Of another entity's records it is a field as any other.
    unmet = {"chess": {struct(region="string", points="long")}}
    driver.answer(unmet=unmet, newcomers=Counter(chess=1))
    assert driver.columns[3, "chess"] == ["region", "points"]


def test_a_first_schema_has_no_field_by_which_every_record_would_be_refused(tmp_path: Path) -> None:
    driver = Driver(tmp_path, {}, tables=[{**WANTS[0], "match": "chess"}])
    unmet = {"chess": {struct(region="string", points="long", score="long")}}
    driver.answer(unmet=unmet, newcomers=Counter(chess=1))
    (names,) = (names for (_, entity), names in driver.columns.items() if entity == "chess")
    assert "region" not in names
    assert len({"points", "score"} & set(names)) == 1


def test_a_type_by_which_a_condition_could_be_held_against_no_record_lets_no_schema_grow(
    tmp_path: Path,
) -> None:
    condition = ReadCondition(Call("=", (Field(("gone",)), Literal(True))))
    expects = {"here": {"condition": "gone", "otherwise": "quarantine"}}
    told: dict[str, Any] = {"conditions": {"gone": condition}, "tables": [{"match": "go", "expect": expects}]}
    driver = Driver(tmp_path, **told)
    text = struct(score="long", gone="string", elo="long")
    driver.answer(proposals={(1, ()): {text}}, unmet={"chess": {text}}, newcomers=Counter(chess=1))
    found = {entity: names for (_, entity), names in driver.columns.items()}
    assert found == {"go": ["score", "elo"], "chess": ["score", "gone", "elo"]}
    driver.answer(proposals={(2, ()): {struct(score="long", elo="long", gone="boolean")}})
    assert "gone" in {name for names in driver.columns.values() for name in names}


def test_what_is_refused_keeps_no_field_untold_that_had_no_room_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("distributary.ingest.worker.task._MOST_LETTERS", 10)
    driver = Driver(tmp_path, tables=WANTS)
    driver.answer(unmet={"chess": {struct(score="long")}}, newcomers=Counter(chess=1))
    pinned = {"records": driver.book.records, "route": Route(by="key", table="{entity}")}
    by = records.pins(tmp_path, codec="json", by_entity=True, **pinned)
    for _ in range(2):
        task = Demultiplexer(for_workers(by))
        for offset, (key, value) in enumerate([(b"go", b'{"Region":"x"}'), (b"chess", b'{"elo":1}')]):
            task.take(records.batch([records.Sent(value, offset, key=key)]))
        by = driver.answers.answered(task.finish().questions, by, last=False)
        assert not by.turn.inferred_final
    assert driver.columns[3, "chess"] == ["score", "elo"]


def test_nobody_waits_for_ever_for_room_to_tell_of_fields(tmp_path: Path) -> None:
    driver = Driver(tmp_path, tables=WANTS)
    refused = {"proposals": {(1, ()): {struct(score="long", Region="string")}}, "untold": True}
    assert [driver.answer(**refused).turn.inferred_final for _ in range(4)] == [False] * 3 + [True]
