"""A registry that was wiped may give another schema for an id whose columns are the same by chance: only its bytes differ."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from distributary.codecs.base import CodecName, Enveloped, load_codec, validating
from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.schemas.known import same_columns
from distributary.ingest.schemas.pinned import PinsStore
from distributary.registry.base import Reference, Schema, SchemaType


def avro(field: Any) -> Schema:
    return Schema(7, "AVRO", json.dumps(record("E", f=field)))


def record(name: str, **fields: Any) -> dict[str, Any]:
    return {
        "type": "record",
        "name": name,
        "fields": [{"name": key, "type": of} for key, of in fields.items()],
    }


def enum(*symbols: str) -> dict[str, Any]:
    return {"type": "enum", "name": "Colour", "symbols": symbols}


def time(unit: str) -> dict[str, str]:
    return {"type": "long", "logicalType": f"timestamp-{unit}"}


def envelope(field: Any) -> Schema:
    row = record("Row", f=field)
    source = record("Source", lsn="long")
    return Schema(
        7,
        "AVRO",
        json.dumps(record("E", before=["null", row], after=["null", "Row"], source=source, op="string")),
    )


def protobuf(body: str, *others: str) -> Schema:
    return Schema(7, "PROTOBUF", f'syntax = "proto3"; message E {{ {body} }} {" ".join(others)}')


def kept_as(codec: CodecName, tmp_path: Path, pinned: Schema, offered: Schema) -> None:
    made = load_codec(codec)
    checkpoint, key = Checkpoint.at(tmp_path), (7, made.default_path)
    PinsStore(checkpoint).write(key, pinned)
    PinsStore(checkpoint, same_columns(made)).write(key, offered)


NODE = "message Node {{ Node next = 1; int32 a = {}; int32 b = {}; }}"

ANY = 'import "google/protobuf/any.proto"; message E {{ google.protobuf.Any a = 1; }} message Held {{ {} }}'


def with_any(body: str, nested: str = "") -> Schema:
    return Schema(7, "PROTOBUF", f'syntax = "proto3"; {ANY.format(body)} message In {{ {nested} }}')


HELD = 'syntax = "proto3"; message Other { int32 a = 1; }'


def imported(kind: SchemaType, text: str, name: str, its: str) -> Schema:
    return Schema(7, kind, text, (Reference(name, name, 1),), {name: its})


OTHERS = {
    "symbols": ("avro", avro(enum("RED", "BLUE")), avro(enum("BLUE", "RED"))),
    "units": ("avro", avro(time("millis")), avro(time("micros"))),
    "branches": ("avro", avro(["null", "long"]), avro(["long", "null"])),
    "in an envelope": (
        Enveloped("avro", "debezium"),
        envelope(enum("RED", "BLUE")),
        envelope(enum("BLUE", "RED")),
    ),
    "numbers": ("protobuf", protobuf("int32 a = 1; int32 b = 2;"), protobuf("int32 a = 2; int32 b = 1;")),
    "scalars": ("protobuf", protobuf("int32 a = 1;"), protobuf("sint32 a = 1;")),
    "keys": ("protobuf", protobuf("map<int32, int32> a = 1;"), protobuf("map<sint32, int32> a = 1;")),
    "names": (
        "protobuf",
        protobuf("C c = 1;", "enum C { A = 0; B = 1; }"),
        protobuf("C c = 1;", "enum C { B = 0; A = 1; }"),
    ),
    "within JSON text": (
        "protobuf",
        protobuf("Node n = 1;", NODE.format(2, 3)),
        protobuf("Node n = 1;", NODE.format(3, 2)),
    ),
    "within an Any": (
        "protobuf",
        with_any("int32 a = 1; int32 b = 2;"),
        with_any("int32 a = 2; int32 b = 1;"),
    ),
    "nested within an Any": (
        "protobuf",
        with_any("", "message X { int32 a = 1; }"),
        with_any("", "message X { sint32 a = 1; }"),
    ),
    "within an Any, imported": (
        "protobuf",
        imported("PROTOBUF", f'syntax = "proto3"; import "c.proto"; {ANY.format("")}', "c.proto", HELD),
        imported(
            "PROTOBUF",
            f'syntax = "proto3"; import "c.proto"; {ANY.format("")}',
            "c.proto",
            HELD.replace("int32", "sint32"),
        ),
    ),
    "numbers in Glue": (
        "glue/protobuf",
        protobuf("int32 a = 1; int32 b = 2;"),
        protobuf("int32 a = 2; int32 b = 1;"),
    ),
    "formats": (
        "auto",
        Schema(7, "AVRO", json.dumps(record("E", f="long"))),
        Schema(7, "PROTOBUF", 'syntax = "proto3"; message E { int64 f = 1; }'),
    ),
    "numbers among other formats": (
        "auto",
        protobuf("int32 a = 1; int32 b = 2;"),
        protobuf("int32 a = 2; int32 b = 1;"),
    ),
}


@pytest.mark.parametrize(("codec", "pinned", "offered"), OTHERS.values(), ids=OTHERS)
def test_another_schema_with_the_same_columns_is_refused(
    tmp_path: Path, codec: CodecName, pinned: Schema, offered: Schema
) -> None:
    with pytest.raises(CheckpointMismatch, match="another schema for 7"):
        kept_as(codec, tmp_path, pinned, offered)


REWORDED = {
    "inlined": (
        "avro",
        imported("AVRO", json.dumps(record("E", f="Colour")), "Colour", json.dumps(enum("RED", "BLUE"))),
        avro(enum("RED", "BLUE")),
    ),
    "without words": (
        "avro",
        avro({**enum("RED", "BLUE"), "doc": "of paint", "aliases": ["Paint"]}),
        avro(enum("RED", "BLUE")),
    ),
    "in an envelope": (
        Enveloped("avro", "debezium"),
        envelope({**enum("RED", "BLUE"), "doc": "of paint"}),
        envelope(enum("RED", "BLUE")),
    ),
    "without options": (
        "protobuf",
        protobuf(
            "C c = 1; Node n = 2;",
            "enum C { A = 0; B = 1; }",
            NODE.format(2, 3),
            'option java_package = "e";',
        ),
        protobuf("C c = 1; Node n = 2;", NODE.format(2, 3), "enum C { A = 0; B = 1; }"),
    ),
    "in one file": (
        "auto",
        imported(
            "PROTOBUF",
            'syntax = "proto3"; import "c.proto"; message E { C c = 1; }',
            "c.proto",
            'syntax = "proto3"; enum C { A = 0; B = 1; }',
        ),
        protobuf("C c = 1;", "enum C { A = 0; B = 1; }"),
    ),
    "in Glue": (
        "glue/protobuf",
        protobuf("F f = 1;", "message F { int32 a = 1; }"),
        Schema(
            7,
            "PROTOBUF",
            'syntax = "proto3"; message E { F f = 1; } message F { int32 a = 1; } option java_package = "e";',
        ),
    ),
    "titles": (
        "jsonschema",
        Schema(
            7,
            "JSON",
            '{"type": "object", "title": "E", "properties": {"a": {"type": "string", "description": "b"}}}',
        ),
        Schema(7, "JSON", '{"type": "object", "title": "E", "properties": {"a": {"type": "string"}}}'),
    ),
}


@pytest.mark.parametrize(("codec", "pinned", "offered"), REWORDED.values(), ids=REWORDED)
def test_the_same_schema_in_other_words_is_taken(
    tmp_path: Path, codec: CodecName, pinned: Schema, offered: Schema
) -> None:
    kept_as(codec, tmp_path, pinned, offered)


def held_to(**demanded: Any) -> Schema:
    of = {"type": "object", "title": "E", "properties": {"a": {"type": "integer", **demanded}}}
    return Schema(7, "JSON", json.dumps(of))


def kept_where_all_is_checked(tmp_path: Path, pinned: Schema, offered: Schema) -> None:
    made = validating(load_codec("jsonschema"))
    checkpoint, key = Checkpoint.at(tmp_path), (7, made.default_path)
    PinsStore(checkpoint).write(key, pinned)
    PinsStore(checkpoint, same_columns(made)).write(key, offered)


IMPORTING = '{"type": "object", "title": "E", "properties": {"a": {"type": "integer"}}, "allOf": [{"$ref": "r.json"}]}'


@pytest.mark.parametrize(
    ("pinned", "offered"),
    [
        (held_to(minimum=1), held_to(minimum=2)),
        (held_to(minimum=1), held_to()),
        (held_to(const=1), held_to(const=True)),
        (held_to(enum=[{"title": "a"}]), held_to(enum=[{"title": "b"}])),
        (
            imported("JSON", IMPORTING, "r.json", '{"required": ["a"]}'),
            imported("JSON", IMPORTING, "r.json", '{"required": ["b"]}'),
        ),
    ],
)
def test_a_json_schema_that_demands_something_else_is_another_where_records_are_held_to_it(
    tmp_path: Path, pinned: Schema, offered: Schema
) -> None:
    kept_as("jsonschema", tmp_path / "types", pinned, offered)
    with pytest.raises(CheckpointMismatch, match="another schema for 7"):
        kept_where_all_is_checked(tmp_path / "schema", pinned, offered)


def test_words_for_people_and_how_a_number_is_written_demand_nothing(tmp_path: Path) -> None:
    properties = {"title": {"type": "integer", "minimum": 1, "description": "of a"}}
    pinned = {"type": "object", "title": "E", "$comment": "c", "properties": properties}
    offered = {"properties": {"title": {"minimum": 1.0, "type": "integer"}}, "title": "E", "type": "object"}
    kept_where_all_is_checked(
        tmp_path, Schema(7, "JSON", json.dumps(pinned)), Schema(7, "JSON", json.dumps(offered))
    )
    with pytest.raises(CheckpointMismatch):
        kept_where_all_is_checked(
            tmp_path / "other",
            Schema(7, "JSON", json.dumps(pinned)),
            Schema(7, "JSON", json.dumps(offered).replace("1.0", "1.5")),
        )
