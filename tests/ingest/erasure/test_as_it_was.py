"""A person's rows go by what they were before a change, whatever a rule calls the column that has that, or the fields in it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.ingest.pipelines import settings
from tests.ingest.upkeep.test_maintain import own

from distributary.ingest.columns.layout import SOURCE
from distributary.ingest.erasure import erase as module
from distributary.ingest.erasure.as_it_was import AsItWas
from distributary.ingest.erasure.bodies import Rows
from distributary.ingest.erasure.erase import Wanted, erase
from distributary.ingest.reshaping.rule import Op, Reshape
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Literal
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.change import create
from distributary.ingest.tables.known import ENTITY_PROPERTY

NAMED = ReadCondition(Call("=", (Field(("who", "name")), Literal("ann"))))

RENAMING = Reshape(
    (
        (("customer",), Op("rename", "who")),
        (("customer", "fullName"), Op("rename", "name")),
        (("__before",), Op("rename", "was")),
        (("__before", "customer", "fullName"), Op("rename", "full")),
    )
)

WHO = [{"name": "nobody"}] * 4


def as_text(rows: list[Any]) -> pa.Array:
    return pa.array([None if row is None else json.dumps(row) for row in rows])


@pytest.mark.parametrize("of", [pa.array, as_text])
@pytest.mark.parametrize(
    ("rule", "called", "inside"),
    [
        (RENAMING, "was", "full"),
        # Rows that came before the rule did.
        (RENAMING, "__before", "fullName"),
        (Reshape(RENAMING.ops[:2]), "__before", "fullName"),
        (Reshape(RENAMING.ops[2:3]), "was", "name"),
        (None, "__before", "name"),
    ],
)
def test_a_row_as_it_was_is_known_by_the_names_that_its_table_has(
    of: Any, rule: Reshape | None, called: str, inside: str
) -> None:
    customer = "who" if inside == "name" else "customer"
    was = of([{customer: {inside: "ann"}}, {customer: {inside: "bob"}}, None, {customer: None}])
    rows = pa.RecordBatch.from_arrays([pa.array(WHO), was], ["who", called])
    which = Rows(NAMED, was=AsItWas.of(rows.schema, rule))
    assert which.met(rows).tolist() == [True, False, False, False]
    assert which.unread == 0


def test_names_that_a_table_cannot_have_are_found_by_those_that_it_has() -> None:
    """Of a text it has the record's own."""
    own = pa.field("full_name_1", pa.string(), metadata={SOURCE: b"full name"})
    told = pa.schema([own, pa.field("__before", pa.string())])
    rows = pa.RecordBatch.from_arrays([pa.array(["bob"]), as_text([{"full name": "ann"}])], schema=told)
    condition = ReadCondition(Call("=", (Field(("full_name_1",)), Literal("ann"))))
    assert Rows(condition, was=AsItWas.of(told, None)).met(rows).tolist() == [True]


def test_fields_that_exchange_their_names_are_not_taken_for_each_other() -> None:
    rule = Reshape(((("a",), Op("rename", "b")), (("b",), Op("rename", "a"))))
    was = pa.array([{"a": 1, "b": 2}])
    rows = pa.RecordBatch.from_arrays([pa.array([0]), pa.array([0]), was], ["a", "b", "__before"])
    which = AsItWas.of(rows.schema, rule)
    assert [each.column("__before").to_pylist() for each in which.each(rows)] == [
        [{"a": 1, "b": 2}],
        [{"b": 1, "a": 2}],
    ]


def test_rows_go_by_what_they_were_though_the_settings_rename_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = files_at(tmp_path / "lake")
    renaming = {"rename": {"custId": "customer_id", "__before": "was"}}
    given = settings(
        tmp_path,
        sink={"root": root.url},
        decode={"format": "json", "envelope": {"kind": "debezium", "keep": ["before"]}},
        tables=[{"match": "chess", "columns": renaming}],
    )
    own(root, given, "games")
    table = root.below("games").url
    rows = pa.table({"customer_id": [1, 2], "was": ['{"custId": 7}', '{"custId": 8}']})
    create(table, rows.schema, {ENTITY_PROPERTY: "chess"})
    write_deltalake(table, rows, mode="append")
    where = "customer_id = 7"
    condition = ReadCondition(Call("=", (Field(("customer_id",)), Literal(7))))
    monkeypatch.setattr(module, "conditions_ahead", lambda _: {where: condition})
    assert erase(given, Wanted(where)).rows == 1
    assert DeltaTable(table).to_pyarrow_table()["customer_id"].to_pylist() == [2]
