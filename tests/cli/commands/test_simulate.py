"""`distributary simulate` as it is typed: what it says of a schema that the registry refused, and of records no table takes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from distributary.cli import app
from distributary.producer_sim.stack.local import LocalStack
from distributary.producer_sim.truth.sent import load

pytestmark = pytest.mark.stack


def arguments(stack: LocalStack, topic: str, truth: Path, *more: str) -> list[str]:
    where = ["--bootstrap-servers", stack.bootstrap_servers, "--registry", stack.registry_url]
    few = ["--topic", topic, "--truth", str(truth), "--games", "2", "--gamers", "50", "--events", "200"]
    return ["simulate", *where, *few, *more]


def test_harm_done_is_said(stack: LocalStack, topic: str, tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    said = CliRunner().invoke(app, arguments(stack, topic, truth, "--change", "changed"))
    assert said.exit_code == 0, said.output
    assert f"the registry refuses version 2 (changed) of {topic}-value" in said.output
    refused = load(truth).refused
    assert f" {refused:,} that no table takes," in said.output
    assert 0 < refused < 200


def test_harm_done_is_in_the_json_too(stack: LocalStack, topic: str, tmp_path: Path) -> None:
    options = ["--change", "format_switched", "--change", "changed", "--one-format", "--json"]
    said = CliRunner().invoke(app, arguments(stack, topic, tmp_path / "truth.json", *options))
    told = json.loads(said.stdout)
    assert told["corrupt"] == {"format_switched": 400}
    assert [notice for notice in told["notices"] if f"{topic}-value-avro" in notice]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--change", "oneof_arm_added", "--format", "avro"], "only Protobuf has a oneof"),
        (["--change", "enum_value_added"], "--versions 3"),
        (["--references", "--format", "json"], "references"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_sent(
    stack: LocalStack, topic: str, tmp_path: Path, options: list[str], message: str
) -> None:
    truth = tmp_path / "truth.json"
    said = CliRunner().invoke(app, arguments(stack, topic, truth, *options))
    assert message in str(said.exception)
    assert not truth.exists()


def test_the_route_in_a_pipeline_s_settings_is_what_the_truth_tells(
    stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    file, truth = tmp_path / "games.yaml", tmp_path / "truth.json"
    pipeline = {
        "name": "games",
        "source": {"kafka": {"bootstrap.servers": stack.bootstrap_servers}, "topics": [topic]},
        "registry": {"url": stack.registry_url},
        "route": {"by": "header", "header": "region"},
        "sink": {"root": "./lake"},
    }
    file.write_text(yaml.safe_dump(pipeline), encoding="utf-8")
    words = ["simulate", str(file), "--truth", str(truth), "--events", "100", "--key", "game_name"]
    said = CliRunner().invoke(app, words)
    assert "--header region=game_name" in str(said.exception)
    said = CliRunner().invoke(app, [*words, "--header", "region"])
    assert "--header takes NAME=FIELD" in str(said.exception)
    said = CliRunner().invoke(app, [*words, "--header", "region=device", "--header", "level=level"])
    assert said.exit_code == 0, said.output
    found = load(truth)
    assert {name for group in found.sent for name, _ in group.told} == {"header:region"}
    (run,) = found.runs
    assert (run["key"], run["headers"]) == ("game_name", {"region": "device", "level": "level"})


def test_where_records_name_no_schema_no_registry_is_needed(
    stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    file, truth = tmp_path / "games.yaml", tmp_path / "truth.json"
    pipeline = {
        "name": "games",
        "source": {"kafka": {"bootstrap.servers": stack.bootstrap_servers}, "topics": [topic]},
        "decode": {"format": "json", "schema_location": "./schemas/games"},
        "route": {"field": "game_name", "table": "silver_{entity}_events"},
        "sink": {"root": "./lake"},
    }
    file.write_text(yaml.safe_dump(pipeline), encoding="utf-8")
    words = ["simulate", str(file), "--truth", str(truth), "--events", "50", "--change", "added"]
    said = CliRunner().invoke(app, [*words, "--format", "avro"])
    assert "games.yaml names no registry" in str(said.exception)
    assert "--registry" in str(said.exception)
    said = CliRunner().invoke(app, words)
    assert said.exit_code == 0, said.output
    assert {group.schema_id for group in load(truth).sent} == {None}
