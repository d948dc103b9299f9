"""Whatever the format, its own reference reader finds in the bytes what the rows say, and accepts nothing corrupt."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timezone
from functools import cache
from importlib import import_module
from io import BytesIO
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from fastavro import parse_schema, schemaless_reader

from distributary.codecs.base import BUILT_IN, load_codec
from distributary.producer_sim.events.versions import event_schema
from distributary.producer_sim.formats.avro import longs
from distributary.producer_sim.formats.base import FORMATS, load_format
from distributary.producer_sim.formats.corruption import NO_ENTITY, UNKNOWN_IDS
from distributary.producer_sim.traffic.events import EventMaker, Events, Population, game_names
from distributary.producer_sim.truth.checksum import row_hashes
from distributary.registry.base import Schema

# Its types come in a package of their own.
Draft7Validator: Any = import_module("jsonschema").Draft7Validator
VERSIONS = (1, 2, 3, 4, 7, 8, 12)
POPULATION = Population(games=game_names(3), gamers=100)
# The formats that the pipeline can decode.
DECODED = [name for name in FORMATS if name in BUILT_IN]
OTHERS = [name for name in FORMATS if name != "protobuf"]


@cache
def maker(name: str, version: int) -> EventMaker:
    return EventMaker(version, POPULATION, 5, name)


@cache
def made(name: str, version: int, count: int = 300) -> Events:
    return maker(name, version).chunk(version, 0, count)


@cache
def avro_schema(version: int) -> Any:
    return parse_schema(json.loads(load_format("avro").schema_text(event_schema(version))))


@cache
def json_schema(version: int) -> Any:
    return Draft7Validator(json.loads(load_format("jsonschema").schema_text(event_schema(version))))


def avro(version: int, body: bytes) -> Any:
    """What fastavro reads, once it has used up all bytes."""
    source = BytesIO(body)
    found = schemaless_reader(
        source, parse_schema(json.loads(load_format("avro").schema_text(event_schema(version)))), None
    )
    assert source.read() == b""
    return found


def json_object(version: int, body: bytes) -> Any:
    found = json.loads(body)
    assert isinstance(found, dict)
    return found


def validated(version: int, body: bytes) -> Any:
    """What the json module reads, once JSON Schema finds nothing wrong with it."""
    found = json_object(version, body)
    json_schema(version).validate(found)
    return found


READERS: dict[str, Callable[[int, bytes], Any]] = {"avro": avro, "json": json_object, "jsonschema": validated}


def spoken(value: Any, kind: pa.DataType) -> Any:
    """A value from a column in what JSON has, without members that are null."""
    if value is None:
        return None
    if pa.types.is_struct(kind):
        members = {about.name: spoken(value[about.name], about.type) for about in kind}
        return {name: member for name, member in members.items() if member is not None}
    if pa.types.is_map(kind):
        return {name: spoken(item, kind.item_type) for name, item in value}
    if pa.types.is_list(kind):
        return [spoken(item, kind.value_type) for item in value]
    if pa.types.is_timestamp(kind):
        return value.astimezone(timezone.utc).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    return value


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: without_nulls(member) for name, member in value.items() if member is not None}
    return [without_nulls(item) for item in value] if isinstance(value, list) else value


def corrupted(name: str, kind: str) -> list[bytes]:
    wanted, rng = load_format(name), np.random.default_rng(1)
    return [wanted.corruptions[kind](rng, wanted.header(7), body) for body in made(name, 3, 50).bodies]


IN_THE_BODY = [
    (name, kind)
    for name in OTHERS
    for kind in load_format(name).corruptions
    if kind not in ("bad_magic", "truncated_header", "unknown_id")
]


def product_reader(name: str, version: int, bodies: pa.BinaryArray) -> Any:
    """The pipeline's own reader; where no schema is registered, with one that it inferred from these bodies."""
    wanted, codec = load_format(name), load_codec(name)
    if wanted.schema_type is not None:
        schema = Schema(7, wanted.schema_type, wanted.schema_text(event_schema(version)))
        return codec.reader(schema, codec.default_path)
    empty: Any = codec.reader(Schema(0, "JSON", '{"type": "struct", "fields": []}'), codec.default_path)
    return codec.reader(empty.grown(bodies), codec.default_path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", DECODED)
def test_the_pipeline_s_decoder_finds_the_rows(name: str, version: int) -> None:
    """Two ways that share nothing: the generator's own values, and its bytes read by the product's codec."""
    events = made(name, version, 1000)
    bodies = pa.array(events.bodies, pa.binary())
    decoded = product_reader(name, version, bodies).decode(bodies)
    assert not decoded.failures
    assert row_hashes(decoded.rows).tolist() == row_hashes(events.rows).tolist()


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, kind in IN_THE_BODY if name in DECODED])
def test_the_pipeline_s_decoder_accepts_nothing_corrupt(name: str, kind: str) -> None:
    header = load_format(name).header(7)
    good = pa.array(made(name, 3).bodies, pa.binary())
    broken = pa.array([value[len(header) :] for value in corrupted(name, kind)], pa.binary())
    assert len(product_reader(name, 3, good).decode(broken).failures) == len(broken)


@pytest.mark.parametrize("version", VERSIONS)
def test_fastavro_finds_the_rows(version: int) -> None:
    events = made("avro", version)
    for body, row in zip(events.bodies, events.rows.to_pylist(maps_as_pydicts="strict"), strict=True):
        assert avro(version, body) == row


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("name", ["json", "jsonschema"])
def test_the_json_module_finds_the_rows(name: str, version: int) -> None:
    events = made(name, version)
    kind = pa.struct(list(events.rows.schema))
    for body, row in zip(events.bodies, events.rows.to_pylist(), strict=True):
        assert without_nulls(READERS[name](version, body)) == spoken(row, kind)


@pytest.mark.parametrize("version", VERSIONS)
def test_avro_s_rows_are_protobuf_s(version: int) -> None:
    hashes = [row_hashes(made(name, version).rows).tolist() for name in ("protobuf", "avro")]
    assert hashes[0] == hashes[1]


@pytest.mark.parametrize("version", VERSIONS)
def test_json_schema_s_rows_are_protobuf_s_but_for_bytes(version: int) -> None:
    left_out = frozenset(field.name for field in event_schema(version).fields if field.type == "bytes")
    hashes = [row_hashes(made(name, version).rows, left_out).tolist() for name in ("protobuf", "jsonschema")]
    assert hashes[0] == hashes[1]
    assert pa.types.is_string(made("jsonschema", 8).rows.schema.field("col_v8").type)


def test_plain_json_s_columns_are_those_that_inference_finds() -> None:
    types = {about.name: about.type for about in made("json", 12).rows.schema}
    assert pa.types.is_struct(types["inventory"])
    assert {types["seen_v9"], types["col_v8"], types["platform"]} == {pa.string()}
    assert {types["level"], types["col_v9"]} == {pa.int32(), pa.int64()}
    assert types["col_v10"] == pa.float64()


@pytest.mark.parametrize("name", FORMATS)
def test_keys_and_ids_do_not_depend_on_the_format(name: str) -> None:
    events, others = made(name, 3), made("protobuf", 3)
    assert events.keys == others.keys
    assert events.rows["event_id"] == others.rows["event_id"]
    assert events.rows["score"] == others.rows["score"]


@pytest.mark.parametrize("name", OTHERS)
def test_an_event_without_its_game_keeps_the_rest(name: str) -> None:
    body = made(name, 12, 1).bodies[0]
    whole, rest = (READERS[name](12, found) for found in (body, maker(name, 12).without_game(body)))
    assert rest["game_name"] == ""
    assert rest == {**whole, "game_name": ""}


def test_an_absent_member_is_left_out_or_null_in_plain_json_alone() -> None:
    for name, expected in (("json", {True, False}), ("jsonschema", {False})):
        seasons = [json.loads(body) for body in made(name, 3, 1000).bodies]
        assert {"season" in found for found in seasons if found.get("season") is None} == expected


@pytest.mark.parametrize(("name", "kind"), IN_THE_BODY)
def test_the_reference_reader_accepts_nothing_corrupt(name: str, kind: str) -> None:
    header = load_format(name).header(7)
    for value in corrupted(name, kind):
        assert value.startswith(header)
        with pytest.raises((ValueError, EOFError, IndexError, AssertionError)):
            READERS[name](3, value[len(header) :])


@pytest.mark.parametrize("name", ["avro", "jsonschema"])
def test_broken_headers_name_no_schema(name: str) -> None:
    assert all(value[:1] == b"\x7f" and len(value) > 100 for value in corrupted(name, "bad_magic"))
    assert all(len(value) < 5 for value in corrupted(name, "truncated_header"))
    ids = {int.from_bytes(value[1:5], "big") for value in corrupted(name, "unknown_id")}
    assert ids == {*UNKNOWN_IDS}


@pytest.mark.parametrize("name", FORMATS)
def test_no_kind_has_the_name_of_events_without_a_game(name: str) -> None:
    assert NO_ENTITY not in load_format(name).corruptions


def test_longs_are_written_as_avro_has_them() -> None:
    edges = [0, -1, 1, 63, 64, -64, -65, 2**31 - 1, -(2**31), 2**63 - 1, -(2**63)]
    numbers = np.array(
        [*edges, *(s * 2**n + d for n in range(62) for s in (1, -1) for d in (-1, 0))], np.int64
    )
    assert [schemaless_reader(BytesIO(text), "long", None) for text in longs(numbers)] == numbers.tolist()
    assert longs(np.zeros(0, np.int64)) == []
