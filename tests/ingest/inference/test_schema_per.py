"""Settings under which each entity can, or cannot, have an inferred schema of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from tests.ingest.pipelines import settings

from distributary.ingest.checkpoint.generation import fingerprint
from distributary.ingest.schemas.inferred_per_entity import EntitySchemas, location_of

PER_ENTITY = {"format": "json", "schema_per": "entity"}


@pytest.mark.parametrize(
    ("decode", "route", "why"),
    [
        ({"format": "protobuf"}, {}, "name their schema in a registry"),
        ({}, {"field": None, "by": "record"}, "only once it is decoded"),
        ({}, {"field": None, "by": "expression", "expression": "lower(game)"}, "only once it is decoded"),
        ({"engine": "spark"}, {}, "one schema for the topic"),
        ({"format": "auto", "key": "auto"}, {"field": None, "by": "key"}, "`infer` reads keys as they are"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(
    tmp_path: Path, decode: dict[str, Any], route: dict[str, Any], why: str
) -> None:
    with pytest.raises(ValueError, match=f"{why}.*schema_per: topic"):
        settings(tmp_path, decode={**PER_ENTITY, **decode}, route=route)


@pytest.mark.parametrize(
    "route", [{}, {"field": "at.game"}, {"field": None, "by": "key"}, {"field": None, "by": "topic"}]
)
def test_where_it_can_be_schemas_are_kept_by_entity(tmp_path: Path, route: dict[str, Any]) -> None:
    per_entity = settings(tmp_path, decode=PER_ENTITY, route=route)
    assert isinstance(location_of(per_entity.name, per_entity.decode, per_entity.storage), EntitySchemas)
    per_topic = settings(tmp_path, decode={"format": "json"}, route=route)
    assert not isinstance(location_of(per_topic.name, per_topic.decode, per_topic.storage), EntitySchemas)
    # A checkpoint may go from one to the other.
    per_both = [fingerprint(s.source, s.route, s.decode, s.sink) for s in (per_entity, per_topic)]
    assert per_both[0] == per_both[1]
