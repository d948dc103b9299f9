"""A game event and how it grows: the fields, the columns and the Protobuf schema of version 1, 2, 3 and so on.

Every version only adds to the one before it, so each is BACKWARD compatible. Versions 2 and 3 together bring
a plain field, a nested message, a repeated field, a map, an enum and a oneof; each version from 4 on adds a
plain field, one of the other kinds in rotation, and a field inside a message that was there already.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any

import pyarrow as pa

PACKAGE = "games"
RECORD = "GameEvent"
TIMESTAMP = "google.protobuf.Timestamp"

PLAIN_KINDS = ("int64", "string", "double", "bool", "bytes", "uint32", "float")
NESTED_KINDS = ("message", "repeated", "map", "enum", "oneof", "timestamp")

ARROW_TYPES: dict[str, pa.DataType] = {
    "string": pa.string(),
    "bytes": pa.binary(),
    "bool": pa.bool_(),
    "int32": pa.int32(),
    "int64": pa.int64(),
    "uint32": pa.int64(),  # Delta has no unsigned types: the pipeline widens
    "float": pa.float32(),
    "double": pa.float64(),
    TIMESTAMP: pa.timestamp("us", tz="UTC"),
}


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a message, spelled as in a .proto file: `label type name = number`.

    since  the version that brought it
    alias  what the versions before called it
    """

    name: str
    type: str
    label: str = ""
    oneof: str = ""
    number: int = 0
    since: int = 1
    alias: str = ""

    @property
    def is_map(self) -> bool:
        """Whether it is a map; all keys are text."""
        return self.type.startswith("map<")

    @property
    def value_type(self) -> str:
        """The type of a map's values."""
        return self.type.removeprefix("map<string, ").removesuffix(">")


@dataclass(frozen=True, slots=True)
class EventSchema:
    """One version of the event: its messages in the order of the text, the record first, and its enums."""

    version: int
    record: str
    messages: dict[str, tuple[Field, ...]]
    enums: dict[str, tuple[str, ...]]

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the record itself."""
        return self.messages[self.record]


# What each type of event has from version 1 on beside what all of them have.
EVENT_TYPES: Mapping[str, tuple[Field, ...]] = {
    RECORD: (),
    "PurchaseEvent": (Field("sku", "string"), Field("price_cents", "int64"), Field("receipt", "Receipt")),
    "SessionEvent": (Field("client", "string"), Field("ping_ms", "int32"), Field("is_final", "bool")),
    "ChatEvent": (Field("channel", "string"), Field("words", "string", "repeated")),
    "MatchEvent": (Field("map_name", "string"), Field("points", "map<string, int64>")),
}
# The messages that only some types of event have.
OWN_MESSAGES: Mapping[str, tuple[Field, ...]] = {
    "Receipt": (Field("store", "string"), Field("discount", "double")),
}


@lru_cache(maxsize=256)
def event_schema(version: int, record: str = RECORD) -> EventSchema:
    """An event of this type, one of `EVENT_TYPES`, at this version (1, 2, ...)."""
    messages, enums = _first_messages(EVENT_TYPES[record]), dict[str, tuple[str, ...]]()
    for number in range(2, version + 1):
        before = {name: len(fields) for name, fields in messages.items()}
        _grow(number, messages, enums)
        for name, fields in messages.items():
            known = before.get(name, 0)
            fields[known:] = [replace(field, since=number) for field in fields[known:]]
    named = {record if name == RECORD else name: _numbered(fields) for name, fields in messages.items()}
    return EventSchema(version, record, named, enums)


def schema_text(version: int) -> str:
    """The .proto text of this version; the same text for the same version, always."""
    return proto_text(event_schema(version))


def proto_text(schema: EventSchema) -> str:
    """The .proto text of a schema."""
    imports = ['import "google/protobuf/timestamp.proto";', ""] if _uses_timestamp(schema) else []
    lines = ['syntax = "proto3";', "", f"package {PACKAGE};", "", *imports]
    for name, fields in schema.messages.items():
        lines += [f"message {name} {{", *_declarations(fields), "}", ""]
    for name, symbols in schema.enums.items():
        lines += [f"enum {name} {{", *(f"  {symbol} = {i};" for i, symbol in enumerate(symbols)), "}", ""]
    return "\n".join(lines)


def arrow_schema(version: int) -> pa.Schema:
    """The columns a correct reader finds in events of this version: enums by name, every field nullable."""
    schema = event_schema(version)
    return pa.schema([(field.name, arrow_type(field, schema)) for field in schema.fields])


def typed_column(
    field: Field, values: Sequence[Any], schema: EventSchema, types: Mapping[str, pa.DataType] = ARROW_TYPES
) -> pa.Array:
    """Values of a field in a column of its type, and last a null."""
    pairs = [list(value.items()) for value in values] if field.is_map else list(values)
    return pa.array([*pairs, None], arrow_type(field, schema, types))


def arrow_type(
    field: Field, schema: EventSchema, types: Mapping[str, pa.DataType] = ARROW_TYPES
) -> pa.DataType:
    """The type of a field's column, where `types` says what becomes of scalars."""
    if field.is_map:
        return pa.map_(types["string"], types[field.value_type])
    found = _single_type(field.type, schema, types)
    return pa.list_(found) if field.label == "repeated" else found


def _numbered(fields: Sequence[Field]) -> tuple[Field, ...]:
    return tuple(replace(field, number=number) for number, field in enumerate(fields, start=1))


def _first_messages(own: Sequence[Field]) -> dict[str, list[Field]]:
    record = [
        Field("event_id", "string"),
        Field("game_name", "string"),
        Field("gamer_id", "string"),
        Field("event_timestamp", "int64"),
        Field("event_type", "string"),
        Field("level", "int32"),
        Field("score", "int64"),
        Field("duration_s", "double"),
        Field("premium", "bool"),
        Field("device", "string"),
        Field("country", "string"),
        Field("position", "Position"),
        Field("tags", "string", "repeated"),
        Field("inventory", "map<string, int32>"),
        *own,
    ]
    messages = {RECORD: record, "Position": [Field(axis, "double") for axis in "xyz"]}
    return messages | {
        field.type: list(OWN_MESSAGES[field.type]) for field in own if field.type in OWN_MESSAGES
    }


def _grow(version: int, messages: dict[str, list[Field]], enums: dict[str, tuple[str, ...]]) -> None:
    """Adds to `messages` and `enums` what this version brings."""
    record = messages[RECORD]
    if version == 2:
        record.append(Field("season", "string", "optional"))
        record.append(Field("guild", "Guild"))
        record.append(Field("achievements", "string", "repeated"))
        messages["Guild"] = [Field("name", "string"), Field("members", "int32")]
    elif version == 3:
        record.append(Field("wallet", "map<string, int64>"))
        record.append(Field("platform", "Platform"))
        record.append(Field("coins", "int64", oneof="reward"))
        record.append(Field("item", "string", oneof="reward"))
        enums["Platform"] = ("PLATFORM_UNSPECIFIED", "IOS", "ANDROID", "PC", "CONSOLE")
    else:
        record.append(Field(f"col_v{version}", PLAIN_KINDS[(version - 4) % len(PLAIN_KINDS)]))
        _grow_nested(version, messages, enums)
        if version % 2 == 0:
            messages["Position"].append(Field(f"drift_v{version}", "double"))
        else:
            messages["Guild"].append(Field(f"motto_v{version}", "string", "optional"))


def _grow_nested(version: int, messages: dict[str, list[Field]], enums: dict[str, tuple[str, ...]]) -> None:
    record, kind = messages[RECORD], NESTED_KINDS[(version - 4) % len(NESTED_KINDS)]
    if kind == "message":
        record.append(Field(f"stats_v{version}", f"StatsV{version}"))
        messages[f"StatsV{version}"] = [Field("kills", "int32"), Field("accuracy", "float", "optional")]
    elif kind == "repeated":
        record.append(Field(f"samples_v{version}", f"SampleV{version}", "repeated"))
        messages[f"SampleV{version}"] = [Field("at_ms", "int64"), Field("value", "double")]
    elif kind == "map":
        record.append(Field(f"labels_v{version}", "map<string, string>"))
    elif kind == "enum":
        record.append(Field(f"mode_v{version}", f"ModeV{version}"))
        enums[f"ModeV{version}"] = tuple(f"V{version}_{name}" for name in ("UNSPECIFIED", "SOLO", "TEAM"))
    elif kind == "oneof":
        record.append(Field(f"bonus_points_v{version}", "int32", oneof=f"bonus_v{version}"))
        record.append(Field(f"bonus_name_v{version}", "string", oneof=f"bonus_v{version}"))
    else:
        record.append(Field(f"seen_v{version}", TIMESTAMP))


def _declarations(fields: tuple[Field, ...]) -> Iterator[str]:
    """The lines of a message's body; the members of a oneof are neighbours."""
    for oneof, members in groupby(fields, key=lambda field: field.oneof):
        indent = "    " if oneof else "  "
        if oneof:
            yield f"  oneof {oneof} {{"
        for field in members:
            label = f"{field.label} " if field.label else ""
            yield f"{indent}{label}{field.type} {field.name} = {field.number};"
        if oneof:
            yield "  }"


def _single_type(name: str, schema: EventSchema, types: Mapping[str, pa.DataType]) -> pa.DataType:
    if name in schema.enums:
        return types["string"]
    if name in schema.messages:
        return pa.struct([(field.name, arrow_type(field, schema, types)) for field in schema.messages[name]])
    return types[name]


def _uses_timestamp(schema: EventSchema) -> bool:
    return any(field.type == TIMESTAMP for fields in schema.messages.values() for field in fields)
