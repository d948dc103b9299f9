"""A schema with one of everything, random messages of it, and what each field should become, by independent rules."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

import pyarrow as pa
from google.protobuf import json_format
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from hypothesis import strategies as st

from distributary.registry.base import Schema
from distributary.registry.protobuf.text import compile_text

WELL_KNOWN = "".join(
    f'import "google/protobuf/{name}.proto";'
    for name in ("timestamp", "duration", "wrappers", "any", "struct", "empty", "field_mask")
)

RICH = f"""syntax = "proto3"; package rich; {WELL_KNOWN}
enum Colour {{ option allow_alias = true; RED = 0; BLUE = 1; AZURE = 1; NEGATIVE = -5; }}
message Nothing {{}}
message Chain {{ int32 v = 1; Chain next = 2; }}
message Inner {{
  int32 a = 1; string s = 2; optional int64 o = 3; repeated Colour colours = 4; Nothing nothing = 5;
  uint64 big = 6; google.protobuf.Timestamp ts = 7; map<string, int64> counts = 8;
  oneof one {{ string left = 9; Chain right = 10; }}
}}
message Rich {{
  double d = 1; float f = 2; int32 i32 = 3; int64 i64 = 4; uint32 u32 = 5; uint64 u64 = 6; sint32 s32 = 7;
  sint64 s64 = 8; fixed32 f32 = 9; fixed64 f64 = 10; sfixed32 sf32 = 11; sfixed64 sf64 = 12; bool b = 13;
  string s = 14; bytes by = 15; Colour c = 16;
  optional int32 oi = 17; optional string os = 18; optional uint64 ou = 19; optional Colour oc = 20;
  oneof choice {{ int32 pick_i = 21; string pick_s = 22; Inner pick_m = 23; Colour pick_c = 24;
                 google.protobuf.Struct pick_j = 25; Nothing pick_n = 26; google.protobuf.Timestamp pick_t = 27; }}
  map<string, int32> m_si = 31; map<uint64, Inner> m_um = 32; map<bool, Colour> m_bc = 33;
  map<int32, google.protobuf.Timestamp> m_it = 34; map<string, google.protobuf.UInt64Value> m_sw = 35;
  map<string, Chain> m_sj = 36; map<sfixed32, bytes> m_xb = 37; map<string, Nothing> m_sn = 38;
  Inner inner = 41; repeated Inner inners = 42; repeated Colour colours = 43; repeated uint64 u64s = 44;
  repeated string strings = 45; repeated double doubles = 46; repeated bytes blobs = 47;
  google.protobuf.Timestamp ts = 51; google.protobuf.Duration du = 52; repeated google.protobuf.Timestamp tss = 53;
  google.protobuf.Int32Value wi = 54; google.protobuf.UInt64Value wu = 55; google.protobuf.StringValue ws = 56;
  google.protobuf.BoolValue wb = 57; google.protobuf.DoubleValue wd = 58; google.protobuf.BytesValue wy = 59;
  repeated google.protobuf.StringValue wss = 60; repeated google.protobuf.Duration dus = 61;
  google.protobuf.UInt32Value wu32 = 62;
  google.protobuf.Any any = 71; google.protobuf.Struct struct = 72; Chain chain = 73; repeated Chain chains = 74;
  google.protobuf.Value value = 75; repeated google.protobuf.Any anys = 76;
  Nothing nothing = 81; repeated Nothing nothings = 82; google.protobuf.Empty empty = 83;
  google.protobuf.FieldMask mask = 84; int32 far = 536870911;
}}"""

RICH_PATH = (3,)


def schema(text: str, id_: int = 1) -> Schema:
    return Schema(id_, "PROTOBUF", text)


def descriptor(text: str, name: str, imports: Mapping[str, str] | None = None) -> Descriptor:
    pool = DescriptorPool()
    for file in FileDescriptorSet.FromString(compile_text(text, imports)).file:
        pool.Add(file)
    return pool.FindMessageTypeByName(name)


def message_class(text: str, name: str, imports: Mapping[str, str] | None = None) -> Any:
    return GetMessageClass(descriptor(text, name, imports))


_NUMBERS: dict[int, st.SearchStrategy[Any]] = {
    FieldDescriptor.CPPTYPE_INT32: st.integers(-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_INT64: st.integers(-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT32: st.integers(0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_UINT64: st.integers(0, 2**64 - 1),
    FieldDescriptor.CPPTYPE_DOUBLE: st.floats(allow_nan=False),
    FieldDescriptor.CPPTYPE_FLOAT: st.floats(allow_nan=False, width=32),
    FieldDescriptor.CPPTYPE_BOOL: st.booleans(),
    FieldDescriptor.CPPTYPE_ENUM: st.sampled_from([0, 1, -5, 77]),
}
_TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)


def _scalar(field: FieldDescriptor) -> st.SearchStrategy[Any]:
    if field.type == FieldDescriptor.TYPE_STRING:
        return _TEXT
    return st.binary(max_size=5) if field.type == FieldDescriptor.TYPE_BYTES else _NUMBERS[field.cpp_type]


@st.composite
def messages(draw: st.DrawFn, kind: Descriptor, depth: int = 0) -> Any:
    """A random message with a random subset of its fields set."""
    message: Any = GetMessageClass(kind)()
    name = kind.full_name
    if name == "google.protobuf.Timestamp":
        message.seconds = draw(st.integers(-62_135_596_800, 253_402_300_799))
        message.nanos = draw(st.integers(0, 999_999_999))
        return message
    if name == "google.protobuf.Duration":
        message.seconds = draw(st.integers(-315_576_000_000, 315_576_000_000))
        message.nanos = draw(st.integers(0, 999_999_999)) * (-1 if message.seconds < 0 else 1)
        return message
    if name == "google.protobuf.Any":
        message.type_url = draw(st.sampled_from(["", "x/unknown.Type"]))
        message.value = draw(st.binary(max_size=4))
        return message
    if name == "google.protobuf.Struct":
        message.update({draw(_TEXT): draw(st.none() | st.booleans() | _TEXT)})
        return message
    if name == "google.protobuf.Value":
        message.string_value = draw(_TEXT)
        return message
    fields = (
        draw(st.lists(st.sampled_from(list(kind.fields)), max_size=12, unique=True)) if kind.fields else []
    )
    for field in fields:
        _fill(draw, message, field, depth)
    return message


def _fill(draw: st.DrawFn, message: Any, field: FieldDescriptor, depth: int) -> None:
    entry = field.message_type
    if entry is not None and depth > 3:
        return
    if entry is not None and entry.GetOptions().map_entry:
        target, value = getattr(message, field.name), entry.fields_by_name["value"]
        for key in draw(st.lists(_scalar(entry.fields_by_name["key"]), max_size=3, unique=True)):
            if value.message_type is None:
                target[key] = draw(_scalar(value))
            else:
                target[key].MergeFrom(draw(messages(value.message_type, depth + 1)))
                target[key].SetInParent()
    elif field.is_repeated:
        one = _scalar(field) if entry is None else messages(entry, depth + 1)
        getattr(message, field.name).extend(draw(st.lists(one, max_size=3)))
    elif entry is None:
        setattr(message, field.name, draw(_scalar(field)))
    else:
        getattr(message, field.name).MergeFrom(draw(messages(entry, depth + 1)))
        getattr(message, field.name).SetInParent()


def expected(message: Any) -> dict[str, Any]:
    """The row a message should become, read off its fields through Protobuf's own Python interface."""
    kind = message.DESCRIPTOR
    row = {field.name: _expected_field(message, field) for field in kind.fields}
    extensions = kind.file.pool.FindAllExtensions(kind)
    return row | {field.full_name: _expected_field(message, field) for field in extensions}


def _is_set(message: Any, field: FieldDescriptor) -> bool:
    return bool(message.HasExtension(field) if field.is_extension else message.HasField(field.name))


def _expected_field(message: Any, field: FieldDescriptor) -> Any:
    value = message.Extensions[field] if field.is_extension else getattr(message, field.name)
    entry = field.message_type
    if entry is not None and entry.GetOptions().map_entry:
        item = entry.fields_by_name["value"]
        return {key: _expected_one(item, value[key]) for key in value}
    if field.is_repeated:
        return [_expected_one(field, one) for one in value]
    if field.has_presence and not _is_set(message, field) and not field.has_default_value:
        return None
    return _expected_one(field, value)


def _expected_one(field: FieldDescriptor, value: Any) -> Any:  # noqa: PLR0911
    if field.enum_type is not None:
        return {number.number: number.name for number in reversed(field.enum_type.values)}.get(
            value, str(value)
        )
    if field.type in (FieldDescriptor.TYPE_UINT64, FieldDescriptor.TYPE_FIXED64):
        return Decimal(value)
    if field.message_type is None:
        return value
    name = field.message_type.full_name
    if name in ("google.protobuf.Timestamp", "google.protobuf.Duration"):
        return value.seconds * 10**6 + (abs(value.nanos) // 1000) * (1 if value.nanos >= 0 else -1)
    if (
        name.startswith("google.protobuf.")
        and name.endswith("Value")
        and name
        not in (
            "google.protobuf.Value",
            "google.protobuf.ListValue",
        )
    ):
        return Decimal(value.value) if "UInt64" in name else value.value
    if name == "google.protobuf.Any":
        return {"@type": value.type_url, "value": base64.b64encode(value.value).decode()}
    if name in ("google.protobuf.Struct", "google.protobuf.Value") or name.endswith(".Chain"):
        return json_format.MessageToDict(value, preserving_proto_field_name=True)
    return expected(value) if field.message_type.fields else True


def comparable(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows as plain Python: times as microseconds, maps as dicts, JSON text parsed where a JSON document is expected."""
    return [_plain(rows.schema, row) for row in rows.to_pylist()]


def _plain(fields: Any, row: dict[str, Any]) -> dict[str, Any]:
    return {field.name: _plain_value(field.name, field.type, row[field.name]) for field in fields}


_JSON_NAMES = {"any", "anys", "struct", "chain", "chains", "value", "m_sj", "pick_j", "right"}


def _plain_value(name: str, kind: pa.DataType, value: Any) -> Any:
    if value is None:
        return None
    if pa.types.is_map(kind):
        assert len({key for key, _ in value}) == len(value)
        return {_key(key): _plain_value(name, kind.item_type, item) for key, item in value}
    if pa.types.is_list(kind):
        return [_plain_value(name, kind.value_type, one) for one in value]
    if pa.types.is_struct(kind):
        return _plain(kind, value)
    if pa.types.is_timestamp(kind):
        return pa.scalar(value, kind).value
    return json.loads(value) if name in _JSON_NAMES and isinstance(value, str) else value


def _key(key: Any) -> Any:
    return int(key) if isinstance(key, Decimal) else key


def varint(value: int) -> bytes:
    """A number as Protobuf writes it, in groups of seven bits."""
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


def part(number: int, body: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(body)) + body


def otherwise(payload: bytes, dice: random.Random) -> bytes:
    """The same message as nobody writes it, and everybody has to read it: its fields in another order, their numbers with idle groups of bits."""
    fields: dict[int, list[bytes]] = {}
    at = 0
    while at < len(payload):
        key, at = _varint_at(payload, at)
        wire, begin = key & 7, at
        if wire == 0:
            value, at = _varint_at(payload, at)
            body = _padded(value, dice)
        elif wire == 2:
            size, at = _varint_at(payload, at)
            body = _padded(size, dice) + payload[at : at + size]
            at += size
        else:
            at += 8 if wire == 1 else 4
            body = payload[begin:at]
        fields.setdefault(key >> 3, []).append(varint(key) + body)
    groups = list(fields.values())
    dice.shuffle(groups)
    return b"".join(one for group in groups for one in group)


def _varint_at(payload: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = payload[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, at


def _padded(value: int, dice: random.Random) -> bytes:
    """A varint of up to five bytes, which is as many as a size may have, or as long as it has to be."""
    plain = bytearray(varint(value))
    for _ in range(dice.randrange(max(6 - len(plain), 1))):
        plain[-1] |= 0x80
        plain.append(0)
    return bytes(plain)
