"""`distributary infer` on a real topic, with the session that all tests share in place of one of its own."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from confluent_kafka import Producer
from pyspark.sql import SparkSession

from distributary import cli
from distributary.commands import infer as commands_infer
from distributary.ingest.settings.model import Settings
from distributary.producer_sim.stack.local import LocalStack

pytestmark = [pytest.mark.spark, pytest.mark.stack]

Infer = Callable[..., str]


def send(stack: LocalStack, topic: str, values: Sequence[dict[str, Any]], key: bytes | None = None) -> None:
    producer = Producer({"bootstrap.servers": stack.bootstrap_servers})
    for value in values:
        header: dict[str, str | bytes | None] = {"game": str(value.get("game", ""))}
        producer.produce(topic, value=json.dumps(value).encode(), key=key, partition=0, headers=header)
    assert producer.flush(30) == 0


def settings_file(stack: LocalStack, topic: str, folder: Path, **changed: Any) -> Path:
    document = {
        "name": "games",
        "source": {"kafka": {"bootstrap.servers": stack.bootstrap_servers}, "topics": [topic]},
        "route": {"field": "game"},
        "sink": {"root": "./lake"},
        "decode": {"format": "json"},
        **changed,
    }
    path = folder / "games.yaml"
    path.write_text(yaml.safe_dump(document), encoding="utf-8")
    return path


@pytest.fixture
def infer(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Infer:
    """What the command prints; it may not stop the session."""

    @contextmanager
    def shared(_settings: Settings) -> Iterator[SparkSession]:
        yield spark

    monkeypatch.setattr(commands_infer, "session", shared)

    def run(*arguments: str | Path) -> str:
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            cli.main(["infer", *map(str, arguments)])
        assert ended.value.code == 0
        return capsys.readouterr().out

    return run


# Lighter: test_another_look_at_entities_changes_only_the_one_that_changed, and what changes is shown above.
@pytest.mark.heavy
def test_a_second_look_shows_what_changed_and_keeps_a_version(
    infer: Infer, stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    file = settings_file(stack, topic, tmp_path)
    send(stack, topic, [{"game": "go", "score": 1}])
    assert "2 fields: version 1 in " in infer(file)
    send(stack, topic, [{"game": "go", "score": "high", "level": 1}])
    assert "2 fields: version 1 in " in infer(file)
    told = infer(file, "--refresh", "--dry-run")
    assert "score" in told
    assert "bigint -> string" in told
    assert "nothing was written" in told
    kept = json.loads(infer(file, "--refresh", "--json"))
    assert kept["version"] == 2
    assert {change["column"] for change in kept["changes"]} == {"level", "score"}
    assert "no field changed\n3 fields: version 2 in " in infer(file, "--refresh")


@pytest.mark.parametrize("schema_per", [pytest.param("topic", marks=pytest.mark.heavy), "entity"])
def test_what_changes_is_shown_before_it_is_written(  # noqa: PLR0917
    infer: Infer,
    stack: LocalStack,
    topic: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    schema_per: str,
) -> None:
    file = settings_file(stack, topic, tmp_path, decode={"format": "json", "schema_per": schema_per})
    send(stack, topic, [{"game": "go", "score": 1}])
    infer(file)
    send(stack, topic, [{"game": "go", "score": "high"}])
    said: list[tuple[int, str]] = []

    def heard(text: str) -> None:
        versions = [
            file for file in tmp_path.rglob("schemas/**/[0-9]*.json") if file.parent.name != "_numbers"
        ]
        said.append((len(versions), text))

    monkeypatch.setattr("typer.echo", heard)
    infer(file, "--refresh")
    (shown_at, shown), (kept_at, kept) = said
    assert (shown_at, kept_at) == (1, 2)
    assert shown.split() == [
        *(["go:"] if schema_per == "entity" else []),
        "changed",
        "score",
        "bigint",
        "->",
        "string",
    ]
    assert "2 fields: version 2 in " in kept


@pytest.mark.parametrize("schema_per", ["topic", pytest.param("entity", marks=pytest.mark.heavy)])
def test_what_is_kept_already_is_told_and_where_the_hints_say_otherwise(
    infer: Infer, stack: LocalStack, topic: str, tmp_path: Path, schema_per: str
) -> None:
    decode = {"format": "json", "schema_per": schema_per}
    file = settings_file(stack, topic, tmp_path, decode=decode)
    send(stack, topic, [{"game": "go", "score": 1, "at": {"x": 1}}])
    assert ", there already" not in infer(file)
    kept, ending = infer(file).splitlines()
    assert "3 fields: version 1 in " in kept
    assert kept.endswith(", there already")
    assert ending == "nothing was read; --refresh looks again"

    hints = "score string, game string, level bigint, at struct<x: double>"
    hinted = settings_file(stack, topic, tmp_path, decode={**decode, "schema_hints": hints})
    assert infer(hinted).splitlines() == [
        kept,
        "  decode.schema_hints says otherwise:",
        "    changed  at.x  bigint -> double",
        "    changed  score  bigint -> string",
        "    added    level  bigint",
        "nothing was read; --refresh looks again and follows the hints",
    ]

    def outcome(*options: str) -> tuple[int, bool, list[str]]:
        told = json.loads(infer(hinted, "--json", *options))
        one = told["entities"][0] if schema_per == "entity" else told
        return one["version"], one["read"], [change["column"] for change in one["hints_differ"]]

    assert outcome() == (1, False, ["at.x", "score", "level"])
    assert outcome("--refresh") == (2, True, [])
    assert outcome() == (2, False, [])


# Lighter: test_names_made_of_data_make_no_schema_until_they_are_a_map (tests/ingest/inference/test_topic.py).
@pytest.mark.heavy
def test_names_made_of_data_are_refused_and_the_schema_stays(
    infer: Infer, stack: LocalStack, topic: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    decode: dict[str, Any] = {"format": "json", "max_fields": 60}
    file = settings_file(stack, topic, tmp_path, decode=decode)
    send(stack, topic, [{"game": "go"}])
    infer(file)
    send(stack, topic, [{"seen": {f"user-{number}": 1 for number in range(99)}}])
    with pytest.raises(SystemExit) as ended:
        cli.main(["infer", str(file), "--refresh"])
    assert ended.value.code == 2
    told = " ".join(capsys.readouterr().err.split())
    assert "101 fields" in told
    assert "'seen map<string, string>'" in told
    assert [path.name for path in (tmp_path / "schemas" / "games").iterdir()] == ["1.json"]
    hinted = settings_file(
        stack, topic, tmp_path, decode={**decode, "schema_hints": "seen map<string, string>"}
    )
    assert infer(hinted, "--refresh").startswith("added  seen  map<string,string>\n2 fields: version 2 in ")


# A field of the record, and one of the things that Kafka tells; the routes themselves are in tests/ingest/routing.
@pytest.mark.parametrize(
    "route",
    [
        {"field": "at.game"},
        {"by": "key"},
        pytest.param({"by": "header", "header": "game"}, marks=pytest.mark.heavy),
        pytest.param({"by": "topic"}, marks=pytest.mark.heavy),
    ],
)
def test_each_entity_gets_a_schema_in_one_pass(
    infer: Infer, stack: LocalStack, topic: str, tmp_path: Path, route: dict[str, str]
) -> None:
    file = settings_file(
        stack, topic, tmp_path, route=route, decode={"format": "json", "schema_per": "entity"}
    )
    send(stack, topic, [{"game": "go", "at": {"game": "go"}, "score": 1}], b"go")
    send(stack, topic, [{"game": "Chess", "at": {"game": "Chess"}, "score": "1-0"}], b"Chess")
    found = {one["entity"]: one for one in json.loads(infer(file, "--json"))["entities"]}
    types = {
        entity: {field["name"]: field["type"] for field in one["schema"]["fields"]}["score"]
        for entity, one in found.items()
    }
    if route == {"by": "topic"}:
        assert types == {topic: "string"}
        return
    assert types == {"go": "long", "Chess": "string"}
    assert {one["version"] for one in found.values()} == {1, 2}


# Lighter: test_a_schema_that_grows_keeps_what_it_has, by entity.
@pytest.mark.heavy
def test_another_look_at_entities_changes_only_the_one_that_changed(
    infer: Infer, stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    file = settings_file(stack, topic, tmp_path, decode={"format": "json", "schema_per": "entity"})
    assert "no record has an entity" in infer(file)
    send(stack, topic, [{"game": "go", "score": 1}, {"game": "chess", "score": "1-0"}, {"score": []}])
    assert infer(file).splitlines()[0].startswith("chess: 2 fields: version 1 in ")
    send(stack, topic, [{"game": "go", "level": 3}, {"game": "ludo"}])
    assert len(infer(file).splitlines()) == 3
    dry = infer(file, "--refresh", "--dry-run").splitlines()
    assert [line.split(":")[0] for line in dry if "(--dry-run)" in line] == ["chess", "go", "ludo"]
    kept = json.loads(infer(file, "--refresh", "--json"))["entities"]
    assert [(one["entity"], one["version"], [c["column"] for c in one["changes"]]) for one in kept] == [
        ("chess", 1, []),
        ("go", 3, ["level"]),
        ("ludo", 4, []),
    ]
    # Only the newest record is in the sample; what was kept of the others stays.
    assert infer(file, "--refresh", "--sample", "1").splitlines()[-1].startswith("ludo: 1 fields: version 4")
    assert len(infer(file).splitlines()) == 4


@pytest.mark.parametrize("schema_per", [pytest.param("topic", marks=pytest.mark.heavy), "entity"])
def test_a_schema_that_grows_keeps_what_it_has(
    infer: Infer, stack: LocalStack, topic: str, tmp_path: Path, schema_per: str
) -> None:
    decode = {"format": "json", "schema_per": schema_per}
    file = settings_file(stack, topic, tmp_path, decode=decode)
    send(stack, topic, [{"game": "go", "score": 1, "level": 1, "at": {"x": 1}}], key=b"a")
    infer(file)
    # Of a key the latest record alone is looked at: what only the first one had is met no more.
    send(stack, topic, [{"game": "go", "score": 1.5, "at": {"y": "here"}, "won": True}], key=b"a")
    told = infer(file, "--grow", "--dry-run")
    assert "nothing was written" in told
    grown = json.loads(infer(file, "--grow", "--json"))
    one = grown["entities"][0] if schema_per == "entity" else grown
    assert one["version"] == 2
    assert {change["column"] for change in one["changes"]} == {"at.y", "won", "score"}
    fields = {field["name"]: field["type"] for field in one["schema"]["fields"]}
    assert (fields["level"], fields["score"]) == ("long", "double")
    assert {field["name"] for field in fields["at"]["fields"]} == {"x", "y"}
    # Again there is nothing new, and so no version.
    again = infer(file, "--grow")
    assert "version 2 in " in again
    assert len(list(tmp_path.glob("schemas/games/**/[0-9].json"))) >= 2


def test_a_schema_grows_no_further_than_it_may(
    infer: Infer, stack: LocalStack, topic: str, tmp_path: Path
) -> None:
    file = settings_file(stack, topic, tmp_path, decode={"format": "json", "max_fields": 3})
    send(stack, topic, [{"game": "go", "a": 1, "b": 1}], key=b"a")
    infer(file)
    send(stack, topic, [{"game": "go", "c": 1, "d": 1}], key=b"a")
    with pytest.raises(SystemExit) as ended:
        cli.main(["infer", str(file), "--grow"])
    assert ended.value.code == 2
