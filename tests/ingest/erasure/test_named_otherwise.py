"""Records in quarantine go by the names that tables have for their fields, too: a condition is over those."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.ingest.pipelines import settings
from tests.ingest.upkeep.test_maintain import own

from distributary.ingest.columns.layout import OWN, SOURCE
from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.erasure import erase as module
from distributary.ingest.erasure.erase import Wanted, erase
from distributary.ingest.erasure.named_otherwise import called, concerning, names_of
from distributary.ingest.erasure.quarantined import Quarantined
from distributary.ingest.reshaping.rule import Op, Reshape
from distributary.ingest.routing.conditions import ReadCondition
from distributary.ingest.routing.tree import Call, Field, Literal
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.change import create
from distributary.ingest.tables.known import ENTITY_PROPERTY
from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA

RENAMING = {"rename": {"customer": "who", "customer.fullName": "name"}}


@pytest.mark.parametrize(
    "case",
    [
        (RENAMING, ("who", "name"), {"customer": {"fullName": "%s"}}),
        ({}, ("full_name_1",), {"full name": "%s"}),
        (RENAMING, ("who", "name"), {"before": None, "after": {"customer": {"fullName": "%s"}}}),
    ],
    ids=["by the rule", "by Delta", "in an envelope"],
)
@pytest.mark.parametrize("tables", [(), ("quarantine",)])
def test_records_in_quarantine_go_by_the_names_that_tables_have(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, case: tuple[Any, Any, Any], tables: Any
) -> None:
    """They stayed, in silence: a condition is over the columns of tables."""
    columns, path, said = case
    root = files_at(tmp_path / "lake")
    rules = [{"match": "chess", "columns": columns}] if columns else []
    given = settings(tmp_path, sink={"root": root.url}, decode={"format": "json"}, tables=rules)
    own(root, given, "games")
    told = pa.field("full_name_1", pa.string(), metadata={SOURCE: b"full name"})
    who = pa.field("who", pa.struct([("name", pa.string())]))
    create(root.below("games").url, pa.schema([told, who]), {ENTITY_PROPERTY: "chess"})
    quarantine = root.below("quarantine").url
    create(quarantine, QUARANTINE_SCHEMA, {})
    rows = [
        {"value": (json.dumps(said) % name).encode(), "pipeline": given.name, "kafka_offset": place}
        for place, name in enumerate(("ann", "bob"))
    ]
    write_deltalake(quarantine, pa.Table.from_pylist(rows, QUARANTINE_SCHEMA), mode="append")
    condition = ReadCondition(Call("=", (Field(path), Literal("ann"))))
    monkeypatch.setattr(module, "conditions_ahead", lambda _: {"it": condition})
    assert erase(given, Wanted("it", tables=tables)).rows == 1
    assert DeltaTable(quarantine).to_pyarrow_table()["kafka_offset"].to_pylist() == [1]


@pytest.mark.parametrize(
    ("field", "count"), [("mail", 1), ("Email", 1), ("game", 0)], ids=["renamed", "hashed", "another"]
)
def test_records_that_have_as_it_came_what_tables_have_hashed_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, count: int
) -> None:
    """By a hash none of them is found, as those that came before their rule, and nothing said so."""
    root, secret = files_at(tmp_path / "lake"), "0123456789abcdef"
    columns = {"hash": {"fields": ["email"], "secret": secret}, "rename": {"email": "mail"}}
    rules = [
        {"match": "chess", "columns": columns if field == "mail" else {"hash": columns["hash"]}},
        {"match": "*", "columns": {"leave": ["game"]}},
    ]
    given = settings(tmp_path, sink={"root": root.url}, decode={"format": "json"}, tables=rules)
    own(root, given, "games")
    create(root.below("games").url, pa.schema([("mail", pa.string())]), {ENTITY_PROPERTY: "chess"})
    quarantine = root.below("quarantine").url
    create(quarantine, QUARANTINE_SCHEMA, {})
    # Of those that have no such field none is as it came.
    values = [b'{"email": "ann@example.org"}', b'{"level": 1}', b'{"email": null}', None]
    rows = [{"value": value, "pipeline": given.name} for value in values]
    write_deltalake(quarantine, pa.Table.from_pylist(rows, QUARANTINE_SCHEMA), mode="append")
    condition = ReadCondition(Call("=", (Field((field,)), Literal("5f2a"))))
    monkeypatch.setattr(module, "conditions_ahead", lambda _: {"it": condition})
    (told,) = [one for one in erase(given, Wanted("it")).tables if one.table == "quarantine"]
    assert [one[:60] for one in told.left] == [
        "1 records have as it came what tables have hashed or masked: "[:60]
    ][:count]


def test_nobody_is_meant_for_want_of_a_field_that_is_there_by_its_own_name() -> None:
    """What another table calls otherwise is no value that this record lacks."""
    lacks = Call("is null", (Field(("email",)),))
    condition = ReadCondition(Call("and", (Call("=", (Field(("level",)), Literal(7))), lacks)))
    which = Quarantined(condition, Whose.of("games"), names=[{("email",): "mail"}])
    said = [b'{"level": 7, "email": "ann@example.org"}', b'{"level": 7}']
    rows = {"kafka_key": [b"a"] * 2, "value": said, "pipeline": ["games"] * 2, "generation": ["g"] * 2}
    assert which.rows().met(pa.RecordBatch.from_pydict(rows)).tolist() == [False, True]


def test_fields_have_the_names_that_a_rule_and_delta_give() -> None:
    inner = pa.field("in_1", pa.string(), metadata={SOURCE: b"in"})
    columns = pa.schema(
        [
            pa.field("b", pa.struct([inner])),
            pa.field("a", pa.int64()),
            pa.field("kafka_ts", pa.int64(), metadata={OWN: b"kafka_ts"}),
        ]
    )
    rule = Reshape(((("a",), Op("rename", "b")), (("b",), Op("rename", "a")), (("c",), Op("leave"))))
    names = names_of(columns, rule)
    assert names == {("a",): "b", ("b",): "a", ("a", "in"): "in_1"}
    assert called({"a": {"in": "x", "y": 1}, "b": 2, "c": 3}, names) == {
        "b": {"in_1": "x", "y": 1},
        "a": 2,
        "c": 3,
    }
    # Two of one name: nobody could tell which is meant.
    assert called({"a": 1, "B": 2}, {("a",): "b"}) == {"a": 1, "B": 2}


def test_of_names_those_are_left_that_decide_what_a_condition_finds() -> None:
    names = {("a",): "b", ("b",): "a", ("c",): "who", ("c", "f"): "name", ("c", "x"): "y", ("d",): "e"}
    assert concerning(names, [("A",)]) == {("a",): "b", ("b",): "a"}
    assert concerning(names, [("who", "name")]) == {("c",): "who", ("c", "f"): "name"}
    assert concerning(names, [("none",)]) == {}
