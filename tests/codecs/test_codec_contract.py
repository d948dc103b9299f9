"""What every codec keeps, by both of its decoders: the built-in ones, and one of another package that the docs show.

Golden records are on the wire as Confluent's own serializers put them there, into the registry that comes with them.
"""

from __future__ import annotations

import json
import pickle
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from tests.codecs.contract_records import EVENT, EVENTS, rows_by_spark
from tests.codecs.contract_shapes import (
    BODY,
    COLOUR,
    PROTO,
    Field,
    Record,
    avro_schema,
    fill,
    json_schema,
    json_value,
    plain,
    protobuf_message,
    samples,
    schema_of,
)
from tests.codecs.protobuf_samples import message_class
from tests.examples import examples

from distributary.codecs.base import BUILT_IN, INFERRED, Codec, RecordPath, RecordReader, load_codec
from distributary.codecs.wire.header import NO_USABLE_HEADER, TOMBSTONE, bodies
from distributary.errors import BadSchema
from distributary.registry.base import Schema

# Each codec with each format that it decodes.
CODECS = [
    ("avro", "avro"),
    ("json", "json"),
    ("jsonschema", "jsonschema"),
    ("protobuf", "protobuf"),
    ("pipe", "pipe"),
    *(("auto", format_) for format_ in ("avro", "json", "jsonschema", "protobuf")),
]
EACH = pytest.mark.parametrize(("name", "format_"), CODECS, ids=lambda part: part)

LINE = Record((Field("game", "text"), Field("score", "text")))


LINES = [{"game": "chess", "score": "1200"}, {"game": "", "score": "ä"}]

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "a-format-of-your-own.md"


@pytest.fixture(scope="module", autouse=True)
def own_codec(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The codec that the docs show how to write, installed as a package with its entry point."""
    folder = tmp_path_factory.mktemp("pipe")
    blocks = dict(re.findall(r"```(python|toml)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    (folder / "pipe_codec.py").write_text(blocks["python"], encoding="utf-8")
    about = folder / "pipe_codec-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pipe-codec\nVersion: 1.0\n")
    entry = blocks["toml"].replace('[project.entry-points."distributary.codecs"]', "[distributary.codecs]")
    (about / "entry_points.txt").write_text(entry.replace('"', ""))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(folder))
        yield
    sys.modules.pop("pipe_codec", None)


def codec_of(name: str, schema: Schema) -> Codec:
    return load_codec(name).knowing({schema.id: schema.type})


def golden(format_: str) -> tuple[Record, list[dict[str, Any]]]:
    return (LINE, LINES) if format_ == "pipe" else (EVENT, EVENTS)


def on_the_wire(format_: str) -> tuple[Schema, RecordPath, list[bytes]]:
    """The golden records' values, the schema that they name, and the record's path in it."""
    record, rows = golden(format_)
    client = SchemaRegistryClient.new_client({"url": "mock://"})
    context = SerializationContext("events", MessageField.VALUE)
    if format_ == "avro":
        write = AvroSerializer(client, json.dumps(avro_schema(record)))
        return _registered(client, (), [write(row, context) for row in rows])
    if format_ == "jsonschema":
        write = JSONSerializer(json.dumps({"title": "Event", **json_schema(record)}), client)
        return _registered(client, (), [write(json_value(record, row), context) for row in rows])
    if format_ == "protobuf":
        return _by_protobuf_serializer(client, context)
    schema, path = schema_of(format_, record)
    header = b"\0\0\0\0\x07" if format_ == "pipe" else b""
    return schema, path, [header + BODY[format_](record, row) for row in rows]


def _by_protobuf_serializer(
    client: SchemaRegistryClient, context: SerializationContext
) -> tuple[Schema, RecordPath, list[bytes]]:
    """The event is the second message in the second one of its file, its enum in a file of another subject."""
    colours = f'syntax = "proto3"; package contract; {COLOUR}'
    around = f"message First {{}} message Around {{ message Inner {{}} {protobuf_message(EVENT, 'Event')} }}"
    text = f'{PROTO} import "colours.proto"; {around}'
    kind = message_class(text, "contract.Around.Event", {"colours.proto": colours})
    messages = [kind() for _ in EVENTS]
    for message, row in zip(messages, EVENTS, strict=True):
        fill(message, EVENT, row)
    write = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    return _registered(client, (1, 1), [write(message, context) for message in messages])


def _registered(
    client: SchemaRegistryClient, path: RecordPath, values: list[bytes]
) -> tuple[Schema, RecordPath, list[bytes]]:
    id_ = int.from_bytes(values[0][1:5], "big")
    held: Any = client.get_schema(id_)
    imports: dict[str, str] = {}
    for one in held.references or ():
        imported: Any = client.get_version(one.subject, one.version)
        imports[one.name] = imported.schema.schema_str
    return Schema(id_, held.schema_type, held.schema_str, imports=imports), path, values


def check_account(reader: RecordReader, payloads: pa.BinaryArray) -> dict[int, Any]:
    """The rows by the payload they came from, held to what the seam says of every result."""
    decoded = reader.decode(payloads)
    decoded.rows.validate(full=True)
    assert decoded.rows.schema == reader.schema
    assert all(field.nullable for field in reader.schema)
    source, failed = decoded.source.tolist(), [failure.row for failure in decoded.failures]
    assert source == sorted(source) and len(source) == decoded.rows.num_rows
    assert sorted([*source, *failed]) == list(range(len(payloads)))
    assert decoded.rescued is None or len(decoded.rescued) == len(source)
    return dict(zip(source, decoded.rows.to_pylist(), strict=True))


@EACH
def test_golden_records_are_split_and_decoded(name: str, format_: str) -> None:
    record, rows = golden(format_)
    schema, path, values = on_the_wire(format_)
    codec = codec_of(name, schema)
    taken = [value for value in values for _ in range(9)]  # enough for the fast ways to be taken
    frames = codec.split(pa.array([*taken, None, b"\x7f"], pa.binary()), None)
    raw = format_ == "json"
    named = [frames.kinds[kind] if kind >= 0 else kind for kind in frames.kind.tolist()]
    ours = (INFERRED, ()) if raw else (schema.id, path)
    # Where no record names a schema, whatever is there is a body.
    assert named == [ours] * len(taken) + [TOMBSTONE, ours if name == "json" else NO_USABLE_HEADER]
    payloads = bodies(pa.array(taken, pa.binary()), codec.split(pa.array(taken, pa.binary()), None))
    reader = codec.reader(pickle.loads(pickle.dumps(schema)), path)  # noqa: S301
    found = check_account(reader, payloads)
    assert [plain(record, row) for row in found.values()] == [row for row in rows for _ in range(9)]


@EACH
@settings(max_examples=examples(13), suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_records_of_random_types_are_decoded_field_by_field(
    name: str, format_: str, data: st.DataObject
) -> None:
    record, rows = data.draw(samples(format_))
    schema, path = schema_of(format_, record)
    reader = codec_of(name, schema).reader(schema, path)
    payloads = [BODY[format_](record, row) for row in rows]
    found = check_account(reader, pa.array(payloads, pa.binary()))
    assert [plain(record, row) for row in found.values()] == rows
    # Broken records, of whatever kind, change nothing for their neighbours.
    spoilt = list(payloads)
    for _ in range(data.draw(st.integers(1, 3))):
        place, cut = data.draw(st.integers(0, len(rows) - 1)), data.draw(st.integers(0, 20))
        spoilt[place] = spoilt[place][:cut] + data.draw(st.binary(max_size=4)) + spoilt[place][cut + 1 :]
    sliced = pa.array([b"", *spoilt, b""], pa.binary()).slice(1, len(spoilt))
    found = check_account(reader, sliced)
    for place, payload in enumerate(spoilt):
        if payload == payloads[place]:
            assert plain(record, found[place]) == rows[place]
        else:
            alone = check_account(reader, pa.array([payload], pa.binary()))
            assert str(alone.get(0)) == str(found.get(place))


@EACH
def test_no_payload_at_all_is_an_empty_batch(name: str, format_: str) -> None:
    schema, path = schema_of(format_, golden(format_)[0])
    reader = codec_of(name, schema).reader(schema, path)
    assert not check_account(reader, pa.array([], pa.binary()))


@EACH
@pytest.mark.parametrize("text", ["", "[]", "no schema at all {"])
def test_what_is_no_schema_is_refused(name: str, format_: str, text: str) -> None:
    schema, path = schema_of(format_, golden(format_)[0])
    with pytest.raises(BadSchema):
        codec_of(name, schema).reader(Schema(1, schema.type, text), path)


# Spark knows no difference between codecs that decode one format.
BY_SPARK = [format_ for name, format_ in CODECS if name != "auto"]


@pytest.mark.spark
@pytest.mark.usefixtures("compiled")
@pytest.mark.parametrize("format_", BY_SPARK)
def test_golden_records_are_the_same_by_sparks_own_function(spark: SparkSession, format_: str) -> None:
    record, rows = golden(format_)
    schema, path = schema_of(format_, record)
    reader = codec_of(format_, schema).reader(schema, path)
    found = rows_by_spark(spark, reader, [BODY[format_](record, row) for row in rows])
    assert [plain(record, row) for row in found] == rows


@pytest.mark.spark
@pytest.mark.parametrize("format_", [format_ for format_ in BY_SPARK if format_ != "pipe"])
@settings(max_examples=5, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_random_records_are_the_same_by_sparks_own_function(
    spark: SparkSession, format_: str, data: st.DataObject
) -> None:
    record, rows = data.draw(samples(format_))
    schema, path = schema_of(format_, record)
    reader = codec_of(format_, schema).reader(schema, path)
    found = rows_by_spark(spark, reader, [BODY[format_](record, row) for row in rows])
    assert [plain(record, row) for row in found] == rows


def test_every_built_in_codec_is_held_to_this() -> None:
    assert {name for name, _ in CODECS} == {*BUILT_IN, "pipe"}
