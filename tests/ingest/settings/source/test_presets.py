"""Kafka as a service: what a preset renders for Spark's client, and for librdkafka where there is no JVM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distributary.errors import ConfigError
from distributary.ingest.settings.groups import Source
from distributary.ingest.settings.model import Settings, load
from distributary.ingest.settings.source.librdkafka import is_known, librdkafka_options
from distributary.values import MASK

PLANTED = 'pa"ss\\word/+='

STRING = "Endpoint=sb://games.servicebus.windows.net/;SharedAccessKeyName=reader;SharedAccessKey=abc+/123="


def source(preset: dict[str, Any], **kafka: str) -> Source:
    servers = {"bootstrap.servers": "broker:9092"}
    return Source.model_validate({"kafka": {**servers, **kafka}, "topics": ["events"], "preset": preset})


def test_confluent_cloud_logs_in_by_an_api_key() -> None:
    found = source({"of": "confluent_cloud", "user": "KEY", "password": PLANTED})
    assert found.spark_options() == {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.isolation.level": "read_committed",
        "kafka.security.protocol": "SASL_SSL",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
        'username="KEY" password="pa\\"ss\\\\word/+=";',
    }
    assert librdkafka_options(found.kafka) == {
        "bootstrap.servers": "broker:9092",
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "KEY",
        "sasl.password": PLANTED,
    }


def test_event_hubs_logs_in_by_a_connection_string() -> None:
    found = source({"of": "event_hubs", "password": STRING})
    rendered = librdkafka_options(found.kafka)
    assert (rendered["sasl.username"], rendered["sasl.password"]) == ("$ConnectionString", STRING)
    assert found.spark_options()["kafka.connections.max.idle.ms"] == "180000"
    assert found.kafka["request.timeout.ms"] == "60000"


def test_amazons_iam_takes_its_login_module_and_librdkafka_has_none() -> None:
    found = source({"of": "msk_iam", "role": "arn:aws:iam::123456789012:role/reader"})
    assert {name: found.kafka[name] for name in found.kafka if name.startswith(("sasl", "security"))} == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "AWS_MSK_IAM",
        "sasl.jaas.config": "software.amazon.msk.auth.iam.IAMLoginModule required "
        'awsRoleArn="arn:aws:iam::123456789012:role/reader";',
        "sasl.client.callback.handler.class": "software.amazon.msk.auth.iam.IAMClientCallbackHandler",
    }
    assert source({"of": "msk_iam"}).kafka["sasl.jaas.config"].endswith("IAMLoginModule required;")
    assert not is_known(found.kafka)


def test_what_stands_in_the_options_wins() -> None:
    found = source({"of": "event_hubs", "password": STRING}, **{"request.timeout.ms": "70000"})
    assert (found.kafka["request.timeout.ms"], found.kafka["sasl.mechanism"]) == ("70000", "PLAIN")


@pytest.mark.parametrize(
    ("preset", "said"),
    [
        ({"of": "confluent_cloud", "user": "KEY"}, "logs in by its user and password"),
        ({"of": "event_hubs"}, "logs in by its password"),
        ({"of": "event_hubs", "user": "me", "password": STRING}, "event_hubs knows no user"),
        ({"of": "msk_iam", "password": "x"}, "msk_iam knows no password"),
        ({"of": "msk_iam", "role": 'a"; evil'}, "it is no ARN"),
        ({"of": "kinesis"}, "write one of 'confluent_cloud', 'msk_iam' or 'event_hubs'"),
    ],
)
def test_what_a_preset_lacks_or_does_not_know_is_told(preset: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        Settings.from_dict(document(preset))


def document(preset: dict[str, Any]) -> dict[str, Any]:
    kafka = {"bootstrap.servers": "broker:9092"}
    return {
        "name": "games",
        "source": {"kafka": kafka, "topics": ["events"], "preset": preset},
        "registry": {"url": "http://127.0.0.1:8081"},
        "route": {"field": "game_name"},
        "sink": {"root": "./lake"},
    }


def test_its_secret_comes_from_the_environment_and_is_never_shown(tmp_path: Path) -> None:
    text = """
name: games
source:
  preset: {of: confluent_cloud, user: KEY, password: PASSWORD}
  kafka: {bootstrap.servers: "broker:9092"}
  topics: [events]
registry: {url: "http://127.0.0.1:8081"}
route: {field: game_name}
sink: {root: ./lake}
"""
    path = tmp_path / "games.yaml"
    path.write_text(text.replace("PASSWORD", '"${SECRET}"'))
    settings = load(path, {"SECRET": PLANTED})
    shown = settings.effective()["source"]
    assert (shown["preset"]["password"], shown["kafka"]["sasl.jaas.config"]) == (MASK, MASK)
    assert PLANTED not in repr(settings)
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"source\.preset\.password"):
        load(path, {})
