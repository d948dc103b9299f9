"""`distributary simulate` as it is typed: what it says of a schema that the registry refused, and of records no table takes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.testing import CliRunner, Result

from distributary.cli import app
from distributary.producer_sim.stack.local import LocalStack
from distributary.producer_sim.truth.sent import load

pytestmark = pytest.mark.stack


def simulation(folder: Path, stack: LocalStack, topic: str, **parts: dict[str, Any]) -> Path:
    """A few events of two games to a topic of this stack, unless `parts` say more."""
    file = folder / "simulation.yaml"
    target = {"bootstrap_servers": stack.bootstrap_servers, "registry": {"url": stack.registry_url}}
    few: dict[str, Any] = {"players": {"games": 2, "gamers": 50}, "pace": {"events": 200}}
    text = yaml.safe_dump({"target": {**target, "topic": topic}, **few, **parts})
    file.write_text(text, encoding="utf-8")
    return file


def invoke(file: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["simulate", str(file), *options])


def test_harm_done_is_said(stack: LocalStack, topic: str, tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    file = simulation(tmp_path, stack, topic, evolution={"changes": ["changed"]})
    said = invoke(file, "--truth", str(truth))
    assert said.exit_code == 0, said.output
    assert f"the registry refuses version 2 (changed) of {topic}-value" in said.output
    refused = load(truth).refused
    assert f" {refused:,} that no table takes," in said.output
    assert 0 < refused < 200


def test_harm_done_is_in_the_json_too(stack: LocalStack, topic: str, tmp_path: Path) -> None:
    evolution = {"changes": ["format_switched", "changed"]}
    pipeline(tmp_path, stack, topic)
    file = simulation(tmp_path, stack, topic, evolution=evolution)
    file.write_text(f"pipeline: games.yaml\n{file.read_text()}", encoding="utf-8")
    told = json.loads(invoke(file, "--truth", str(tmp_path / "truth.json"), "--json").stdout)
    assert told["corrupt"] == {"format_switched": 400}
    assert [notice for notice in told["notices"] if f"{topic}-value-avro" in notice]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (
            {"evolution": {"changes": ["oneof_arm_added"]}, "writing": {"format": "avro"}},
            "only Protobuf has a oneof",
        ),
        ({"evolution": {"changes": ["enum_value_added"]}}, "evolution.versions: 3"),
        ({"writing": {"references": True, "format": "json"}}, "writing.references"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_sent(
    stack: LocalStack, topic: str, tmp_path: Path, parts: dict[str, Any], message: str
) -> None:
    truth = tmp_path / "truth.json"
    said = invoke(simulation(tmp_path, stack, topic, **parts), "--truth", str(truth))
    assert message in str(said.exception)
    assert not truth.exists()


def pipeline(folder: Path, stack: LocalStack, topic: str, **groups: Any) -> None:
    """A pipeline's settings, for Protobuf and a table a game unless `groups` say more."""
    settings = {
        "name": "games",
        "source": {"kafka": {"bootstrap.servers": stack.bootstrap_servers}, "topics": [topic]},
        "registry": {"url": stack.registry_url},
        "decode": {"format": "protobuf"},
        "route": {"field": "game_name", "table": "silver_{entity}_events"},
        "sink": {"root": "./lake"},
    }
    text = yaml.safe_dump({name: group for name, group in {**settings, **groups}.items() if group})
    (folder / "games.yaml").write_text(text, encoding="utf-8")


def test_the_route_in_a_pipeline_s_settings_is_what_the_truth_tells(
    stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    file, truth = tmp_path / "simulation.yaml", tmp_path / "truth.json"
    pipeline(tmp_path, stack, topic, decode={"format": "auto"}, route={"by": "header", "header": "region"})
    start = "pipeline: games.yaml\npace: {events: 100}\n"
    file.write_text(f"{start}writing: {{key: game_name}}\n", encoding="utf-8")
    assert "writing.headers: {region: game_name}" in str(invoke(file, "--truth", str(truth)).exception)
    headers = "{region: device, level: level}"
    file.write_text(f"{start}writing: {{key: game_name, headers: {headers}}}\n", encoding="utf-8")
    said = invoke(file, "--truth", str(truth))
    assert said.exit_code == 0, said.output
    found = load(truth)
    assert {name for group in found.sent for name, _ in group.told} == {"header:region"}
    (run,) = found.runs
    assert (run["key"], run["headers"]) == ("game_name", {"region": "device", "level": "level"})


def test_where_records_name_no_schema_no_registry_is_needed(
    stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    file, truth = tmp_path / "simulation.yaml", tmp_path / "truth.json"
    decode = {"format": "json", "schema_location": "./schemas/games"}
    pipeline(tmp_path, stack, topic, decode=decode, registry=None)
    start = "pipeline: games.yaml\npace: {events: 50}\nevolution: {changes: [added]}\n"
    file.write_text(f"{start}writing: {{format: avro}}\n", encoding="utf-8")
    said = invoke(file, "--truth", str(truth))
    assert "names a registry; write target.registry" in str(said.exception)
    file.write_text(start, encoding="utf-8")
    said = invoke(file, "--truth", str(truth))
    assert said.exit_code == 0, said.output
    assert {group.schema_id for group in load(truth).sent} == {None}


def test_what_changes_from_call_to_call_is_an_option(stack: LocalStack, topic: str, tmp_path: Path) -> None:
    file, truth = simulation(tmp_path, stack, topic, evolution={"versions": 3}), tmp_path / "truth.json"
    first = invoke(file, "--truth", str(truth), "--versions", "1", "--events", "30", "--json")
    assert json.loads(first.stdout)["records"] == 30
    later = invoke(file, "--truth", str(truth), "--versions", "2-3", "--rate", "5000", "--append", "--json")
    assert json.loads(later.stdout)["records"] == 400
    assert [(run["first_version"], run["versions"]) for run in load(truth).runs] == [(1, 1), (2, 3)]
