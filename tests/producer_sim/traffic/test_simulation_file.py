"""A simulation's file: read as a pipeline's settings are, and by what the pipeline says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema import Draft202012Validator  # type: ignore[import-untyped]

from distributary.errors import ConfigError
from distributary.producer_sim.events.routes import Routed
from distributary.producer_sim.traffic.presets import presets
from distributary.producer_sim.traffic.simulation import Simulation, json_schema

PIPELINE: dict[str, Any] = {
    "name": "games",
    "source": {"kafka": {"bootstrap.servers": "broker:9092"}, "topics": ["events", "more"]},
    "registry": {"url": "http://registry:8081", "user": "me", "password": "${SECRET}"},
    "decode": {"format": "avro"},
    "route": {"by": "header", "header": "region"},
    "sink": {"root": "./lake"},
    "policies": {"wider_type": "widen"},
}


def written(folder: Path, text: str, **pipeline: Any) -> Path:
    (folder / "games.yaml").write_text(yaml.safe_dump({**PIPELINE, **pipeline}), encoding="utf-8")
    file = folder / "simulation.yaml"
    file.write_text(text, encoding="utf-8")
    return file


def read(file: Path) -> Simulation:
    return Simulation.from_file(file, {"SECRET": "hush", "MANY": "70"})


def test_a_file_says_what_python_says(tmp_path: Path) -> None:
    file = written(tmp_path, "players: {games: 3}\npace: {events: '${MANY}', rate: '${RATE:-}'}\nseed: 2\n")
    assert read(file) == Simulation.of(games=3, events=70, rate=None, seed=2)


def test_the_pipeline_says_what_is_left_out(tmp_path: Path) -> None:
    found = read(written(tmp_path, "pipeline: games.yaml\nwriting: {headers: {region: country}}\n"))
    assert (found.target.bootstrap_servers, found.target.topic) == ("broker:9092", "events")
    assert found.target.registry.url == "http://registry:8081"
    assert found.writing.format == "avro"
    assert found.pipeline.route == Routed("header", "region")
    assert found.pipeline.one_format
    assert found.pipeline.widens


def test_what_is_written_counts_more_than_what_the_pipeline_says(tmp_path: Path) -> None:
    text = (
        "pipeline: games.yaml\n"
        "target: {topic: more, registry: {url: 'http://another:1'}}\n"
        "writing: {format: protobuf, headers: {region: country}}\n"
    )
    found = read(written(tmp_path, text))
    assert (found.target.topic, found.target.bootstrap_servers) == ("more", "broker:9092")
    assert found.target.registry.url == "http://another:1"
    assert found.target.registry.user is None
    assert found.writing.format == "protobuf"


def test_a_pipeline_of_any_format_leaves_the_format_open(tmp_path: Path) -> None:
    text = "pipeline: games.yaml\nwriting: {headers: {region: country}}\n"
    found = read(written(tmp_path, text, decode={"format": "auto"}))
    assert found.writing.format == "protobuf"
    assert not found.pipeline.one_format


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("pace: {events: -1}\nfaults: {corrupt: 2}\n", ":1:8: pace.events.*\n.*:2:10: faults.corrupt"),
        ("pace: {event: 1}\n", ":1:8: pace.event: no setting is called so; did you mean pace.events?"),
        ("evolution: {changes: [exploded]}\n", r":1:23: evolution.changes\[0\]: write one of 'added'"),
        ("writing: {format: xml}\n", "writing.format: write one of protobuf, avro, jsonschema, json"),
        ("pace: fast\n", ":1:1: pace: write a mapping of settings"),
        ("pipeline: games.yaml\n", r":1:1: pipeline: .*writing.headers: \{region: game_name\}"),
        ("pipeline: none.yaml\n", ":1:1: pipeline: .*none.yaml"),
        ("pipeline: {one_format: true}\n", ":1:1: pipeline: write the path"),
        ("pipeline: 7\n", ":1:1: pipeline: write the path"),
        ("target: {kafka: {sasl.password: letmein}}\n", r":1:18: .*secrets come from the environment"),
        ("target: {registry: {url: 'http://r', password: letmein}}\n", "secrets come from the environment"),
        ("target: {topic: '${NOWHERE}'}\n", "the environment has no variable NOWHERE"),
    ],
)
def test_what_cannot_work_is_told_with_its_place(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(ConfigError, match=f"(?s){said}") as caught:
        read(written(tmp_path, text))
    assert "letmein" not in str(caught.value)


def test_a_pipeline_s_settings_given_for_a_simulation_are_told_from_one(tmp_path: Path) -> None:
    written(tmp_path, "")
    with pytest.raises(ConfigError, match=r"holds a pipeline's settings; .*`pipeline: games.yaml`"):
        read(tmp_path / "games.yaml")


def test_secrets_are_in_no_text(tmp_path: Path) -> None:
    text = "target: {kafka: {sasl.password: '${SECRET}'}, registry: {url: 'http://r', bearer_token: '${SECRET}'}}"
    found = read(written(tmp_path, text))
    assert found.target.kafka["sasl.password"] == "hush"
    assert "hush" not in f"{found!r} {found} {found.model_dump(mode='json')} {found.for_truth()}"


@pytest.mark.parametrize("name", presets())
def test_the_json_schema_takes_what_can_work(name: str) -> None:
    schema = json_schema()
    Draft202012Validator.check_schema(schema)
    validator = Draft202012Validator(schema)
    validator.validate({**yaml.safe_load(presets()[name].read_text("utf-8")), "pipeline": "games.yaml"})
    assert not validator.is_valid({"pace": {"events": "many"}})
    assert not validator.is_valid({"speed": {}})
