import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from distributary.errors import ConfigError
from distributary.ingest.settings.check import settings_of
from distributary.ingest.settings.model import Settings, json_schema, load, reference_page
from distributary.values import dotted

REPO = Path(__file__).resolve().parents[3]
SECRET = "hunter2-or-so"  # noqa: S105
SMALL = """\
name: games
source:
  kafka:
    bootstrap.servers: "127.0.0.1:9092"
  topics: [game-events]
registry:
  url: http://127.0.0.1:8081/
route:
  field: game_name
  table: "silver_{entity}_events"
sink:
  root: ./lake
"""


def settings_from(folder: Path, text: str, **environment: str) -> Settings:
    file = folder / "games.yaml"
    file.write_text(text, encoding="utf-8")
    return load(file, environment)


def problems(folder: Path, text: str, **environment: str) -> list[str]:
    """The problems found, each as line:column and what follows."""
    with pytest.raises(ConfigError) as caught:
        settings_from(folder, text, **environment)
    lines = str(caught.value).splitlines()
    prefix = f"{folder / 'games.yaml'}:"
    return [line.strip().removeprefix(prefix) for line in lines if line.strip().startswith(prefix)]


def with_lines(text: str, **groups: str) -> str:
    """The text with lines put at the end of a group, or at the end of the file for `top`."""
    for group, lines in groups.items():
        if group == "top":
            text += lines + "\n"
        else:
            text = text.replace(f"{group}:\n", f"{group}:\n  {lines}\n")
    return text


def test_a_small_file_gives_whole_settings(tmp_path: Path) -> None:
    settings = settings_from(tmp_path, SMALL)
    assert settings.registry.url == "http://127.0.0.1:8081"
    assert settings.sink.root.path == tmp_path / "lake"
    assert settings.checkpoint.path == tmp_path / "checkpoints" / "games"
    assert settings.source.spark_options() == {
        "kafka.bootstrap.servers": "127.0.0.1:9092",
        "kafka.isolation.level": "read_committed",
    }
    assert settings.limits.worker_bytes == 128 * 2**20
    assert settings.policies.no_entity == "quarantine"


def test_all_mistakes_are_told_at_once_with_place_and_remedy(tmp_path: Path) -> None:
    text = """\
name: Games
source:
  kafka: {bootstrap.servers: "127.0.0.1:9092", group.id: x}
  topics: []
  starting_offset: latest
registry:
  url: "htp://127.0.0.1:8081"
  password: abc
  timeout_seconds: 10 parsec
topics: [x]
route: {field: 3, table: "silver_{entty}_events"}
sink: {root: s4://x/y, columns: {kafka_topic: a, schema_id: A}}
limits: {worker_bytes: "${MUCH}"}
policies: {no_entity: {table: _x}, new_field: ad}
policies: {}
decode: restart
"""
    found = problems(tmp_path, text)
    assert [problem.split(": ")[:2] for problem in found] == [
        ["1:1", "name"],
        ["3:48", "source.kafka.group.id"],
        ["4:3", "source.topics"],
        ["5:3", "source.starting_offset"],
        ["7:3", "registry.url"],
        ["8:3", "registry.password"],
        ["9:3", "registry.timeout_seconds"],
        ["10:1", "topics"],
        ["11:9", "route.field"],
        ["11:19", "route.table"],
        ["12:8", "sink.root"],
        ["12:50", "sink.columns.schema_id"],
        ["13:10", "limits.worker_bytes"],
        ["14:24", "policies.no_entity.table"],
        ["14:36", "policies.new_field"],
        ["15:1", "policies"],
        ["16:1", "decode"],
    ]
    assert "did you mean source.starting_offsets?" in found[3]
    assert "did you mean source.topics?" in found[7]
    assert "first in line 14" in found[15]


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("route:\n", "rout:\n", "8:1: rout: no setting is called so; did you mean route?"),
        ("  field: game_name\n", "", "8:1: route.field: records are routed by a field: write its name"),
        (
            "  field: game_name\n",
            "  by: header\n",
            "route.header: records are routed by a header: write its name",
        ),
        (
            "  field: game_name\n",
            "  by: expression\n",
            "route.expression: records are routed by an expression: write it",
        ),
        (
            "  field: game_name\n",
            "  by: key\n  field: a\n",
            "route.field: records are routed by key: leave it out",
        ),
        (
            "  root: ./lake",
            "  root: ./lake\n  xyz: 1",
            "sink.xyz: no setting is called so; sink knows: root, mode, log_retention_days, properties, max_rows_per_file, cluster_by, maintain, keep, columns",
        ),
        (
            "  root: ./lake",
            "  root: ./lake\n  columns: {key_text: k}",
            "sink.columns.key_text: decode.key is bytes, so there is no such column",
        ),
        (
            "  root: ./lake",
            "  root: ./lake\ndecode: {format: json, key: auto}",
            "decode.key: keys name schemas of a registry",
        ),
        ("name: games", "name: 7", "1:1: name: it must be a text; put it in quotes"),
        ("[game-events]", "game-events", "write a list, for example [one, another]"),
        ("[game-events]", "[a, b, a]", "5:18: source.topics[2]: this topic is written twice; keep one"),
        ("[game-events]", '["a b"]', "5:12: source.topics[0]: no topic can be called so"),
        ("game_name", "game..name", "route.field: a part between dots is empty"),
        ("game_name", "game_name\n  max_tables: many", "route.max_tables: write a whole number"),
        ("game_name", "game_name\n  max_tables: 0", "route.max_tables: write a number of at least 1"),
        ("./lake", "./lake\nlimits: {arrow_rows: 9999999999}", "a number of at most 2147483647"),
        ("./lake", "./lake\n  log_retention_days: 9999999999", "a number of at most 365000"),
        ("./lake", "./lake\nlimits: {batch_rows: 9223372036854775808}", "at most 9223372036854775807"),
        ("game_name", "game_name\n  fold_case: maybe", "route.fold_case: write true or false"),
        ("8081/", "8081/?x=1", "registry.url: it is no http or https address"),
        ("http://", "http://me:pw@", "take user and password out of it"),
        ("8081/", "8081/\n  user: me", "8:3: registry.user: a user needs a password"),
        ("8081/", "8081/\n  user: 'a:b'\n  password: ${PASSWORD:-x}", "8:3: registry.user: it holds a colon"),
        (
            "8081/",
            "8081/\n  bearer_token: ${TOKEN:-a b}",
            "8:3: registry.bearer_token: it is empty or holds a space",
        ),
        (
            "8081/",
            "8081/\n  key_password: ${PASSWORD:-x}",
            "8:3: registry.key_password: a key password needs",
        ),
        ("8081/", "8081/\n  key_file: k.pem", "registry.key_file: a key needs its certificate"),
        (
            "./lake",
            "abfss://c@a/lake",
            "sink.root: write abfss://container@account.dfs.core.windows.net/lake",
        ),
        (
            "./lake",
            "s3://me:pw@bucket/lake",
            "sink.root: s3://... holds an @ or a colon; take user and password out of it",
        ),
        ("./lake", "s3:///lake", "sink.root: s3://... names no bucket"),
        (
            "./lake",
            "./lake\ndecode: {format: json, schema_location: 's3://b/50%'}",
            "decode.schema_location: ",
        ),
        ("./lake", "file:///tmp/lake", "sink.root: file:// is not supported"),
        ("./lake", '""', "sink.root: it is empty"),
        (
            "./lake",
            "s3://b/lake\ncheckpoint: s3a://b/lake/cp",
            "checkpoint: checkpoint and sink.root lie in each other",
        ),
        (
            "./lake",
            "./lake\ncheckpoint: s3a://b",
            "checkpoint: it is all of a file system or bucket; write a folder of its own",
        ),
        (
            "./lake",
            "./lake\ncheckpoint: ./lake/cp",
            "13:1: checkpoint: checkpoint and sink.root lie in each other",
        ),
        ("./lake", ".", "checkpoint: checkpoint and sink.root lie in each other"),
        ("./lake", "./lake\ndecode: {format: xml}", "decode.format: no codec is called 'xml'; there are: "),
        (
            "./lake",
            "./lake\ndecode: {format: avro, check: schema}",
            "decode.check: schemas of format avro say nothing of records",
        ),
        ("./lake", "./lake\nspark: {conf: {asyncProgressTrackingEnabled: true}}", "it breaks exactly-once"),
        (
            "./lake",
            "./lake\nlimits: {worker_bytes: 1 mile}",
            "limits.worker_bytes: no size has the unit 'mile'",
        ),
        (
            "./lake",
            "./lake\npolicies: {no_entity: {table: silver_x_events}}",
            "policies.no_entity.table: an entity's table could have this name too",
        ),
        (
            "./lake",
            "./lake\nsupervisor: {failures: {first_wait_seconds: 100}}",
            "supervisor.failures.longest_wait_seconds: it is less than first_wait_seconds",
        ),
        (
            "./lake",
            "./lake\n  columns: {kafka_key: 'a b'}",
            "sink.columns.kafka_key: Delta takes no column of this name",
        ),
        ("./lake", "./lake\n  columns: {kafka_key: _change_type}", "or Delta itself, has this name"),
    ],
)
def test_a_mistake_is_told_with_its_remedy(tmp_path: Path, old: str, new: str, expected: str) -> None:
    found = problems(tmp_path, SMALL.replace(old, new))
    assert len([problem for problem in found if expected in problem]) == 1, found


@pytest.mark.parametrize(
    "name",
    [
        "enable.auto.commit",
        "auto.offset.reset",
        "group.id",
        "key.deserializer",
        "value.deserializer",
        "interceptor.classes",
        "kafka.security.protocol",
        "sasl.username",
        "startingOffsets",
        "failOnDataLoss",
    ],
)
def test_a_kafka_option_that_would_break_a_promise_is_refused_with_the_reason(
    tmp_path: Path, name: str
) -> None:
    found = problems(tmp_path, with_lines(SMALL, kafka=f"  {name}: x"))
    assert found[0].startswith(f"4:5: source.kafka.{name}: ")


def test_uncommitted_records_are_read_only_if_the_file_says_so(tmp_path: Path) -> None:
    reading = settings_from(tmp_path, with_lines(SMALL, kafka="  isolation.level: read_uncommitted"))
    assert reading.source.kafka["isolation.level"] == "read_uncommitted"
    assert (
        "isolation.level: Kafka knows"
        in problems(tmp_path, with_lines(SMALL, kafka="  isolation.level: x"))[0]
    )


def test_kafka_needs_an_address(tmp_path: Path) -> None:
    found = problems(tmp_path, SMALL.replace("bootstrap.servers", "client.id"))
    assert found == [
        '3:3: source.kafka: bootstrap.servers is missing; write for example bootstrap.servers: "127.0.0.1:9092"'
    ]


SECRETS = """\
name: games
source:
  kafka:
    bootstrap.servers: "127.0.0.1:9092"
    sasl.jaas.config: 'Login required username="u" password="${PASSWORD}";'
    ssl.truststore.password: ${PASSWORD}
  topics: [game-events]
registry:
  url: "http://127.0.0.1:8081"
  user: me
  password: ${PASSWORD}
  key_password: ${PASSWORD}
  certificate_file: c.pem
route: {field: game_name}
sink: {root: ./lake}
spark:
  conf:
    spark.authenticate.secret: ${PASSWORD}
storage:
  s3: {login: {access_key_id: k, secret_access_key: "${PASSWORD}", session_token: "${PASSWORD}"}}
  azure: {account_key: "${PASSWORD}"}
  gcs: {service_account_key: "${PASSWORD}"}
"""


def test_secrets_are_never_shown(tmp_path: Path) -> None:
    settings = settings_from(tmp_path, SECRETS, PASSWORD=SECRET)
    shown = [repr(settings), str(settings), str(settings.source.kafka), repr(settings.registry)]
    shown += [json.dumps(settings.effective()), settings.model_dump_json(), str(settings.model_dump())]
    shown += [repr(settings.spark.conf), repr(settings.storage), str(settings.storage.s3.login)]
    assert not [text for text in shown if SECRET in text]
    assert settings.source.kafka["ssl.truststore.password"] == SECRET
    assert settings.registry.password == SECRET
    assert settings.storage.s3.login.secret_access_key == SECRET


def test_a_secret_written_out_is_refused_and_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        settings_from(tmp_path, SECRETS.replace("${PASSWORD}", SECRET))
    assert str(caught.value).count("secrets come from the environment") == 9
    assert SECRET not in str(caught.value)


def test_what_is_given_beside_a_file_is_held_to_the_same(tmp_path: Path) -> None:
    settings_from(tmp_path, SMALL)
    file = tmp_path / "games.yaml"
    settings = load(
        file, {"SECRET": "hunter2"}, ["sink.root=./trial", "registry.user=me", "registry.password=${SECRET}"]
    )
    assert settings.sink.root.path == tmp_path / "trial"
    with pytest.raises(ConfigError) as told:
        load(file, {}, ["registry.user=me", "registry.password=hunter2", "sink.rot=./x"])
    assert "--set: sink.rot: no setting is called so; did you mean sink.root?" in str(told.value)
    assert "--set: registry.password: " in str(told.value)
    assert "hunter2" not in str(told.value)


def test_a_mistake_beside_a_secret_does_not_show_it(tmp_path: Path) -> None:
    text = SECRETS.replace("name: games", "name: Games").replace("user: me", "user: 3")
    with pytest.raises(ConfigError) as caught:
        settings_from(tmp_path, text, PASSWORD=SECRET)
    assert SECRET not in str(caught.value)


def test_options_that_only_speak_of_secrets_may_be_written_out(tmp_path: Path) -> None:
    options = (
        "  sasl.oauthbearer.token.endpoint.url: https://a/b\n"
        "    sasl.jaas.config: 'com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true;'"
    )
    assert len(settings_from(tmp_path, with_lines(SMALL, kafka=options)).source.kafka) == 4


def test_an_empty_secret_from_the_environment_is_none(tmp_path: Path) -> None:
    text = with_lines(SMALL, registry="bearer_token: ${TOKEN:-}")
    assert settings_from(tmp_path, text).registry.bearer_token is None
    assert settings_from(tmp_path, text, TOKEN="t").registry.bearer_token is not None  # noqa: S106


def test_the_registry_client_gets_its_options(tmp_path: Path) -> None:
    text = with_lines(SMALL, registry="user: me\n  password: ${PASSWORD}\n  timeout_seconds: 500 ms")
    options = settings_from(tmp_path, text, PASSWORD=SECRET).registry
    assert (options.url, options.user, options.password) == ("http://127.0.0.1:8081", "me", SECRET)
    assert options.timeout_seconds == 0.5


def test_units_are_understood(tmp_path: Path) -> None:
    text = with_lines(SMALL, top="trigger: {interval_seconds: 2 min}\nlimits: {worker_bytes: 1.5 GiB}")
    settings = settings_from(tmp_path, text)
    assert settings.trigger.interval_seconds == 120.0
    assert settings.limits.worker_bytes == 1610612736


def test_values_of_every_kind_come_from_the_environment(tmp_path: Path) -> None:
    text = with_lines(
        SMALL,
        route="max_tables: ${MANY}\n  fold_case: ${FOLD:-false}",
        top="limits: {worker_bytes: '${M:-64} MiB'}",
    )
    settings = settings_from(tmp_path, text, MANY="12")
    assert (settings.route.max_tables, settings.route.fold_case) == (12, False)
    assert settings.limits.worker_bytes == 64 * 2**20


def test_paths_are_relative_to_the_file_and_know_home(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    text = SMALL.replace("./lake", "../there/./lake\ncheckpoint: ~/cp")
    settings = settings_from(tmp_path, text)
    assert settings.sink.root.path == tmp_path.parent / "there" / "lake"
    assert settings.checkpoint.path == Path("/home/somebody/cp")


def test_a_named_table_collects_records_without_entity(tmp_path: Path) -> None:
    settings = settings_from(tmp_path, with_lines(SMALL, top="policies: {no_entity: {table: homeless}}"))
    assert settings.effective()["policies"]["no_entity"] == {"table": "homeless"}


def test_what_is_in_effect_is_a_file_that_gives_the_same_settings(tmp_path: Path) -> None:
    settings = settings_from(tmp_path, SMALL)
    assert settings_from(tmp_path, yaml.safe_dump(settings.effective())) == settings


def test_settings_do_not_change() -> None:
    settings = Settings.model_validate(yaml.safe_load(SMALL))
    assert settings.sink.root.path == Path.cwd() / "lake"
    with pytest.raises(ValueError, match="frozen"):
        settings.name = "other"


def test_every_setting_is_described_in_the_schema_and_has_a_heading_in_the_reference() -> None:
    page = (REPO / "docs/reference/settings.md").read_text(encoding="utf-8")
    assert page == reference_page(), "write the page again: it is what ingest.settings.reference_page() gives"
    for keys, _ in settings_of(Settings):
        assert f"# `{dotted(keys)}`\n" in page
    schema = Settings.model_json_schema()
    for group in (schema, *schema["$defs"].values()):
        for name, setting in group.get("properties", {}).items():
            below = schema["$defs"].get(setting.get("$ref", "").rpartition("/")[2], {})
            assert setting.get("description") or below.get("description"), name


def test_the_schema_for_editors_is_whole() -> None:
    schema: dict[str, Any] = json_schema()
    assert schema["required"] == ["name", "source", "route", "sink"]
    assert {"integer", "string"} == {
        way.get("type") for way in schema["$defs"]["Route"]["properties"]["max_tables"]["anyOf"]
    }
    json.dumps(schema)


def test_keys_that_become_text_have_a_column_and_only_then_say_so(tmp_path: Path) -> None:
    plain = settings_from(tmp_path, SMALL)
    assert plain.sink.columns.key_text is None
    made = settings_from(tmp_path, SMALL + "decode: {key: auto}\n")
    assert made.sink.columns.key_text == "kafka_key_text"
    assert "kafka_key_text" in made.sink.columns.reserved()
    named = settings_from(tmp_path, SMALL + "  columns: {key_text: who}\ndecode: {key: text}\n")
    assert named.sink.columns.key_text == "who"


def test_all_groups_that_do_not_go_together_are_told_at_once(tmp_path: Path) -> None:
    text = SMALL.replace("  root: ./lake", "  root: ./lake\n  columns: {key_text: k}")
    found = problems(tmp_path, text + "checkpoint: ./lake/checkpoint\ndecode: {check: schema}\n")
    assert [one.split(": ")[1] for one in found] == ["sink.columns.key_text", "checkpoint", "decode.check"]
