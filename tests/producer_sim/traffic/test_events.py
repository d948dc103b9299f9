"""Events are the same for the same seed, and the rows that go with them are what is in their bytes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from distributary.codecs.base import load_codec
from distributary.producer_sim.events.versions import event_schema
from distributary.producer_sim.formats.protobuf import record_class, schema_text
from distributary.producer_sim.traffic.events import EventMaker, Events, Population, game_names
from distributary.producer_sim.truth.checksum import row_hashes
from distributary.registry.base import Schema

POPULATION = Population(games=game_names(7), gamers=200)
VERSIONS = (1, 2, 3, 4, 7, 12)


def made(version: int, seed: int = 3, number: int = 0, count: int = 400) -> Events:
    return EventMaker(version, POPULATION, seed).chunk(version, number, count)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_pipeline_s_decoder_finds_the_rows(version: int) -> None:
    """Two ways that share nothing: the generator's own values, and its bytes read by the product's codec."""
    events = made(version)
    schema = Schema(1, "PROTOBUF", schema_text(version))
    decoded = load_codec("protobuf").reader(schema, (0,)).decode(pa.array(events.bodies, pa.binary()))
    assert not decoded.failures
    assert decoded.rows.schema.names == events.rows.schema.names
    assert row_hashes(decoded.rows).tolist() == row_hashes(events.rows).tolist()


@pytest.mark.parametrize("version", VERSIONS)
def test_protobuf_s_own_reader_finds_the_scalars(version: int) -> None:
    events = made(version, count=50)
    for body, row, key in zip(events.bodies, events.rows.to_pylist(), events.keys, strict=True):
        event: Any = record_class(event_schema(version)).FromString(body)
        assert (event.event_id, event.game_name, event.score) == (
            row["event_id"],
            row["game_name"],
            row["score"],
        )
        assert (event.duration_s, event.premium, list(event.tags)) == (
            row["duration_s"],
            row["premium"],
            row["tags"],
        )
        assert dict(event.inventory) == dict(row["inventory"])
        assert event.gamer_id.encode() == key


def test_the_same_seed_makes_the_same_events() -> None:
    one, other = made(3), made(3)
    assert one.bodies == other.bodies
    assert one.keys == other.keys
    assert one.rows.equals(other.rows)


def test_seed_chunk_and_version_make_others() -> None:
    several = [made(3), made(3, seed=4), made(3, number=1), made(2)]
    ids = [event_id for events in several for event_id in events.rows["event_id"].to_pylist()]
    assert len(set(ids)) == len(ids) == 1600
    assert len({tuple(events.rows["score"].to_pylist()) for events in several}) == 4


def test_what_is_optional_is_there_and_not_there() -> None:
    rows = made(12, count=2000).rows
    for name in ("season", "guild", "position", "coins", "item", "seen_v9", "bonus_name_v8"):
        assert 0 < rows[name].null_count < rows.num_rows, name
    both = [row for row in rows.select(["coins", "item"]).to_pylist() if None not in row.values()]
    assert both == []


def test_empty_and_default_values_occur() -> None:
    rows = made(12, count=2000).rows
    for name in ("tags", "achievements", "inventory", "wallet", "samples_v5"):
        assert rows[name].null_count == 0
        assert 0 in {len(found) for found in rows[name].to_pylist()}
    assert "PLATFORM_UNSPECIFIED" in rows["platform"].to_pylist()
    assert {0, ""} <= set(rows["coins"].to_pylist()) | set(rows["item"].to_pylist())
    assert any(not gamer.isascii() for gamer in rows["gamer_id"].to_pylist())


def counts(skew: float) -> list[int]:
    population = Population(games=game_names(10), gamers=50, game_skew=skew)
    rows = EventMaker(1, population, 1).chunk(1, 0, 20_000).rows
    return [count for _, count in Counter(rows["game_name"].to_pylist()).most_common()]


def test_without_skew_games_share_evenly() -> None:
    assert min(counts(0)) > 1800


def test_with_zipf_s_law_the_first_has_twice_the_second() -> None:
    first, second, third, *_ = counts(1.0)
    assert np.isclose(first / second, 2, rtol=0.1)
    assert np.isclose(first / third, 3, rtol=0.1)


def test_games_have_distinct_names() -> None:
    assert len(set(game_names(5000))) == 5000
    assert game_names(3) == game_names(5)[:3]


def test_an_event_without_its_game_keeps_the_rest() -> None:
    maker = EventMaker(3, POPULATION, 3)
    body = maker.chunk(3, 0, 1).bodies[0]
    event: Any = record_class(event_schema(3)).FromString(maker.without_game(body))
    whole: Any = record_class(event_schema(3)).FromString(body)
    assert event.game_name == ""
    event.game_name = whole.game_name
    assert event == whole
