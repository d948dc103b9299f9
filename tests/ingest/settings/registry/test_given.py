"""What settings say of Glue's registry, and what they need not say because of it."""

from __future__ import annotations

from typing import Any

import pytest
from tests.ingest.settings.test_table_rules import SOUND

from distributary.codecs.base import Enveloped
from distributary.errors import ConfigError
from distributary.ingest.checkpoint.generation import fingerprint
from distributary.ingest.schemas.opening import identity
from distributary.ingest.schemas.subjects import value_subjects
from distributary.ingest.settings.model import Settings


def in_glue(format_: str = "avro", registry: dict[str, Any] | None = None, **decode: Any) -> Settings:
    glue = {"type": "glue", "glue": {"registry": "games", "region": "eu-central-1"}, **(registry or {})}
    return Settings.from_dict({**SOUND, "registry": glue, "decode": {"format": format_, **decode}})


@pytest.mark.parametrize("format_", ["avro", "jsonschema", "protobuf"])
def test_records_are_read_in_glue_s_wire_format(format_: str) -> None:
    assert in_glue(format_).decode.codec == f"glue/{format_}"


def test_an_envelope_stands_around_it() -> None:
    assert in_glue(envelope="debezium").decode.codec == Enveloped(
        "glue/avro", "debezium", ("op",), "quarantine"
    )


def test_schemas_are_those_of_the_topics_names_unless_named() -> None:
    settings = in_glue()
    assert value_subjects(settings.source, settings.registry, settings.decode) == settings.source.topics
    named = in_glue(registry={"subjects": ["events"]})
    assert value_subjects(named.source, named.registry, named.decode) == ("events",)


def test_another_registry_is_told_apart_from_it() -> None:
    assert identity(in_glue().registry) == "Glue registry games (eu-central-1)"
    settings = in_glue()
    kept = fingerprint(settings.source, settings.route, settings.decode, settings.sink)
    assert kept["decode.wire"] == "glue"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"format_": "auto"}, "decode.format: in Glue's wire format records of avro, jsonschema, protobuf"),
        ({"format_": "json"}, "decode.format: in Glue's wire format"),
        ({"format_": "glue/avro"}, "write format: avro, and registry.type: glue"),
        ({"engine": "spark"}, "decode.engine: Spark's functions know nothing of Glue's compression"),
        ({"key": "auto"}, "decode.key: keys in Glue's wire format are not decoded"),
        ({"wire": "confluent"}, "decode.wire: records name their schema as the registry's serializers write"),
        (
            {"registry": {"url": "http://x:1"}},
            "registry.url: it is for a registry that speaks Confluent's API",
        ),
        ({"registry": {"map_entries": "named"}}, "registry.map_entries: it is for a registry"),
        ({"registry": {"type": "confluent"}}, "registry.glue: it is for Glue's registry"),
        ({"registry": {"glue": {"endpoint": "https://me:hush@x"}}}, "registry.glue.endpoint: it is no http"),
    ],
    ids=str,
)
def test_what_does_not_go_with_it_is_refused_by_name(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError) as raised:
        in_glue(**given)
    assert told in str(raised.value)
    assert "hush" not in str(raised.value)
