"""One inferred schema an entity: what is a number in one game is a text in another, and each table has its own type."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tests.ingest.e2e.handmade import assert_each_record_in_one_place, reasons
from tests.ingest.e2e.pipeline_kit import PipelineKit

pytestmark = [pytest.mark.spark, pytest.mark.stack]


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
    """The files of versions, by the folder they are in."""
    found: dict[str, list[str]] = {}
    for path in sorted(kit.settings.schema_folder().rglob("*.json")):
        found.setdefault(path.parent.name, []).append(path.name)
    return found


@pytest.mark.parametrize("evolution", ["restart", "inline"])
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
    assert sorted(kit.rows("go")["schema_id"].to_pylist()) in ([2, 2, 5], [2, 2, 4], [2, 2, 3])
    assert len(versions(kit)["go"]) == 2
    assert versions(kit)["chess"] == ["1.json"]
    assert reasons(kit) == {"malformed": 1, "no_entity": 2}
    assert_each_record_in_one_place(kit)
