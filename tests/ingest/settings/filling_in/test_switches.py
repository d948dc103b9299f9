"""One file for several environments, and for trials that touch nothing of the real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import ConfigError
from distributary.ingest.settings.check import settings_of
from distributary.ingest.settings.filling_in.switches import NAMES, PLACES, READ, VARIABLE, switches
from distributary.ingest.settings.model import Settings, load
from distributary.ingest.storage.place import Place
from distributary.values import Keys, dotted

TEXT = """\
name: games
source:
  kafka: {bootstrap.servers: "127.0.0.1:9092"}
  topics: [game-events]
registry: {url: "http://127.0.0.1:8081"}
route: {by: field, field: game_name}
sink:
  root: "s3://lake/{env}/{name}"
"""


def loaded(folder: Path, *given: str, text: str = TEXT, **variables: str) -> Settings:
    file = folder / "games.yaml"
    file.write_text(text, encoding="utf-8")
    return load(file, variables, given)


def plain(**changed: Any) -> dict[str, Any]:
    return {**yaml.safe_load(TEXT), "sink": {"root": "./lake"}, **changed}


def test_the_command_wins_over_the_variable_and_that_over_the_file(tmp_path: Path) -> None:
    in_file = TEXT + "env: prod\n"
    assert str(loaded(tmp_path, text=in_file).sink.root) == "s3://lake/prod/games"
    by_variable = loaded(tmp_path, text=in_file, DISTRIBUTARY_ENV="test")
    assert (str(by_variable.sink.root), by_variable.env) == ("s3://lake/test/games", "test")
    by_both = loaded(tmp_path, *switches("dev", None), text=in_file, DISTRIBUTARY_ENV="test")
    assert (str(by_both.sink.root), by_both.env) == ("s3://lake/dev/games", "dev")


def test_whoever_asks_from_python_has_both(tmp_path: Path) -> None:
    loaded(tmp_path, "env=prod")
    settings = Settings.from_file(
        tmp_path / "games.yaml", {VARIABLE: "test"}, env="dev", debug_suffix="_trial"
    )
    assert str(settings.sink.root) == "s3://lake/dev/games_trial"


def test_names_and_places_are_filled_in_wherever_they_stand() -> None:
    settings = Settings.from_dict(
        plain(
            env="dev",
            name="games_{env}",
            source={"kafka": {"bootstrap.servers": "kafka.{env}:9092"}, "topics": ["{env}.game-events"]},
            registry={"url": "http://registry.{env}:8081", "subjects": ["{topic}-value"]},
            route={"field": "game_name", "table": "{env}_{entity}"},
            sink={"root": "/lake/{topic}"},
            checkpoint="/state/{env}/{name}",
            catalog={"database": "bronze_{env}", "name": "{name}_{entity}_{table}"},
            policies={"no_entity": {"table": "nameless_{env}"}},
        ),
        "/here",
    )
    assert settings.name == "games_dev"
    assert settings.source.topics == ("dev.game-events",)
    assert settings.source.kafka["bootstrap.servers"] == "kafka.dev:9092"
    assert str(settings.registry.url).startswith("http://registry.dev:8081")
    assert settings.registry.subjects == ("dev.game-events-value",)
    assert settings.route.table == "dev_{entity}"
    assert str(settings.sink.root) == "/lake/dev.game-events"
    assert str(settings.checkpoint) == "/state/dev/games_dev"
    assert settings.catalog is not None
    assert settings.catalog.database == "bronze_dev"
    assert settings.catalog.name == "games_dev_{entity}_{table}"
    assert str(settings.decode.schema_location) == "/here/schemas/games_dev"
    assert settings.policies.no_entity.table == "nameless_dev"  # type: ignore[union-attr]


def test_a_name_that_stands_for_nothing_is_told_at_its_line(tmp_path: Path) -> None:
    with pytest.raises(
        ConfigError, match=r"games\.yaml:8:3: sink\.root: \{env\} stands for nothing yet; give --env dev"
    ):
        loaded(tmp_path)
    with pytest.raises(
        ConfigError,
        match=r"8:3: sink\.root: \{envv\} stands for nothing; there are \{env\}, \{name\}, \{topic\}; .* write \{\{envv\}\}",
    ):
        loaded(tmp_path, text=TEXT.replace("{env}", "{envv}"))
    several = TEXT.replace("[game-events]", "[a, b]").replace("{env}", "{topic}")
    with pytest.raises(
        ConfigError,
        match=r"\{topic\} stands for the topic of a pipeline that has one, and this may have several",
    ):
        loaded(tmp_path, text=several)
    with pytest.raises(ConfigError, match=r"name: \{name\} stands for nothing; there are \{env\}"):
        loaded(tmp_path, text=TEXT.replace("name: games", 'name: "{name}"'), DISTRIBUTARY_ENV="x")
    with pytest.raises(ConfigError, match=r"--set: sink\.root: \{who\} stands for nothing"):
        loaded(tmp_path, "sink.root=./{who}")


def test_patterns_of_topics_keep_their_braces_and_what_is_said_of_a_topic_is_said_by_its_name() -> None:
    source = {"kafka": {"bootstrap.servers": "k:1"}, "topics": ["/{env}-[a-z]{3}/"]}
    assert Settings.from_dict(plain(env="dev", source=source)).source.topics == ("/dev-[a-z]{3}/",)
    with pytest.raises(ConfigError, match="this may have several"):
        Settings.from_dict(plain(env="dev", source=source, sink={"root": "/lake/{topic}"}))
    source = {**source, "topics": ["{env}-a"], "partitions": {"{env}-a": [0]}}
    assert list(Settings.from_dict(plain(env="dev", source=source)).source.partitions) == ["dev-a"]


def test_a_word_that_names_no_environment_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"env: DISTRIBUTARY_ENV names no environment; write up to 50"):
        loaded(tmp_path, DISTRIBUTARY_ENV="../prod")
    with pytest.raises(ConfigError, match=r"^--set: env: it names no environment"):
        loaded(tmp_path, "env=a b")


def test_what_cannot_work_of_an_option_of_its_own_is_told_as_of_that(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^--env: env: it names no environment"):
        loaded(tmp_path, *switches("a b", None))
    with pytest.raises(ConfigError, match=r"^--debug-suffix: debug_suffix: it does not match"):
        loaded(tmp_path, *switches("dev", "/x"))
    by_program = r"^from_file\(debug_suffix=…\): debug_suffix: it does not match"
    with pytest.raises(ConfigError, match=by_program):
        Settings.from_file(tmp_path / "games.yaml", {}, env="dev", debug_suffix="/x")
    with pytest.raises(ConfigError, match=r"^from_file\(debug_suffix=…\) is empty"):
        Settings.from_file(tmp_path / "games.yaml", {}, env="dev", debug_suffix="")


def test_braces_that_are_doubled_are_braces(tmp_path: Path) -> None:
    assert str(loaded(tmp_path, "sink.root=/lake/{{env}}").sink.root) == "/lake/{env}"


@given(st.text(alphabet=st.characters(exclude_characters="{}$\0%\\", exclude_categories=["C"]), min_size=1))
def test_a_place_without_braces_is_left_alone(text: str) -> None:
    root = f"/lake/{text}"
    expected = Settings.from_dict(plain(sink={"root": root}))
    assert Settings.from_dict(plain(sink={"root": root}, env="dev")).sink == expected.sink


def test_a_trial_writes_to_nothing_that_the_real_one_writes_to(tmp_path: Path) -> None:
    text = TEXT + "catalog: {database: main.bronze}\nspark: {conf: {spark.sql.catalog.main: x}}\n"
    text = text.replace('8081"', '8081", cache: "s3://cache/answers/"')
    real, trial = (loaded(tmp_path, *switches("dev", suffix), text=text) for suffix in (None, "_debug"))
    assert str(trial.sink.root) == "s3://lake/dev/games_debug"
    assert trial.checkpoint.path == tmp_path / "checkpoints/games_debug"
    assert trial.decode.schema_location == Place.parse(str(tmp_path / "schemas/games_debug"))
    assert str(trial.registry.cache) == "s3://cache/answers_debug"
    assert trial.catalog is not None
    assert trial.catalog.database == "main.bronze_debug"
    assert trial.catalog.metastore == tmp_path / "metastore_debug"
    assert trial.name == real.name
    places = [
        (settings.sink.root, settings.checkpoint, settings.decode.schema_location, settings.registry.cache)
        for settings in (real, trial)
    ]
    assert not [
        (one, other) for one in places[0] for other in places[1] if one and other and one.overlaps(other)
    ]


@pytest.mark.parametrize("root", ["s3://lake", "s3://lake/", ".", "..", "./", "/", "~", "a/.."])
def test_a_place_that_has_no_name_has_no_place_beside_it(root: str) -> None:
    with pytest.raises(ConfigError, match=r"sink\.root: debug_suffix is put behind a folder's name"):
        Settings.from_dict(plain(sink={"root": root}, debug_suffix="_debug", checkpoint="/elsewhere"))


def test_what_derived_tables_are_sent_to_is_another_one_in_a_trial() -> None:
    def derived(name: str) -> dict[str, Any]:
        kafka = {"topic": f"{name}_{{env}}", "subject": "counts", "keys": ["k"], "format": "avro"}
        sink = {"kafka": kafka, "files": {"path": f"/out/{{env}}/{name}"}}
        return {"table": f"gold_{name}", "inputs": ["quarantine"], "sql": "TABLE quarantine", "sink": sink}

    bare = {"table": "gold_c", "inputs": ["quarantine"], "sql": "TABLE quarantine"}
    given = [derived("a"), bare, derived("b")]
    route = {"by": "topic", "table": "silver_{entity}"}
    mine = plain(derive=given, route=route, env="dev", debug_suffix="_x")
    settings = Settings.from_dict(mine)
    assert mine["derive"] == [derived("a"), bare, derived("b")]
    sinks = [rule.sink for rule in settings.derive]
    assert sinks[1] is None
    for name, sink in (("a", sinks[0]), ("b", sinks[2])):
        assert sink is not None
        assert sink.kafka is not None
        assert (sink.kafka.topic, sink.kafka.subject) == (f"{name}_dev_x", "counts_x")
        assert sink.files is not None
        assert str(sink.files.path) == f"/out/dev/{name}_x"


@pytest.mark.parametrize(
    ("source", "read"),
    [
        ({"files": {"path": "/in/{env}"}}, "/in/dev"),
        ({"delta": {"paths": "/lake/{env}/a"}}, "/lake/dev/a"),
        ({"delta": {"paths": ["/lake/{env}/a", "/lake/b"]}}, "/lake/dev/a"),
        ({"kinesis": {"stream": "events-{env}", "region": "eu-central-1"}}, "events-dev"),
    ],
)
def test_what_is_read_of_any_source_may_be_named_by_the_environment(
    source: dict[str, Any], read: str
) -> None:
    given = plain(source=source, env="dev", registry={}, decode={"format": "json"})
    settings = Settings.from_dict(given)
    found = settings.source
    places = found.delta.paths if found.delta else (found.files and found.files.path,)
    assert read == (found.kinesis.stream if found.kinesis else str(places[0]))
    with pytest.raises(ConfigError, match=r"sink\.root: \{topic\} stands for a topic of Kafka's"):
        Settings.from_dict({**given, "sink": {"root": "/lake/{topic}"}})


def test_a_trial_is_another_job_to_those_who_are_told_of_runs() -> None:
    def namespace(**lineage: Any) -> str:
        settings = Settings.from_dict(plain(lineage=lineage, debug_suffix="_debug"))
        assert settings.lineage is not None
        return settings.lineage.namespace

    assert namespace(url="http://marquez:5000") == "distributary_debug"
    assert namespace(url="http://marquez:5000", namespace="games") == "games_debug"
    assert Settings.from_dict(plain(debug_suffix="_debug")).lineage is None


def test_what_a_program_gave_stays_as_it_was() -> None:
    mine = plain(env="dev", sink={"root": Path("/lake/{env}")}, checkpoint=Path("/state"), debug_suffix="_x")
    before = {**mine, "sink": dict(mine["sink"])}
    settings = Settings.from_dict(mine)
    assert mine == before
    assert str(settings.checkpoint) == "/state_x"


def test_a_suffix_that_is_none_is_refused() -> None:
    with pytest.raises(ConfigError, match="debug_suffix: it does not match"):
        Settings.from_dict(plain(debug_suffix="/../x"))


@pytest.mark.parametrize("given", ["debug_suffix=", "debug_suffix= ", "debug_suffix=${NONE}"])
def test_a_suffix_that_is_given_and_empty_makes_no_run_the_real_one(tmp_path: Path, given: str) -> None:
    with pytest.raises(ConfigError, match="--set debug_suffix is empty"):
        loaded(tmp_path, "env=dev", given, NONE="")
    in_file = TEXT + "debug_suffix: _trial\n"
    assert loaded(tmp_path, "env=dev", "debug_suffix=null", text=in_file).debug_suffix is None


def test_every_place_that_settings_have_is_known_here() -> None:
    schema = Settings.model_json_schema()
    there = {dotted(keys) for keys, info in settings_of(Settings) if _is_place(schema, keys)}
    assert there == {dotted(keys) for keys in (*PLACES, *READ)}, "say in PLACES what a trial writes elsewhere"
    assert not set(PLACES) & set(NAMES)


def _is_place(schema: dict[str, Any], keys: Keys) -> bool:
    """Whether a setting is a folder, or a place in a store."""
    group: dict[str, Any] = schema
    for key in keys[:-1]:
        found = group["properties"][str(key)]
        ways = [found, *found.get("anyOf", ()), found.get("items", {})]
        names = [way["$ref"] for way in ways if "$ref" in way]
        if not names:
            return False
        group = schema["$defs"][names[0].rpartition("/")[2]]
    found = group.get("properties", {}).get(str(keys[-1]), {})
    ways = [found, *found.get("anyOf", ()), found.get("items", {})]
    folder = any(way.get("format") == "path" for way in ways) and keys[-1] in {"metastore", "file"}
    return folder or any(way.get("format") == "place" for way in ways)
