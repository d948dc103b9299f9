"""What a version of an event is made of: its fields, messages and enums, and the columns that a correct reader finds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

PACKAGE = "games"

TIMESTAMP = "google.protobuf.Timestamp"

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

    label  empty, `optional`, `repeated` or `required`; proto3 has no word for the last
    since  the version that brought it
    alias  what the versions before called it
    rare   whether most events leave it out
    """

    name: str
    type: str
    label: str = ""
    oneof: str = ""
    number: int = 0
    since: int = 1
    alias: str = ""
    rare: bool = False

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
    """One version of the event: its messages in the order of the text, the record first, and its enums.

    gone    fields that versions before had, by message: their numbers and names are not to be used again
    former  what versions before called the record
    """

    version: int
    record: str
    messages: Mapping[str, tuple[Field, ...]]
    enums: Mapping[str, tuple[str, ...]]
    gone: Mapping[str, tuple[Field, ...]] = field(default_factory=dict)
    former: tuple[str, ...] = ()

    @property
    def type(self) -> str:
        """The type of event: what its first version calls the record."""
        return self.former[0] if self.former else self.record

    @property
    def fields(self) -> tuple[Field, ...]:
        """The fields of the record itself."""
        return self.messages[self.record]

    @property
    def parts(self) -> tuple[str, ...]:
        """The messages inside of the record; none of them has another one inside."""
        return tuple(name for name in self.messages if name != self.record)


def columns(schema: EventSchema, types: Mapping[str, pa.DataType] = ARROW_TYPES) -> pa.Schema:
    """The columns of a schema's events, where `types` says what becomes of scalars: every field is nullable."""
    return pa.schema([(each.name, arrow_type(each, schema, types)) for each in schema.fields])


def typed_column(
    about: Field, values: Sequence[Any], schema: EventSchema, types: Mapping[str, pa.DataType] = ARROW_TYPES
) -> pa.Array:
    """Values of a field in a column of its type, and last a null."""
    pairs = (
        [None if value is None else list(value.items()) for value in values] if about.is_map else list(values)
    )
    return pa.array([*pairs, None], arrow_type(about, schema, types))


def arrow_type(
    about: Field, schema: EventSchema, types: Mapping[str, pa.DataType] = ARROW_TYPES
) -> pa.DataType:
    """The type of a field's column, where `types` says what becomes of scalars."""
    if about.is_map:
        return pa.map_(types["string"], _single_type(about.value_type, schema, types))
    found = _single_type(about.type, schema, types)
    return pa.list_(found) if about.label == "repeated" else found


def _single_type(name: str, schema: EventSchema, types: Mapping[str, pa.DataType]) -> pa.DataType:
    if name in schema.enums:
        return types["string"]
    if name in schema.messages:
        return pa.struct([(each.name, arrow_type(each, schema, types)) for each in schema.messages[name]])
    return types[name]
