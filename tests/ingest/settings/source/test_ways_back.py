"""What a pipeline would write where it reads itself, told before anything runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distributary.errors import ConfigError
from distributary.ingest.derivation.beside import BesideTable, ToKafka
from distributary.ingest.settings.model import Settings
from distributary.ingest.settings.source.ways_back import wrong_ways_back
from distributary.ingest.storage.place import Place

BROKERS = {"bootstrap.servers": "127.0.0.1:9092"}


def settings(folder: Path, source: dict[str, Any], *sinks: dict[str, Any]) -> Settings:
    """With derived tables that are sent on."""
    made = {"inputs": ["silver_a"], "aggregate": {"by": ["k"], "columns": {"n": "count(*)"}}}
    tables = ["gold_{entity}" if "{entity}" in str(sink) else f"other_{n}" for n, sink in enumerate(sinks)]
    return Settings.from_dict(
        {
            "name": "round",
            "source": source,
            "registry": {} if "files" in source else {"url": "http://127.0.0.1:8081"},
            "route": {"by": "topic", "table": "silver_{entity}"},
            "sink": {"root": "./lake"},
            "derive": [
                {**made, "table": table, "sink": sink} for table, sink in zip(tables, sinks, strict=True)
            ],
        },
        folder,
    )


@pytest.mark.parametrize(
    ("topics", "sent"),
    [
        (["a", "gold"], {"topic": "gold"}),
        (["/^game-/"], {"topic": "game-counts"}),
        (["/-counts$/"], {"topic": "{entity}-counts"}),
        (["chess-counts"], {"topic": "{entity}-counts"}),
        (["gold"], {"topic": "gold", "kafka": {"client.id": "x"}}),
    ],
)
def test_what_is_sent_does_not_come_back(tmp_path: Path, topics: list[str], sent: dict[str, Any]) -> None:
    """Each round would read what the one before it sent, and send that on."""
    with pytest.raises(ConfigError, match=r"sink\.kafka\.topic: .* comes back for ever"):
        settings(tmp_path, {"kafka": BROKERS, "topics": topics}, {"kafka": sent})
    elsewhere = {**sent, "kafka": {"bootstrap.servers": "127.0.0.2:9092"}}
    settings(tmp_path, {"kafka": BROKERS, "topics": topics}, {"kafka": elsewhere})
    settings(tmp_path, {"kafka": BROKERS, "topics": ["other"]}, {"kafka": sent})


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("./landing/exported", r"it and source\.files\.path lie in each other"),
        ("./archive/exported", r"it and source\.files\.archive_to lie in each other"),
        ("./lake", r"it and sink\.root lie in each other"),
        ("./lake/exported", r"it and sink\.root lie in each other"),
        ("./checkpoints", "it and checkpoint lie in each other"),
        ("./exported", None),
    ],
)
def test_files_that_are_written_are_none_that_land_nor_any_tables(
    tmp_path: Path, path: str, told: str | None
) -> None:
    source = {"files": {"path": "./landing", "archive_to": "./archive"}}
    if told is None:
        settings(tmp_path, source, {"files": {"path": path}})
        return
    with pytest.raises(ConfigError, match=rf"sink\.files\.path: {told}"):
        settings(tmp_path, source, {"files": {"path": path}})


@pytest.mark.parametrize(
    ("matches", "meet"),
    [
        (("chess*", "go*"), False),
        (("chess", "Chess"), True),
        (("chess", "go*"), False),
        (("go*", "gobang"), True),
        (("go*", "*"), True),
        (("/^go/", "chess*"), True),
    ],
)
def test_rules_of_other_entities_may_have_a_topic_for_each(
    tmp_path: Path, matches: tuple[str, str], meet: bool
) -> None:
    whole = settings(tmp_path, {"kafka": BROKERS, "topics": ["a"]}, {"kafka": {"topic": "other"}}).derive[0]
    rules = [
        whole.model_copy(
            update={
                "table": f"gold_{number}_{{entity}}",
                "match": match,
                "sink": BesideTable(kafka=ToKafka(topic="counts-{entity}")),
            }
        )
        for number, match in enumerate(matches)
    ]
    source = settings(tmp_path, {"kafka": BROKERS, "topics": ["a"]}).source
    root, checkpoint = Place.parse(f"{tmp_path}/lake"), Place.parse(f"{tmp_path}/checkpoint")
    wrong = [*wrong_ways_back(source, root, checkpoint, rules)]
    assert [why for _, why in wrong if "go there, too" in why] == [why for _, why in wrong]
    assert bool(wrong) == meet


def test_a_login_that_only_spark_knows_is_told_of_before_anything_is_sent(tmp_path: Path) -> None:
    source = {"kafka": BROKERS, "topics": ["a"], "preset": {"of": "msk_iam"}}
    with pytest.raises(ConfigError, match=r"sink\.kafka\.kafka: rows are sent by librdkafka"):
        settings(tmp_path, source, {"kafka": {"topic": "gold"}})
    scram = {
        "sasl.mechanism": "SCRAM-SHA-512",
        "sasl.jaas.config": 'X required username="u" password="${P}";',
    }
    with pytest.raises(ConfigError, match="callback"):
        settings(tmp_path, source, {"kafka": {"topic": "gold", "kafka": scram}})
    without = {**scram, "sasl.client.callback.handler.class": ""}
    settings(tmp_path, source, {"kafka": {"topic": "gold", "kafka": without}})


@pytest.mark.parametrize(
    ("topics", "told"), [(["gold", "gold"], True), (["gold-{entity}", "gold-a"], True), (["a", "b"], False)]
)
def test_a_topic_has_the_rows_of_one_table(tmp_path: Path, topics: list[str], told: bool) -> None:
    """A record without a value, of a key that went from one, would take the other's row away."""
    source = {"kafka": BROKERS, "topics": ["x"]}
    sinks = [{"kafka": {"topic": topic}} for topic in topics]
    if not told:
        settings(tmp_path, source, *sinks)
        return
    with pytest.raises(ConfigError, match=r"derive\[1\]\.sink\.kafka\.topic: the rows of .* go there, too"):
        settings(tmp_path, source, *sinks)
