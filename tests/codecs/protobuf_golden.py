"""Records that Spark's own `from_protobuf` must decode like our decoders do, each with what it asks of that function.

Each record is of a small type of its own, so that what one version of Spark lacks does not hide the rest.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from google.protobuf import text_format
from tests.codecs.protobuf_samples import message_class, schema

from distributary.codecs.protobuf import ProtobufCodec, ProtobufReader

# Options of from_protobuf that came after Spark 3.4, by what a record needs them for.
ZEROS = "zeros are NULL without emit.default.values, which came with Spark 3.5"
UNSIGNED = "large unsigned numbers turn negative without upcast.unsigned.ints, which came with Spark 4.0"
EMPTY = "messages without fields are dropped without retain.empty.message.types, which came with Spark 4.0"

FILE = """syntax = "proto3"; package golden;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/wrappers.proto";
import "google/protobuf/empty.proto"; import "google/protobuf/field_mask.proto";
enum Colour { option allow_alias = true; RED = 0; BLUE = 1; AZURE = 1; NEGATIVE = -5; }
message Nothing {}
message Point { int32 x = 1; int32 y = 2; }
message Signed {
  double d = 1; float f = 2; int32 i32 = 3; int64 i64 = 4; sint32 s32 = 5; sint64 s64 = 6;
  sfixed32 sf32 = 7; sfixed64 sf64 = 8; bool b = 9; string s = 10; bytes by = 11; int32 far = 536870911;
}
message Unsigned { uint32 u32 = 1; uint64 u64 = 2; fixed32 f32 = 3; fixed64 f64 = 4; }
message Optional { optional int32 i = 1; optional string s = 2; optional bool b = 3; optional double d = 4; optional bytes by = 5; }
message Enums { Colour c = 1; repeated Colour many = 2; map<string, Colour> named = 3; optional Colour maybe = 4; }
message Choice { oneof one { int32 number = 1; string text = 2; Point point = 3; Colour colour = 4; google.protobuf.Timestamp at = 5; } }
message Lists {
  repeated int32 packed = 1; repeated int32 loose = 2 [packed = false]; repeated string texts = 3; repeated Point points = 4;
  repeated bytes blobs = 5; repeated double doubles = 6; repeated google.protobuf.Duration pauses = 7;
}
message Maps { map<string, int32> si = 1; map<int32, Point> ip = 2; map<bool, bytes> bb = 3; map<sfixed64, google.protobuf.Timestamp> ft = 4; }
message Nested { Point point = 1; message Deep { Point inner = 1; repeated Point inners = 2; string s = 3; } Deep deep = 2; }
message Times { google.protobuf.Timestamp at = 1; google.protobuf.Duration took = 2; repeated google.protobuf.Timestamp all = 3; }
message Wrappers {
  google.protobuf.Int32Value i = 1; google.protobuf.StringValue s = 2; google.protobuf.BoolValue b = 3;
  google.protobuf.DoubleValue d = 4; google.protobuf.BytesValue by = 5; google.protobuf.Int64Value l = 6;
  repeated google.protobuf.StringValue many = 7;
}
message UnsignedWrappers { google.protobuf.UInt32Value u32 = 1; google.protobuf.UInt64Value u64 = 2; }
message Mask { google.protobuf.FieldMask mask = 1; }
message Empties { Nothing nothing = 1; repeated Nothing many = 2; google.protobuf.Empty empty = 3; int32 n = 4; }
"""

FILE2 = """syntax = "proto2"; package golden2;
enum Size { SMALL = 1; LARGE = 2; }
message Two {
  required int32 needed = 1; optional string name = 2 [default = "none"]; optional Size size = 3 [default = LARGE];
  optional Size plain = 4; repeated int32 packed = 5 [packed = true]; optional bytes raw = 6 [default = "\\001x"];
  optional bool flag = 7; optional sint64 s = 8 [default = -7];
}"""


@dataclass(frozen=True, slots=True)
class Golden:
    """A record: its type, its fields in Protobuf's text format, and why some version of Spark cannot give it."""

    name: str
    kind: str
    fields: str
    needs: str = ""

    @property
    def text(self) -> str:
        """The .proto text that has the type."""
        return FILE if self.kind in _PLACES[FILE] else FILE2

    @property
    def payload(self) -> bytes:
        """The record's bytes, written by Protobuf's own library."""
        return bytes(self.message().SerializeToString())

    def message(self) -> Any:
        """The record as Protobuf's own library holds it."""
        package = "golden" if self.text is FILE else "golden2"
        return text_format.Parse(self.fields, message_class(self.text, f"{package}.{self.kind}")())

    @property
    def reader(self) -> ProtobufReader:
        """Our reader for the record's type."""
        return reader_of(self.text, self.kind)

    def decoded(self) -> list[dict[str, Any]]:
        """The row that our Arrow decoder gives."""
        decoded = self.reader.decode(pa.array([self.payload], pa.binary()))
        assert not decoded.failures
        return list(decoded.rows.to_pylist())


def reader_of(text: str, kind: str) -> ProtobufReader:
    """The reader for a top-level message of FILE or FILE2."""
    return ProtobufCodec().reader(schema(text), (_PLACES[text].index(kind),))


_PLACES = {
    FILE: [
        *("Nothing", "Point", "Signed", "Unsigned", "Optional", "Enums", "Choice", "Lists", "Maps", "Nested"),
        *("Times", "Wrappers", "UnsignedWrappers", "Mask", "Empties"),
    ],
    FILE2: ["Two"],
}

_SIGNED = "d: {d} f: {f} i32: {i32} i64: {i64} s32: {i32} s64: {i64} sf32: {i32} sf64: {i64} b: true s: 'ä\\U0001F600' by: '\\377' far: {i32}"

GOLDEN = (
    Golden(
        "signed numbers at their lower ends",
        "Signed",
        _SIGNED.format(d="-1.7976931348623157e308", f="-3.4e38", i32=-(2**31), i64=-(2**63)),
    ),
    Golden(
        "signed numbers at their upper ends",
        "Signed",
        _SIGNED.format(d="5e-324", f="1e-45", i32=2**31 - 1, i64=2**63 - 1),
    ),
    Golden("infinities", "Signed", _SIGNED.format(d="inf", f="-inf", i32=1, i64=-1)),
    Golden("zeros that nobody sent", "Signed", "", ZEROS),
    Golden("some numbers sent, others zero", "Signed", "i32: 5 s: 'x'", ZEROS),
    Golden(
        "unsigned numbers that fit signed ones",
        "Unsigned",
        "u32: 1 u64: 2 f32: 2147483647 f64: 9223372036854775807",
    ),
    Golden(
        "unsigned numbers at their ends",
        "Unsigned",
        "u32: 4294967295 u64: 18446744073709551615 f32: 4294967295 f64: 18446744073709551615",
        UNSIGNED,
    ),
    Golden("optional fields set to zero", "Optional", "i: 0 s: '' b: false d: 0 by: ''"),
    Golden("optional fields not set", "Optional", ""),
    Golden(
        "enums by name, number and alias",
        "Enums",
        "c: BLUE many: [RED, AZURE, NEGATIVE, 77] named {key: 'k' value: NEGATIVE} maybe: RED",
    ),
    Golden("an enum's number that the schema lacks", "Enums", "c: 99"),
    Golden("an enum's zero that nobody sent", "Enums", "many: [RED]", ZEROS),
    Golden("a oneof's number, zero", "Choice", "number: 0"),
    Golden("a oneof's text", "Choice", "text: 'x'"),
    Golden("a oneof's message", "Choice", "point {x: 1 y: 2}"),
    Golden("a oneof's enum", "Choice", "colour: NEGATIVE"),
    Golden("a oneof's time", "Choice", "at {seconds: 5 nanos: 1}"),
    Golden("no member of a oneof", "Choice", ""),
    Golden(
        "lists",
        "Lists",
        "packed: [1, -1, 0] loose: [0, 7] texts: ['', 'x'] points: [{x: 1 y: 2}, {x: -3 y: -4}] blobs: ['', '\\000'] "
        "doubles: [0, -1.5] pauses: [{seconds: -1 nanos: -1500}, {seconds: 1 nanos: 1}]",
    ),
    Golden("lists of messages with zeros in them", "Lists", "points: [{}, {x: 1}]", ZEROS),
    Golden("empty lists", "Lists", ""),
    Golden(
        "maps",
        "Maps",
        "si {key: 'a' value: 1} ip {key: -1 value {x: 1 y: 2}} bb {key: true value: '\\001'} "
        "ft {key: -9223372036854775808 value {seconds: -1 nanos: 999999000}}",
    ),
    Golden(
        "maps with zeros as keys and values", "Maps", "si {key: '' value: 0} ip {key: 0 value {x: 1 y: 1}}"
    ),
    Golden("empty maps", "Maps", ""),
    Golden(
        "messages in messages",
        "Nested",
        "point {x: 1 y: 2} deep {inner {x: 3 y: 4} inners: [{x: 5 y: 6}] s: 'x'}",
    ),
    Golden("messages not set", "Nested", ""),
    Golden("a message set, with nothing in it", "Nested", "point {}", ZEROS),
    Golden(
        "times at the ends of their range",
        "Times",
        "at {seconds: -62135596800 nanos: 1} took {seconds: 315576000000 nanos: 999999999} "
        "all: [{seconds: 253402300799 nanos: 999999999}, {seconds: -1 nanos: 1999}]",
    ),
    Golden("the epoch", "Times", "at {} took {} all: [{}]", ZEROS),
    Golden(
        "wrappers",
        "Wrappers",
        "i {value: -1} s {value: 'x'} b {value: true} d {value: 1.5} by {value: '\\000'} l {value: 7} many: [{value: 'a'}]",
    ),
    Golden("wrappers around zeros", "Wrappers", "i {} s {} b {} d {} by {} l {} many: [{}]", ZEROS),
    Golden("wrappers not set", "Wrappers", ""),
    Golden("unsigned wrappers that fit signed numbers", "UnsignedWrappers", "u32 {value: 1} u64 {value: 2}"),
    Golden(
        "unsigned wrappers at their ends",
        "UnsignedWrappers",
        "u32 {value: 4294967295} u64 {value: 18446744073709551615}",
        UNSIGNED,
    ),
    Golden("a field mask", "Mask", "mask {paths: 'a.b' paths: 'c'}"),
    Golden("messages without fields", "Empties", "nothing {} many: [{}, {}] empty {} n: 1", EMPTY),
    Golden("messages without fields, not set", "Empties", "n: 1", EMPTY),
    Golden(
        "proto2, all set",
        "Two",
        "needed: 1 name: '' size: SMALL plain: LARGE packed: [1, 2] raw: '' flag: false s: 0",
    ),
    Golden("proto2, defaults for what is absent", "Two", "needed: -5"),
)
