"""One inferred schema an entity: what is a number in one game is a text in another, and each table has its own type."""

from __future__ import annotations

import io
import json
import struct
from contextlib import redirect_stdout
from typing import Any

import pytest
from tests.ingest.e2e.handmade import assert_each_record_in_one_place, reasons
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary import cli

pytestmark = [pytest.mark.spark, pytest.mark.stack]

CHAT = {"title": "Chat", "type": "object", "properties": {"flags": {"type": "string"}}}


def raw(**fields: Any) -> bytes:
    return json.dumps(fields).encode()


def per_entity(kit: PipelineKit, **settings: Any) -> PipelineKit:
    kit.configured(decode={"format": "json", "schema_per": "entity"})
    return kit.configured(route={"field": "game", "table": "{entity}"}).configured(**settings)


def types(kit: PipelineKit, table: str) -> dict[str, str]:
    """The payload columns of a table."""
    return {
        field.name: str(field.type)
        for field in kit.rows(table).schema
        if not field.name.startswith("kafka") and field.name != "schema_id"
    }


def versions(kit: PipelineKit) -> dict[str, list[str]]:
    """The files of versions, by the folder they are in; those right in the location by none."""
    folders = ["", *(folder for folder in kit.schemas.folders() if not folder.startswith("_"))]
    found = {folder: [*kit.schemas.names(folder)] for folder in folders}
    return {folder: names for folder, names in found.items() if names}


def planned(kit: PipelineKit) -> set[tuple[str, str, str]]:
    """What `distributary plan` foresees: table, column and class of change."""
    printed = io.StringIO()
    with redirect_stdout(printed), pytest.raises(SystemExit):
        cli.main(["plan", str(kit.settings_file), "--json"])
    steps = json.loads(printed.getvalue())["steps"]
    return {
        (table, change["column"], change["class"])
        for step in steps
        for change in step["changes"]
        for table in step["tables"]
    }


def confluent(schema_id: int, body: bytes) -> bytes:
    return struct.pack(">bI", 0, schema_id) + body


# `inline` with inferred schemas is in `make test` too: test_an_inferred_schema_is_cached_and_grows_with_what_records_bring.
@pytest.mark.parametrize("evolution", ["restart", pytest.param("inline", marks=pytest.mark.heavy)])
def test_each_table_has_its_own_types_and_only_one_grows(kit: PipelineKit, evolution: str) -> None:
    per_entity(kit, decode={"evolution": evolution})
    kit.send([raw(game="go", score=7), raw(game="chess", score="1-0"), raw(game="go", score=8)])
    kit.run()
    assert types(kit, "go") == {"game": "string", "score": "int64"}
    assert types(kit, "chess") == {"game": "string", "score": "string"}
    assert versions(kit) == {"chess": ["1.json"], "go": ["2.json"]}
    # One of them grows, and two come that nobody has met; a restart knows what was pinned.
    kit.send([raw(game="go", score=9, level=3), raw(game="chess", score="0-1"), raw(game="Ludo!", score=[1])])
    kit.send([raw(game="draughts", score=True), b"{", raw(score=1), raw(game={"x": 1})])
    outcome = kit.run()
    assert outcome.summary.evolutions == (1 if evolution == "restart" else 0)
    assert types(kit, "go") == {"game": "string", "score": "int64", "level": "int64"}
    assert types(kit, "chess") == {"game": "string", "score": "string"}
    assert types(kit, "draughts") == {"game": "string", "score": "bool"}
    assert types(kit, kit.folder_of("Ludo!"))["score"].startswith("list<")
    grown = max(kit.rows("go")["schema_id"].to_pylist())
    assert sorted(kit.rows("go")["schema_id"].to_pylist()) == [2, 2, grown]
    assert versions(kit)["go"] == ["2.json", f"{grown}.json"]
    assert versions(kit)["chess"] == ["1.json"]
    assert reasons(kit) == {"malformed": 1, "no_entity": 2}
    told = [row for row in kit.rows("ledger_changes").to_pylist() if row["kind"] == "added"]
    assert [(row["table"], row["column"], row["old_schema_id"], row["schema_id"]) for row in told] == [
        ("go", "level", 2, grown)
    ]
    assert_each_record_in_one_place(kit)
    assert planned(kit) == set()
    # A version written by hand is one table's future.
    kit.schemas.put(
        "chess/99.json",
        b'{"type":"struct","fields":[{"name":"score","type":"long","nullable":true,"metadata":{}}]}',
    )
    assert planned(kit) == {("chess", "score", "changed"), ("chess", "game", "dropped")}


# Both are routes that Kafka tells: test_routes.py has each of them.
@pytest.mark.parametrize(
    "route", [{"by": "key"}, pytest.param({"by": "header", "header": "game"}, marks=pytest.mark.heavy)]
)
def test_beside_registered_records_the_entity_may_come_from_kafka(
    kit: PipelineKit, route: dict[str, str]
) -> None:
    per_entity(kit, decode={"format": "auto", "evolution": "inline"})
    kit.configured(route={"field": None, "table": "of_{entity}", **route})
    kit.configured(policies={"no_entity": {"table": "strays"}})
    registered = confluent(kit.register(json.dumps(CHAT), "JSON"), raw(flags="a"))
    for game, score in (("go", 1), ("chess", "1-0")):
        kit.send([raw(score=score), registered], key=game.encode(), headers={"game": game.encode()})
    kit.send([raw(score={"x": 1})], key=b"\xff", headers={"game": b"\xff"})
    kit.run()
    assert (types(kit, "of_go")["score"], types(kit, "of_chess")["score"]) == ("int64", "string")
    assert types(kit, "strays")["score"].startswith("struct<")
    numbers = {table: kit.rows(table)["schema_id"].to_pylist() for table in ("of_go", "of_chess", "strays")}
    assert all(min(found) < 0 for found in numbers.values())
    assert len({min(found) for found in numbers.values()}) == 3
    assert sorted(map(len, numbers.values())) == [1, 2, 2]
    assert_each_record_in_one_place(kit)


# Lighter: test_each_table_has_its_own_types_and_only_one_grows; the limit is in test_records_entities.py.
@pytest.mark.heavy
def test_entities_beyond_the_limit_cost_no_schema(kit: PipelineKit) -> None:
    per_entity(kit, registry={"max_unknown_ids": 1})
    kit.configured(route={"max_tables": 2})
    kit.send([raw(game="go", score=1)])
    kit.run()
    kit.send([raw(game=f"game_{number}", score="a") for number in range(5)] + [raw(game="chess", at=1)] * 2)
    kit.run()
    # Records without a table are decoded by a schema without fields, which is in the location itself.
    assert sorted(versions(kit)) == ["", "chess", "go"]
    assert types(kit, "chess") == {"game": "string", "at": "int64"}
    assert reasons(kit) == {"table_limit": 5}
    assert_each_record_in_one_place(kit)
