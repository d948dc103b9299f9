"""Rules a table on the real broker and registry: tables are made by them, changed by them, and a crash in between leaves nothing half done."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.ingest.avro_records import event, one, sent_as
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said

from distributary.errors import BudgetSpent, PolicyStopped
from distributary.producer_sim.traffic.events import game_names
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/rules-a-table.md"

FIRST, SECOND, THIRD = game_names(3)


def told(kit: PipelineKit, game: str) -> tuple[str | None, dict[str, str]]:
    """A table's comment and its properties."""
    metadata = kit.delta(kit.folder_of(game)).metadata()
    return metadata.description, metadata.configuration


def property_rows(kit: PipelineKit) -> list[tuple[str, str, str | None, str | None]]:
    """What the ledger has of properties that were set."""
    rows = [row for row in kit.rows("ledger_changes").to_pylist() if row["kind"] == "property"]
    assert all(row["decision"] == "set" for row in rows)
    return sorted((row["table"], row["column"], row["before"], row["after"]) for row in rows)


def settings_entries(kit: PipelineKit, game: str) -> int:
    """How often properties of a table were set."""
    history = kit.delta(kit.folder_of(game)).history()
    return sum(entry["operation"] == "SET TBLPROPERTIES" for entry in history)


def test_each_entitys_table_is_made_and_changed_by_its_own_rule(kit: PipelineKit) -> None:
    kit.configured(
        sink={"properties": {"team": "games"}},
        tables=[
            {"match": FIRST, "comment": "Races", "properties": {"delta.checkpointInterval": 7}},
            {
                "match": f"{SECOND[:4]}*",
                "max_rows_per_file": 10,
                "properties": {"team": None, "delta.dataSkippingNumIndexedCols": 2},
            },
        ],
    )
    kit.simulate(1)
    kit.run()
    assert told(kit, FIRST)[0] == "Races"
    assert told(kit, FIRST)[1].items() >= {"delta.checkpointInterval": "7", "team": "games"}.items()
    assert "team" not in told(kit, SECOND)[1]
    assert told(kit, THIRD) == (
        None,
        told(kit, THIRD)[1] | {"team": "games", "delta.checkpointInterval": "25"},
    )
    adds = kit.delta(kit.folder_of(SECOND)).get_add_actions(flatten=True)
    assert max(rows := adds["num_records"].to_pylist()) == 10
    assert len(rows) >= sum(rows) // 10
    assert {name for name in adds.schema.names if name.startswith("null_count.")} == {
        "null_count.kafka_topic",
        "null_count.kafka_partition",
    }
    assert property_rows(kit) == []

    kit.configured(
        tables=[
            {"match": f"/{FIRST}|{THIRD}/", "comment": "More", "properties": {"delta.appendOnly": True}},
            {"match": "*", "properties": {"team": "quests"}},
        ]
    )
    answered, output = said(kit, "plan", str(kit.settings_file), "--json")
    rules = {rule["match"]: rule for rule in json.loads(output)["rules"]}
    assert answered == 0
    assert rules["*"]["tables"] == [kit.folder_of(SECOND)]
    assert rules["*"]["changes"][0]["properties"] == [{"name": "team", "before": None, "after": "quests"}]
    kit.simulate(2, games=2)
    kit.run()
    assert told(kit, FIRST)[0] == "More"
    assert told(kit, FIRST)[1]["delta.appendOnly"] == "true"
    assert told(kit, THIRD)[0] is None, "it had no rows since"
    first, second = kit.folder_of(FIRST), kit.folder_of(SECOND)
    expected = [
        (first, "comment", "Races", "More"),
        (first, "delta.appendOnly", None, "true"),
        (second, "team", None, "quests"),
    ]
    assert property_rows(kit) == sorted(expected, key=lambda row: row[:2])

    kit.simulate(2)
    kit.run()
    assert told(kit, THIRD)[0] == "More"
    assert [settings_entries(kit, game) for game in (FIRST, SECOND, THIRD)] == [1, 1, 1]
    kit.assert_clean()
    assert kit.unnamed_files() == set()


# Lighter: test_each_entitys_table_is_made_and_changed_by_its_own_rule; amid a change of columns runs fail in test_crashes.py.
@pytest.mark.heavy
@pytest.mark.parametrize(
    "point", ["amid_schema_change", "before_manifest", "after_manifest", "between_commits"]
)
def test_a_crash_in_a_changed_rule_leaves_each_table_told_once(
    kit: PipelineKit, fail_at: Callable[..., None], point: str
) -> None:
    kit.configured(limits={"commit_threads": 1})
    kit.simulate(1)
    kit.run()
    kit.configured(
        tables=[{"match": "*", "comment": "Games", "properties": {"mine": 1, "delta.appendOnly": True}}]
    )
    kit.simulate(2, games=4)
    fail_at(f"{point}:3")
    with pytest.raises(BudgetSpent):
        kit.run()
    fail_at()
    kit.run()
    for game in (FIRST, SECOND, THIRD):
        assert told(kit, game)[0] == "Games"
        assert told(kit, game)[1].items() >= {"mine": "1", "delta.appendOnly": "true"}.items()
        assert settings_entries(kit, game) == 1
    grown = sorted(map(kit.folder_of, (FIRST, SECOND, THIRD)))
    assert [row[:2] for row in property_rows(kit)] == [
        (table, name) for table in grown for name in ("comment", "delta.appendOnly", "mine")
    ]
    assert settings_entries(kit, game_names(4)[3]) == 0, "made so at once"
    kit.assert_clean()
    assert kit.unnamed_files() == set()


# Lighter: tests/ingest/evolution/test_rules_of_tables.py has rules of policies, test_evolution.py each of them.
@pytest.mark.heavy
def test_what_a_new_field_does_each_table_decides_by_its_own_rule(kit: PipelineKit) -> None:
    rules = [
        {"match": FIRST, "policies": {"new_field": "rescue"}},
        {"match": SECOND, "policies": {"new_field": "fail"}},
    ]
    kit.configured(tables=rules)
    kit.simulate(1)
    kit.run()
    kit.simulate(2, games=1)
    kit.run()
    columns = {game: set(kit.rows(kit.folder_of(game)).schema.names) for game in (FIRST, THIRD)}
    assert columns[FIRST] - columns[THIRD] == {"_rescued_data"}
    kit.simulate(2)
    answered, output = said(kit, "plan", str(kit.settings_file))
    assert answered == 3
    assert "tables[1].policies.new_field" in output
    with pytest.raises(
        PolicyStopped, match=rf"{kit.folder_of(SECOND)}: .* tables\[1\]\.policies\.new_field is `fail`"
    ):
        kit.run()
    assert set(kit.rows(kit.folder_of(THIRD)).schema.names) == columns[THIRD], "nothing of the batch is there"
    kit.configured(tables=rules[:1])
    kit.run()
    after = {game: set(kit.rows(kit.folder_of(game)).schema.names) for game in (FIRST, SECOND, THIRD)}
    assert after[FIRST] == columns[FIRST]
    assert after[SECOND] == after[THIRD] > columns[THIRD]
    # The truth is that of the default policies.
    assert not verify(kit.settings).differences


# Lighter: test_each_entitys_table_is_made_and_changed_by_its_own_rule has rules of all kinds.
@pytest.mark.heavy
def test_a_schema_without_a_field_waits_in_quarantine_where_the_tables_rule_says_so(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    name, level = one("string", "game_name"), one("int", "level")
    note = one("string", "note", default="")
    first = kit.register(event(0, name, note, level).text, "AVRO")
    last = kit.register(event(0, name, level).text, "AVRO")
    schemas = {first: event(first, name, note, level), last: event(last, name, level)}
    kit.configured(
        decode={"format": "avro"}, tables=[{"match": "chess", "policies": {"dropped_field": "quarantine"}}]
    )

    def send(schema_id: int) -> None:
        """A record of each game."""
        more = {"note": "n"} if schema_id == first else {}
        kit.send([sent_as(schemas[schema_id], game_name=game, level=5, **more) for game in ("chess", "golf")])

    def counts() -> tuple[int, int, int]:
        tables = ("silver_chess_events", "silver_golf_events", "quarantine")
        return tuple(kit.rows(table).num_rows for table in tables)

    send(first)
    kit.run()
    assert counts() == (1, 1, 0)
    send(last)
    send(first)
    fail_at("after_manifest:3")
    with pytest.raises(BudgetSpent):
        kit.run()
    fail_at()
    kit.run()
    assert counts() == (2, 3, 1)
    (waiting,) = kit.rows("quarantine").to_pylist()
    assert (waiting["reason"], waiting["entity"], waiting["schema_id"]) == ("schema_change", "chess", last)
    assert "tables[0].policies.dropped_field is `quarantine`" in waiting["detail"]
    answered, output = said(kit, "plan", str(kit.settings_file))
    assert answered == 3
    assert "tables[0].policies.dropped_field" in output
    kit.configured(limits={"batch_rows": 2})
    for _ in range(3):
        send(last)
    kit.run()
    assert counts() == (2, 6, 4), "in several batches of one run"

    kit.configured(tables=[{"match": "chess", "policies": {"dropped_field": "fail"}}])
    send(last)
    with pytest.raises(PolicyStopped, match=r"silver_chess_events: field note is gone with schema"):
        kit.run()
    assert counts() == (2, 6, 4)
    kit.configured(tables=[])
    kit.run()
    assert counts() == (3, 7, 4)
    assert not verify(kit.settings).differences


def blocks(kind: str) -> list[str]:
    text = PAGE.read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block for its, block in found if its == kind]


def commands() -> list[list[str]]:
    lines = re.findall(r"^    distributary (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return [line.partition("#")[0].split() for line in lines]


# Lighter: test_each_entitys_table_is_made_and_changed_by_its_own_rule has rules of all kinds.
@pytest.mark.heavy
def test_the_pages_rules_and_commands_do_what_it_says(kit: PipelineKit) -> None:
    (rules,) = blocks("yaml")
    mistake, change = blocks("")
    kit.configured(**yaml.safe_load(rules))
    kit.simulate(1)
    assert kit.settings_file.name == "games.yaml"
    check, plan, run, again = commands()
    for command in (check, plan, run):
        answered, output = said(kit, *command, *(["--available-now"] if command == run else []))
        assert answered == 0, output
    comment, properties = told(kit, "pixel_racer")
    given: dict[str, Any] = yaml.safe_load(rules)["tables"][0]
    assert comment == given["comment"]
    assert properties.items() >= given["properties"].items()

    kit.configured(tables=[{**given, "comment": "Races"}])
    assert kit.settings_file.name == "games.yaml"
    answered, output = said(kit, *again)
    assert answered == 0
    assert change in output

    kit.configured(tables=[{"match": "*_quest"}, {"match": "a"}, {"match": "dragon_quest"}])
    assert kit.settings_file.name == "games.yaml"
    answered, output = said(kit, *check)
    assert answered != 0
    assert mistake.strip().partition(": ")[2] in output
