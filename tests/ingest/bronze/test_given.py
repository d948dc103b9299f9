"""The settings on keeping records as they came, and by which names that is done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import ConfigError
from distributary.ingest.bronze.given import Bronze
from distributary.ingest.columns.safe_names import check_table
from distributary.ingest.settings.model import Settings


def settings(tmp_path: Path, bronze: dict[str, Any] | None, **more: Any) -> Settings:
    told: dict[str, Any] = {
        "name": "games",
        "source": {"kafka": {"bootstrap.servers": "127.0.0.1:9092"}, "topics": ["events", "Events"]},
        "registry": {"url": "http://127.0.0.1:8081"},
        "decode": {"format": "avro"},
        "route": {"by": "record"},
        "sink": {"root": "lake"},
    }
    return Settings.from_dict({**told, **({} if bronze is None else {"bronze": bronze}), **more}, tmp_path)


@pytest.mark.parametrize(
    ("bronze", "more", "why"),
    [
        ({"table": "Raw"}, {}, "a table's name is made of"),
        ({"table": "quarantine"}, {}, "this name is kept for distributary"),
        ({"table": "_{topic}"}, {}, "must not begin with _"),
        ({"table": "{topic}_{topic}"}, {}, "{topic} exactly once"),
        ({"table": "raw__deleted"}, {}, "does not end in __deleted"),
        ({"table": "{topic}__deleted"}, {}, "does not end in __deleted"),
        ({}, {"erased": ["player = 7"]}, "leave one of the two out"),
        (
            {"table": "rest"},
            {"policies": {"no_entity": {"table": "rest"}}, "route": {"by": "record", "table": "t_{entity}"}},
            "choose another",
        ),
    ],
)
def test_what_cannot_be_is_told(
    tmp_path: Path, bronze: dict[str, Any], more: dict[str, Any], why: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, bronze, **more)
    assert why in str(caught.value)


def test_nothing_is_kept_unless_it_is_asked_for(tmp_path: Path) -> None:
    kept = settings(tmp_path, None).rule_book().kept
    assert not kept
    assert not kept.every_header
    headers = settings(tmp_path, None, policies={"quarantine_headers": True}).rule_book()
    assert headers.beside.every_header
    assert not headers.kept


def test_all_topics_share_a_table_or_each_has_one_of_its_own(tmp_path: Path) -> None:
    assert settings(tmp_path, {}).rule_book().kept.by_topic == {"events": "bronze", "Events": "bronze"}
    own = settings(tmp_path, {"table": "raw_{topic}"}).rule_book().kept.by_topic
    assert own["events"] == "raw_events"
    assert len(set(own.values())) == 2
    assert own["Events"].startswith("raw_events_")


@given(st.lists(st.from_regex(r"[a-zA-Z0-9._-]{1,249}", fullmatch=True), unique=True, max_size=20))
def test_no_two_topics_share_a_table_of_their_own(topics: list[str]) -> None:
    folders = Bronze(table="bronze_{topic}").tables(topics).by_topic
    assert len(set(folders.values())) == len(topics)
    for folder in folders.values():
        check_table(folder)
