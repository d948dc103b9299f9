from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distributary.errors import ConfigError
from distributary.ingest.settings.model import Settings

KAFKA = {"kafka": {"bootstrap.servers": "127.0.0.1:9092"}, "topics": ["a"]}


def settings_of(folder: Path, source: dict[str, Any], **more: Any) -> Settings:
    given = {"name": "gold", "source": source, "route": {"by": "topic"}, "sink": {"root": "./gold"}, **more}
    return Settings.from_dict(given, folder)


def test_a_table_is_a_topic_called_as_its_folder_and_is_read_as_json(tmp_path: Path) -> None:
    source = settings_of(tmp_path, {"delta": {"paths": "./lake/players"}})
    assert source.source.topics == ("players",)
    assert source.decode.format == "json"
    assert source.source.delta is not None
    assert [str(place) for place in source.source.delta.paths] == [f"{tmp_path}/lake/players"]
    several = settings_of(tmp_path, {"delta": {"paths": ["/lake/a", "s3://games/lake/b"]}})
    assert several.source.topics == ("a", "b")


def test_a_version_is_where_each_table_begins(tmp_path: Path) -> None:
    begun = settings_of(tmp_path, {"delta": {"paths": ["/lake/a", "/lake/b"], "starting_version": 3}})
    assert begun.source.starting_offsets == {"a": {0: 3 << 32}, "b": {0: 3 << 32}}


@pytest.mark.parametrize(
    ("source", "more", "told"),
    [
        ({**KAFKA, "delta": {"paths": "/lake/a"}}, {}, r"source\.topics: source\.delta has tables read"),
        ({}, {}, r"source\.kafka: this setting is missing"),
        ({"delta": {"paths": ["/lake/a", "/bay/a"]}}, {}, r"another table's path ends in a, too"),
        ({"delta": {"paths": []}}, {}, r"write at least 1 of them"),
        (
            {"delta": {"paths": "/lake/a", "preimages": "delete"}},
            {},
            r"source\.delta\.preimages: what updates changed is not read; write read: changes",
        ),
        (
            {"delta": {"paths": "/lake/a"}},
            {"decode": {"format": "avro"}},
            r"decode\.format: rows of tables are read as JSON",
        ),
        (
            {"delta": {"paths": "/lake/a"}},
            {"decode": {"schema_per": "entity"}},
            r"decode\.schema_per: tables say what their columns are",
        ),
    ],
)
def test_what_does_not_go_with_tables_is_refused(
    tmp_path: Path, source: dict[str, Any], more: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        settings_of(tmp_path, source, **more)
