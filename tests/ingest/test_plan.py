"""What a plan takes for the past, of what a checkpoint keeps."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.ingest.avro_records import GAME, event, one
from tests.ingest.pipelines import rules_for, settings

from distributary.codecs.base import load_codec
from distributary.errors import BadSchema, ConfigError
from distributary.ingest.columns.layout import Layout
from distributary.ingest.evolution.candidates import Candidates
from distributary.ingest.evolution.pairing import Known
from distributary.ingest.evolution.planner import Planner
from distributary.ingest.pins import PinnedTable
from distributary.ingest.plan import _ahead, _landing_nowhere, _usable
from distributary.ingest.settings.model import Settings
from distributary.registry.base import Schema
from distributary.registry.memory import MemoryRegistry

SUBJECT = "games-value"
AVRO = load_codec("avro")


def test_a_kept_schema_that_cannot_be_used_any_more_is_told_and_the_others_are_planned_for(
    tmp_path: Path,
) -> None:
    registry = MemoryRegistry()
    gone, here = Schema(7, "AVRO", '{"type": "whole"}'), event(0, GAME, one("int", "level"))
    newest = registry.register(SUBJECT, here.text, "AVRO")
    met = {"golf": ((7, ()),), "quest": ((7, ()), (newest, ()))}
    columns = Layout(AVRO.reader(here, ()).schema)
    tables = {folder: PinnedTable(folder, columns) for folder in met}
    usable, refused = _usable(AVRO, [((7, ()), gone), ((newest, ()), registry.by_ref(newest))])
    chosen = settings(tmp_path, route={"field": "game"}, decode={"format": "avro"})
    found = Planner(
        AVRO, Candidates(AVRO, registry, [SUBJECT]), rules_for(chosen), Known(tables, met, usable)
    ).plan()
    assert [told.partition(":")[0] for told in refused] == [
        "schema 7 is kept in the checkpoint, and records that name it will go to quarantine"
    ]
    assert {folder for step in found.steps for folder in step.tables} == {"golf", "quest"}


def test_an_inferred_schema_that_cannot_be_used_ends_a_plan_as_it_ends_a_run() -> None:
    with pytest.raises(BadSchema):
        _usable(load_codec("json"), [((-1, ()), Schema(-1, "STRUCT", "{"))])


def test_tables_called_as_what_remembers_deletes_are_told(tmp_path: Path) -> None:
    keeping: dict[str, Any] = {"match": "*", "mode": "upsert", "keys": ["id"], "sequence_by": ["at"]}
    keeping["deletes"] = {"when": "op = 'd'"}
    route = {"by": "topic", "field": None, "table": "t_{entity}"}
    topics = {"topics": ["games", "games__deleted"]}
    for tables, expected in (((), 0), ((keeping,), 2)):
        chosen = settings(tmp_path, route=route, source=topics, tables=tables)
        found = _landing_nowhere(chosen, chosen.rule_book(), ["t_golf", "t_golf__deleted"])
        assert len(found) == expected
    assert [one.split()[2] for one in found] == ["t_games__deleted", "t_golf__deleted"]


@pytest.mark.spark
def test_what_hints_make_of_a_sources_columns_is_planned_for(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"level": [1], "at": ["2026-01-01"]}))

    def planned(hints: str) -> dict[str, Any]:
        chosen = Settings.from_dict(
            {
                "name": "hinted",
                "source": {"delta": {"paths": "./t"}},
                "decode": {"schema_hints": hints},
                "route": {"by": "topic"},
                "sink": {"root": "./lake"},
            },
            tmp_path,
        )
        ahead, told = _ahead(chosen)
        assert ahead is not None
        assert "no version of" in " ".join(told)
        return {field["name"]: field["type"] for field in json.loads(ahead.text)["fields"]}

    found = planned("level string, more map<string, bigint>")
    assert (found["level"], found["at"], found["more"]["type"]) == ("string", "string", "map")
    with pytest.raises(ConfigError, match=r"decode\.schema_hints is no Spark DDL"):
        planned("level quickly")
