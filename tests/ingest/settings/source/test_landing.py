from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from distributary.errors import ConfigError
from distributary.ingest.settings.model import Settings


def settings(folder: Path, files: dict[str, Any], **source: Any) -> Settings:
    return Settings.from_dict(
        {
            "name": "landed",
            "source": {"files": files, **source},
            "route": {"by": "topic"},
            "sink": {"root": str(folder / "lake")},
        },
        folder,
    )


def test_files_are_read_as_json_and_called_as_their_folder(tmp_path: Path) -> None:
    found = settings(tmp_path, {"path": "./in coming"})
    assert (found.decode.format, found.source.topics) == ("json", ("in_coming",))
    assert settings(tmp_path, {"path": "s3://bucket/a/b", "name": "orders"}).source.topics == ("orders",)


@pytest.mark.parametrize(
    ("files", "source", "told"),
    [
        (
            {"path": "./in", "format": "orc"},
            {},
            r"source\.files\.format: write one of 'lines', .* or 'parquet'",
        ),
        ({"path": "./in"}, {"topics": ["a"]}, r"source\.topics: .* this is Kafka's"),
        ({"path": "./in"}, {"delta": {"paths": "./t"}}, "another source's"),
        ({"path": "./in"}, {"until": "2026-01-01T00:00:00Z"}, r"source\.until: files have no such end"),
        (
            {"path": "./in"},
            {"starting_offsets": "2026-01-01T00:00:00Z"},
            r"source\.starting_offsets: files begin",
        ),
        (
            {"path": "./in", "archive_to": "./in/old"},
            {},
            r"source\.files\.archive_to: what is moved there would land",
        ),
        ({"path": "./in", "archive_after": "60 s"}, {}, r"source\.files\.archive_after: nothing is moved"),
        ({"path": "./in", "name": "a b"}, {}, r"source\.files\.name: it names a folder and a topic"),
        ({"path": "./lake/in"}, {}, r"source\.files\.path: it and sink\.root lie in each other"),
        (
            {"path": "./in", "archive_to": "./lake/old"},
            {},
            r"source\.files\.archive_to: it and sink\.root lie in each other",
        ),
        ({"path": "./schemas"}, {}, r"source\.files\.path: it and decode\.schema_location lie in each"),
    ],
)
def test_what_does_not_go_together_is_told(
    tmp_path: Path, files: dict[str, Any], source: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        settings(tmp_path, files, **source)


@pytest.mark.parametrize(("of", "codec"), [("avro", "avro"), ("parquet", "json"), ("text", "json")])
def test_what_files_are_says_what_decodes_them_and_no_registry_is_needed(
    tmp_path: Path, of: str, codec: str
) -> None:
    assert settings(tmp_path, {"path": "./in", "format": of}).decode.format == codec


@pytest.mark.parametrize(
    ("of", "beside", "told"),
    [
        ("avro", {"decode": {"format": "json"}}, r"decode\.format: what is in avro files is decoded as avro"),
        (
            "parquet",
            {"decode": {"format": "auto"}},
            r"decode\.format: what is in parquet files is decoded as json",
        ),
        ("avro", {"registry": {"url": "http://127.0.0.1:1"}}, r"registry\.url: the files have the schemas"),
        (
            "parquet",
            {"decode": {"schema_per": "entity"}},
            r"decode\.schema_per: the files say what their columns are",
        ),
        (
            "parquet",
            {"decode": {"envelope": "debezium"}},
            r"decode\.envelope: the files say what their columns are",
        ),
    ],
)
def test_nothing_is_said_of_schemas_that_files_bring(
    tmp_path: Path, of: str, beside: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=told):
        Settings.from_dict(
            {
                "name": "landed",
                "source": {"files": {"path": "./in", "format": of}},
                "route": {"by": "field", "field": "game"},
                "sink": {"root": str(tmp_path / "lake")},
                **beside,
            },
            tmp_path,
        )
