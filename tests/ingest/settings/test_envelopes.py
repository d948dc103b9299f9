"""What settings say of an envelope, and what they need not say because of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.ingest.settings.test_model import problems
from tests.ingest.settings.test_table_rules import SOUND

from distributary.codecs.base import Enveloped
from distributary.ingest.checkpoint.generation import fingerprint
from distributary.ingest.settings.deletes import DAYS, Deleting
from distributary.ingest.settings.model import Settings
from distributary.ingest.settings.upserts import Upsert

POSITION = ("__source_position",)
GONE = "__op = 'd'"
BY_KEY = {"match": "*", "mode": "upsert", "keys": "kafka_key"}

SMALL = """\
name: shop
registry: {url: "http://x:1"}
source:
  kafka: {bootstrap.servers: "x:1"}
  topics: [t]
route: {table: "{entity}"}
sink: {root: ./lake}
"""


def captured(envelope: Any = "debezium", **more: Any) -> Settings:
    given = {**SOUND, "decode": {"format": "json", "envelope": envelope}, "route": {"table": "{entity}"}}
    return Settings.from_dict({**given, **more})


def upsert_of(settings: Settings) -> Upsert | None:
    return settings.rule_book().upsert("customers")


def test_the_codec_is_that_of_the_format_in_the_envelope() -> None:
    assert captured().decode.codec == Enveloped("json", "debezium", ("op",), "quarantine")
    more = {"kind": "debezium", "keep": ["before", "op", "op"], "truncate": "stop"}
    assert captured(more).decode.codec == Enveloped("json", "debezium", ("before", "op"), "stop")
    assert Settings.from_dict({**SOUND, "decode": {"format": "json"}}).decode.codec == "json"


def test_records_are_routed_by_their_table_at_the_source_where_nothing_else_is_said() -> None:
    assert captured().route.field == "__source_table"
    assert captured(route={"field": "country"}).route.field == "country"
    assert captured(route={"by": "topic"}).route.field is None
    assert captured(route={}).route.field == "__source_table"


def test_upserts_are_ordered_by_the_source_and_deleted_by_what_the_envelope_says() -> None:
    assert upsert_of(captured(tables=[BY_KEY])) == Upsert((), POSITION, deletes=Deleting(GONE))
    by_field = {**BY_KEY, "keys": ["id"]}
    assert upsert_of(captured(tables=[by_field])) == Upsert(("id",), POSITION, deletes=Deleting(GONE))


def test_what_a_rule_says_itself_stays() -> None:
    own = {**BY_KEY, "sequence_by": ["at"], "deletes": "gone"}
    assert upsert_of(captured(tables=[own])) == Upsert((), ("at",), deletes=Deleting("gone"))
    marked = {**BY_KEY, "deletes": {"mark": "is_deleted"}}
    assert upsert_of(captured(tables=[marked])) == Upsert(
        (), POSITION, deletes=Deleting(GONE, DAYS, "is_deleted")
    )
    assert upsert_of(captured(tables=[{"match": "*"}])) is None


def test_upserts_may_be_ordered_by_kafka() -> None:
    settings = captured({"kind": "debezium", "order": "kafka"}, tables=[BY_KEY])
    assert upsert_of(settings) == Upsert(deletes=Deleting(GONE))


def test_without_an_envelope_nothing_is_said_for_a_rule() -> None:
    settings = Settings.from_dict({**SOUND, "tables": [BY_KEY]})
    assert upsert_of(settings) == Upsert()
    assert "decode.envelope" not in fingerprint(
        settings.source, settings.route, settings.decode, settings.sink
    )


def test_a_checkpoint_keeps_the_envelope_of_its_records() -> None:
    for envelope in ("debezium", {"kind": "debezium", "keep": []}):
        settings = captured(envelope)
        kept = fingerprint(settings.source, settings.route, settings.decode, settings.sink)
        assert kept["decode.envelope"] == "debezium"


def test_settings_that_are_shown_can_be_read_again() -> None:
    settings = captured({"kind": "debezium", "keep": ["op", "ts"]}, tables=[BY_KEY])
    shown = settings.effective()
    assert shown["tables"][0]["deletes"] == GONE
    assert shown["decode"]["envelope"]["keep"] == ["op", "ts"]
    assert settings.model_validate(settings.model_dump()).decode.codec == settings.decode.codec


@pytest.mark.parametrize(
    ("decode", "expected"),
    [
        (
            "{format: json, envelope: maxwell}",
            "decode.envelope: no envelope is called maxwell; write debezium",
        ),
        (
            "{format: json, envelope: {keep: [op]}}",
            "decode.envelope.kind:",
        ),
        (
            "{format: json, envelope: {kind: debezium, keep: [after]}}",
            "decode.envelope.keep[0]:",
        ),
        (
            "{format: json, envelope: {kind: debezium, order: time}}",
            "decode.envelope.order:",
        ),
        (
            "{format: json, envelope: {kind: debezium, kept: [op]}}",
            "decode.envelope.kept: no setting is called so; did you mean decode.envelope.keep?",
        ),
        (
            "{format: json, envelope: debezium, engine: spark}",
            "decode.engine: Spark's functions know nothing of an envelope; write engine: arrow",
        ),
    ],
)
def test_what_is_wrong_is_told_at_its_line(tmp_path: Path, decode: str, expected: str) -> None:
    (found,) = problems(tmp_path, f"{SMALL}decode: {decode}\n")
    assert expected in found
    assert found.startswith(f"{len(SMALL.splitlines()) + 1}:")
