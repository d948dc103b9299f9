"""The mix of records: shares as asked, the same for the same settings, and counted as handed out."""

from __future__ import annotations

from collections import Counter
from hashlib import sha256
from typing import Any

import pyarrow as pa
import pytest

from distributary.codecs.base import load_codec
from distributary.codecs.changes.classify import ChangeClass
from distributary.producer_sim.events.routes import Routed
from distributary.producer_sim.events.versions import EVENT_TYPES
from distributary.producer_sim.formats.base import FORMATS, corrupt_kinds
from distributary.producer_sim.formats.protobuf import schema_text
from distributary.producer_sim.traffic.events import EventMaker
from distributary.producer_sim.traffic.records import Record, Traffic
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.producer_sim.truth.checksum import GroupSums, row_hashes
from distributary.producer_sim.truth.sent import Group
from distributary.registry.base import Schema

IDS = {1: 101, 2: 102, 3: 103}
PINNED = Simulation.of(
    bootstrap_servers="none",
    topic="games",
    games=3,
    gamers=50,
    versions=10,
    events=200,
    corrupt=0.1,
    tombstones=0.05,
    old_producers=0.3,
    seed=7,
)


def settings(**chosen: Any) -> Simulation:
    return Simulation.of(
        **{"bootstrap_servers": "none", "topic": "games", "games": 3, "gamers": 50, **chosen}
    )


def stages(chosen: Simulation) -> tuple[Traffic, dict[int, list[Record]]]:
    traffic, records = Traffic(chosen), dict[int, list[Record]]()
    for version in range(1, chosen.evolution.versions + 1):
        traffic.introduce(version, IDS[version])
        if version >= chosen.evolution.first_version:
            records[version] = [record for chunk in traffic.stage(version) for record in chunk]
    return traffic, records


def schema_ids(records: list[Record]) -> Counter[int]:
    return Counter(int.from_bytes(r.value[1:5], "big") for r in records if r.value and not r.corruption)


def test_the_sums_are_those_of_the_records_read_by_the_product_s_decoder() -> None:
    traffic, records = stages(
        settings(versions=3, events=900, corrupt=0.1, tombstones=0.05, old_producers=0.3)
    )
    sums, codec = GroupSums(), load_codec("protobuf")
    for version, schema_id in IDS.items():
        head = b"\0" + schema_id.to_bytes(4, "big") + b"\0"
        good = [r.value for stage in records.values() for r in stage if r.value and not r.corruption]
        bodies = pa.array([value[6:] for value in good if value.startswith(head)], pa.binary())
        decoded = codec.reader(Schema(schema_id, "PROTOBUF", schema_text(version)), (0,)).decode(bodies).rows
        sums.add([decoded["game_name"], pa.repeat(schema_id, len(bodies))], row_hashes(decoded))
    found = {
        Group(game, schema_id, "games.GameEvent"): (total.rows, total.checksum)
        for (game, schema_id), total in sums.groups.items()
    }
    assert found == {group: (sent.rows, sent.checksum) for group, sent in traffic.sent().items()}
    assert {(sent.version, group.schema_id) for group, sent in traffic.sent().items()} == set(IDS.items())


def digest(found: Any) -> str:
    return sha256(repr(found).encode()).hexdigest()


def test_protobuf_s_records_are_the_same_in_every_release_and_process() -> None:
    """What was measured and what was recorded with a seed can be sent again."""
    traffic, records = Traffic(PINNED), sha256()
    for version in range(1, PINNED.evolution.versions + 1):
        traffic.introduce(version, 100 + version)
        for record in (record for chunk in traffic.stage(version) for record in chunk):
            records.update(repr(tuple(record[:3])).encode())
    assert records.hexdigest() == "fc38f6164eabd63bc8c7ef68e4044e4b6ab1538936e31b076379b8e26fa84ca1"
    told = [(tuple(group[:2]), s.version, s.rows, s.checksum) for group, s in traffic.sent().items()]
    assert digest(sorted(told)) == "f8cea45ae6a3f269e2b4c68a6faad14ba965c640c8f64c19dd0aa10748150d86"


@pytest.mark.parametrize("name", FORMATS)
def test_the_same_settings_make_the_same_records(name: str) -> None:
    chosen = settings(format=name, versions=3, events=500, corrupt=0.1, tombstones=0.1, old_producers=0.5)
    (one, records), (other, again) = stages(chosen), stages(chosen)
    assert records == again
    assert one.sent() == other.sent()


def test_a_version_sent_alone_is_what_it_is_among_others() -> None:
    whole = settings(versions=3, events=300, old_producers=0.4)
    alone = settings(versions=3, first_version=3, events=300, old_producers=0.4)
    assert stages(alone)[1][3] == stages(whole)[1][3]


@pytest.mark.parametrize("name", FORMATS)
def test_types_of_events_share_the_topic_evenly(name: str) -> None:
    chosen = settings(format=name, event_types=3, events=3000)
    traffic = Traffic(chosen)
    for number, record in enumerate(chosen.records):
        traffic.introduce(1, 100 + number, record)
    records = [record for chunk in traffic.stage(1) for record in chunk]
    assert len(records) == 3000
    rows: Counter[int | None] = Counter()
    for group, sent in traffic.sent().items():
        rows[group.schema_id] += sent.rows
    assert set(rows) == {100, 101, 102}
    assert all(850 < count < 1150 for count in rows.values())


def test_the_first_type_s_events_are_the_same_beside_others() -> None:
    population = settings().population
    first, other = (
        EventMaker(2, population, 1, record=record).chunk(2, 0, 50) for record in list(EVENT_TYPES)[:2]
    )
    assert first.bodies == EventMaker(2, population, 1).chunk(2, 0, 50).bodies
    assert not {*first.rows["event_id"].to_pylist()} & {*other.rows["event_id"].to_pylist()}
    assert set(other.rows.schema.names) - set(first.rows.schema.names) == {"sku", "price_cents", "receipt"}


def test_old_producers_appear_once_there_is_a_newer_version() -> None:
    _, records = stages(settings(versions=3, events=4000, old_producers=0.5))
    assert schema_ids(records[1]) == {101: 4000}
    third = schema_ids(records[3])
    assert 1800 < third[103] < 2200
    assert 850 < third[101] < 1150


def test_without_old_producers_a_stage_has_one_version() -> None:
    _, records = stages(settings(versions=2, events=100))
    assert [schema_ids(stage) for stage in records.values()] == [{101: 100}, {102: 100}]


@pytest.mark.parametrize("name", FORMATS)
def test_corrupt_kinds_take_turns_and_shares_are_kept(name: str) -> None:
    _, records = stages(settings(format=name, events=10_000, corrupt=0.02, tombstones=0.01))
    kinds = Counter(record.corruption for record in records[1] if record.corruption)
    assert set(kinds) == set(corrupt_kinds(name))
    assert max(kinds.values()) - min(kinds.values()) <= 1
    assert 150 < kinds.total() < 250
    assert 70 < sum(record.value is None for record in records[1]) < 130


@pytest.mark.parametrize("rate", [0.5, 30, 10**6])
def test_a_rate_changes_the_chunks_and_not_their_number_of_records(rate: float) -> None:
    traffic = Traffic(settings(events=70, rate=rate))
    traffic.introduce(1, 101)
    sizes = [len(chunk) for chunk in traffic.stage(1)]
    assert sum(sizes) == 70
    assert max(sizes) <= max(1, rate)


def test_everything_may_be_corrupt() -> None:
    traffic, records = stages(settings(events=50, corrupt=1.0))
    assert traffic.sent() == {}
    assert all(record.corruption for record in records[1])


@pytest.mark.parametrize("name", ["protobuf", "json"])
def test_a_value_of_another_type_routes_only_where_a_schema_says_its_type(name: str) -> None:
    """Then its record has an entity whose table refuses it; without a schema the value is rescued, and there is none."""
    chosen = settings(
        format=name, events=400, changes=("changed",), first_version=2, route=Routed("field", "premium")
    )
    traffic = Traffic(chosen)
    traffic.introduce(1, None)
    traffic.introduce(2, 102)
    refused = [record.corruption for chunk in traffic.stage(2) for record in chunk if record.corruption]
    assert set(refused) == ({"incompatible_type"} if name == "protobuf" else set())
    assert not any(value for group in traffic.sent() for _, value in group.told)
    assert sum(sent.rows for sent in traffic.sent().values()) == 400 - len(refused)


@pytest.mark.parametrize("name", ["avro", "protobuf", "jsonschema"])
def test_a_renamed_record_is_held_against_its_own_table_where_records_are_routed_by_name(name: str) -> None:
    """By its game it stands in a table whose columns have the types from before the change."""
    changes: tuple[ChangeClass, ...] = ("changed", "record_renamed", "widened")
    refused = {}
    for route in (Routed(), Routed("record", "")):
        chosen = settings(
            format=name, changes=changes, route=route, event_types=2, old_producers=0.5, events=400
        )
        traffic, versions = Traffic(chosen), set[int]()
        for version in range(1, chosen.last_version + 1):
            for number, record in enumerate(chosen.records):
                traffic.introduce(version, 10 * version + number, record)
            for sent in (sent for chunk in traffic.stage(version) for sent in chunk):
                if sent.corruption == "incompatible_type" and sent.value is not None:
                    versions.add(int.from_bytes(sent.value[1:5], "big") // 10)
        refused[route.by] = versions
    assert refused == {"field": {2, 3, 4}, "record": {2}}
