"""What Spark's `from_protobuf` makes of a message by its options, read off the message through Protobuf's own Python interface.

By the rules of SchemaConverters and ProtobufDeserializer of spark-protobuf 4.1, independently of the decoders.
"""

from __future__ import annotations

import base64
import json
from collections import Counter
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor

CUT = object()
EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_WRAPPERS = ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
_UNSIGNED = {
    FieldDescriptor.TYPE_UINT32: 32,
    FieldDescriptor.TYPE_FIXED32: 32,
    FieldDescriptor.TYPE_UINT64: 64,
    FieldDescriptor.TYPE_FIXED64: 64,
}


@dataclass(frozen=True, slots=True)
class Json:
    """What a text says that is JSON."""

    value: Any


def rows_are(rows: pa.RecordBatch, wanted: list[dict[str, Any]]) -> bool:
    """Whether rows are what `from_protobuf_row` wants of each."""
    found = rows.to_pylist()
    return len(found) == len(wanted) and all(map(_is, found, wanted))


def _is(found: Any, wanted: Any) -> bool:
    if isinstance(wanted, Json):
        return bool(json.loads(found) == wanted.value)
    if isinstance(wanted, dict):
        items = dict(found)
        return items.keys() == wanted.keys() and all(_is(items[name], wanted[name]) for name in wanted)
    if isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(_is, found, wanted))
    if isinstance(found, datetime):
        found -= EPOCH
    if isinstance(found, timedelta):
        found //= timedelta(microseconds=1)
    # Minus zero is not zero here.
    return bool(found == wanted and str(found) == str(wanted))


def from_protobuf_row(message: Any, options: dict[str, Any]) -> dict[str, Any]:
    """The row of a message; `options` are those given, such as `{"enums.as.ints": True}`."""
    return _Rules(options).row(message, Counter())


class _Rules:
    def __init__(self, options: dict[str, Any]) -> None:
        self.on = {name for name, value in options.items() if value is True}
        self.depth = options.get("recursive.fields.max.depth", -1)

    def row(self, message: Any, around: Counter[str]) -> dict[str, Any]:
        inside = around + Counter([message.DESCRIPTOR.full_name])
        values = {field: self.field(message, field, inside) for field in message.DESCRIPTOR.fields}
        return {field.name: value for field, value in values.items() if value is not CUT}

    def field(self, message: Any, field: FieldDescriptor, around: Counter[str]) -> Any:
        entry = (
            field.message_type if field.message_type and field.message_type.GetOptions().map_entry else None
        )
        item = entry.fields_by_name["value"] if entry else field
        if not self.has_column(item, around):
            return CUT
        value = getattr(message, field.name)
        if entry:
            keys = entry.fields_by_name["key"]
            return {self.one(keys, key, around): self.one(item, value[key], around) for key in value}
        if field.is_repeated:
            return [self.one(field, one, around) for one in value]
        there = field.has_default_value or (
            message.HasField(field.name) if field.has_presence else self.zeros or _is_written(message, field)
        )
        return self.one(field, value, around) if there else None

    @property
    def zeros(self) -> bool:
        return "emit.default.values" in self.on

    def has_column(self, field: FieldDescriptor, around: Counter[str]) -> bool:
        kind = field.message_type
        if kind is None or self.is_plain(kind):
            return True
        if self.depth > 0 and around[kind.full_name] >= self.depth:
            return False
        inside = around + Counter([kind.full_name])
        items = [_item(inner) for inner in kind.fields]
        return "retain.empty.message.types" in self.on or any(self.has_column(one, inside) for one in items)

    def is_plain(self, kind: Descriptor) -> bool:
        name = kind.full_name
        return (
            name in ("google.protobuf.Timestamp", "google.protobuf.Duration")
            or (_is_wrapper(name) and "unwrap.primitive.wrapper.types" in self.on)
            or (name == "google.protobuf.Any" and "convert.any.fields.to.json" in self.on)
            or (self.depth < 1 and _contains_itself(kind))
        )

    def one(self, field: FieldDescriptor, value: Any, around: Counter[str]) -> Any:
        if field.message_type is None:
            return self.number(field, value) if field.enum_type is None else self.enum(field, value)
        name = field.message_type.full_name
        if name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
            return value.seconds * 10**6 + (abs(value.nanos) // 1000) * (1 if value.nanos >= 0 else -1)
        if not self.is_plain(field.message_type):
            return self.row(value, around) or {"__dummy_field_in_empty_struct": None}
        if _is_wrapper(name):
            inner = value.DESCRIPTOR.fields[0]
            return self.number(inner, value.value) if self.zeros or _is_written(value, inner) else None
        if name == "google.protobuf.Any":
            return Json({"@type": value.type_url, "value": base64.b64encode(value.value).decode()})
        numbers = "enums.as.ints" in self.on
        return Json(
            json_format.MessageToDict(value, preserving_proto_field_name=True, use_integers_for_enums=numbers)
        )

    def enum(self, field: FieldDescriptor, value: int) -> Any:
        values = field.enum_type.values if field.enum_type else []
        names = {number.number: number.name for number in reversed(values)}
        return value if "enums.as.ints" in self.on else names.get(value, str(value))

    def number(self, field: FieldDescriptor, value: Any) -> Any:
        bits = _UNSIGNED.get(field.type)
        if bits is None:
            return value
        if "upcast.unsigned.ints" in self.on and field.type == FieldDescriptor.TYPE_UINT64:
            return Decimal(value)
        if "upcast.unsigned.ints" in self.on and field.type == FieldDescriptor.TYPE_UINT32:
            return value
        return value - (1 << bits) if value >= 1 << (bits - 1) else value


def _item(field: FieldDescriptor) -> FieldDescriptor:
    is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
    return field.message_type.fields_by_name["value"] if is_map and field.message_type else field


def _is_wrapper(name: str) -> bool:
    return name in {f"google.protobuf.{one}Value" for one in _WRAPPERS}


def _is_written(message: Any, field: FieldDescriptor) -> bool:
    return field in [written for written, _ in message.ListFields()]


def _contains_itself(kind: Descriptor) -> bool:
    seen: set[str] = set()
    waiting = [kind]
    while waiting:
        for inner in (field.message_type for field in waiting.pop().fields):
            if inner is not None and inner.full_name not in seen:
                seen.add(inner.full_name)
                waiting.append(inner)
    return kind.full_name in seen
