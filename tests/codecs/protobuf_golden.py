"""Records that Spark's own `from_protobuf` must decode like our decoders do, each with what it asks of that function.

Each record is of a small type of its own, so that what one version of Spark lacks does not hide the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
from google.protobuf import text_format
from google.protobuf.descriptor import Descriptor
from tests.codecs.protobuf_samples import descriptor, message_class, schema

from distributary.codecs.protobuf.codec import ProtobufCodec, ProtobufReader

# Options of from_protobuf that came after Spark 3.4, by what a record needs them for.
ZEROS = "zeros are NULL without emit.default.values, which came with Spark 3.5"
UNSIGNED = "large unsigned numbers turn negative without upcast.unsigned.ints, which came with Spark 4.0"
EMPTY = "messages without fields are dropped without retain.empty.message.types, which came with Spark 4.0"
JSON = "JSON text is this project's own form of Any, Struct and recursive messages, which from_protobuf does not give"

FILE = """syntax = "proto3"; package golden;
import "google/protobuf/timestamp.proto"; import "google/protobuf/duration.proto"; import "google/protobuf/wrappers.proto";
import "google/protobuf/empty.proto"; import "google/protobuf/field_mask.proto"; import "google/protobuf/any.proto";
import "google/protobuf/struct.proto";
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
message Keys {
  map<int32, int32> i32 = 1; map<int64, int32> i64 = 2; map<uint32, int32> u32 = 3; map<uint64, int32> u64 = 4;
  map<sint32, int32> s32 = 5; map<sint64, int32> s64 = 6; map<fixed32, int32> f32 = 7; map<fixed64, int32> f64 = 8;
  map<sfixed32, int32> sf32 = 9; map<sfixed64, int32> sf64 = 10; map<bool, int32> b = 11; map<string, int32> s = 12;
}
message Packed {
  repeated double d = 1; repeated float f = 2; repeated int32 i32 = 3; repeated sint64 s64 = 4; repeated fixed32 f32 = 5;
  repeated sfixed64 sf64 = 6; repeated bool b = 7; repeated Colour c = 8; repeated uint64 u64 = 9;
}
message Loose {
  repeated double d = 1 [packed = false]; repeated float f = 2 [packed = false]; repeated int32 i32 = 3 [packed = false];
  repeated sint64 s64 = 4 [packed = false]; repeated fixed32 f32 = 5 [packed = false]; repeated sfixed64 sf64 = 6 [packed = false];
  repeated bool b = 7 [packed = false]; repeated Colour c = 8 [packed = false]; repeated uint64 u64 = 9 [packed = false];
}
message Chain { int32 v = 1; Chain next = 2; map<string, Chain> named = 3; }
message Json {
  google.protobuf.Any any = 1; repeated google.protobuf.Any anys = 2; google.protobuf.Struct struct = 3;
  google.protobuf.Value value = 4; Chain chain = 5; repeated Chain chains = 6; map<string, Chain> m_sj = 7;
  oneof one { int32 left = 8; Chain right = 9; }
}
message Outer { message Middle { message Inmost { string deep = 1; optional Outer.Sibling sibling = 2; } } message Sibling { int64 n = 1; } }
"""

FILE2 = """syntax = "proto2"; package golden2;
enum Size { SMALL = 1; LARGE = 2; } enum Mode { OFF = 0; ON = 1; }
message Two {
  required int32 needed = 1; optional string name = 2 [default = "none"]; optional Size size = 3 [default = LARGE];
  optional Size plain = 4; repeated int32 packed = 5 [packed = true]; optional bytes raw = 6 [default = "\\001x"];
  optional bool flag = 7; optional sint64 s = 8 [default = -7]; repeated Size sizes = 9; map<string, Mode> modes = 10;
}
message Newer { optional int32 size = 3; optional int32 plain = 4; repeated int32 sizes = 9; map<string, int32> modes = 10; }
message Groups {
  optional group Deep = 1 { optional int32 x = 1 [default = 9]; repeated group Item = 2 { optional string s = 3; } }
  repeated group Many = 4 { optional Size size = 5; } oneof one { group Arm = 6 { optional int32 a = 1; } string text = 8; }
}
message Extended { optional int32 n = 1; extensions 100 to 199; }
extend Extended { optional string more = 100; repeated Size sizes = 101 [packed = true]; optional Two two = 102; }
message Scope { extend Extended { optional sint32 more = 103 [default = -3]; } }
"""

FILE3 = """edition = "2023"; package golden3;
enum Open { ZERO = 0; ONE = 1; }
enum Closed { option features.enum_type = CLOSED; NONE = 0; FIRST = 1; SECOND = 2; }
message Inner { int32 x = 1; }
message Edition {
  int32 explicit = 1; int32 implicit = 2 [features.field_presence = IMPLICIT]; int32 needed = 3 [features.field_presence = LEGACY_REQUIRED];
  repeated int32 expanded = 4 [features.repeated_field_encoding = EXPANDED]; repeated int32 packed = 5; string text = 6 [default = "none"];
  Open open = 7; Closed closed = 8; Inner inner = 9; oneof one { int32 number = 10; Inner arm = 11; } map<string, Closed> closeds = 12;
}
message Delimited { Inner inner = 1 [features.message_encoding = DELIMITED]; repeated Inner inners = 2 [features.message_encoding = DELIMITED]; }
"""


@dataclass(frozen=True, slots=True)
class Golden:
    """A record: its type, its fields in Protobuf's text format, and why some version of Spark cannot give it.

    writer  the type that it was written with, if another
    unlike  columns whose value is another than Protobuf's own Python interface gives
    """

    name: str
    kind: str
    fields: str
    needs: str = ""
    writer: str = ""
    unlike: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """The .proto text that has the type."""
        return next(text for text in (FILE, FILE2, FILE3) if f"message {self.kind.split('.')[0]} " in text)

    @property
    def payload(self) -> bytes:
        """The record's bytes, written by Protobuf's own library."""
        sent = text_format.Parse(self.fields, self._class(self.writer or self.kind)())
        return bytes(sent.SerializePartialToString())

    def message(self) -> Any:
        """The record as Protobuf's own library reads it."""
        return self._class(self.kind).FromString(self.payload)

    def _class(self, kind: str) -> Any:
        return message_class(self.text, f"{_package(self.text)}.{kind}")

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
    """The reader for a message of one of the files, such as `Outer.Middle`."""
    return ProtobufCodec().reader(schema(text), path_of(descriptor(text, f"{_package(text)}.{kind}")))


def path_of(message: Descriptor) -> tuple[int, ...]:
    """The message's index in its file, level by level."""
    around = message.containing_type
    level = list(around.nested_types if around else message.file.message_types_by_name.values())
    own = next(place for place, one in enumerate(level) if one.full_name == message.full_name)
    return (*(path_of(around) if around else ()), own)


def _package(text: str) -> str:
    return text.split("package ", 1)[1].split(";", 1)[0]


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
    Golden("proto2, what is required is missing", "Two", "name: 'x'"),
    Golden(
        "proto2, numbers that its enums lack",
        "Two",
        "size: 7 plain: -9 sizes: [1, 8, 2] modes {key: 'k' value: 9}",
        writer="Newer",
        unlike={"size": "7", "plain": "-9", "sizes": ["SMALL", "8", "LARGE"], "modes": {"k": "9"}},
    ),
    Golden(
        "groups",
        "Groups",
        "Deep {x: 1 Item {s: 'a'} Item {}} Many {size: LARGE} Many {} Arm {a: 0}",
    ),
    Golden("groups not set, a oneof's other member", "Groups", "Deep {} text: ''"),
    Golden(
        "extensions",
        "Extended",
        "n: 1 [golden2.more]: 'x' [golden2.sizes]: [SMALL, LARGE] [golden2.two] {needed: 2} [golden2.Scope.more]: 5",
    ),
    Golden("extensions not set", "Extended", ""),
    Golden(
        "an edition's fields",
        "Edition",
        "explicit: 0 implicit: 5 needed: 3 expanded: [1, 2] packed: [0, 3] text: '' open: ONE closed: SECOND inner {x: 1} "
        "arm {x: 7} closeds {key: 'k' value: FIRST}",
    ),
    Golden("an edition's fields, not set", "Edition", "needed: 0", ZEROS),
    Golden("an edition's delimited messages", "Delimited", "inner {x: 1} inners {x: 2} inners {}"),
    *(
        Golden(
            f"numbers that are {how}, to a schema that says otherwise",
            kind,
            "d: [1.5, 0] f: [-2, 0] i32: [-1, 0, 300] s64: [-5, 5] f32: [7] sf64: [-8, 0] b: [true, false] "
            "c: [BLUE, RED] u64: [1, 300]",
            writer=writer,
        )
        for how, kind, writer in (("packed", "Loose", "Packed"), ("unpacked", "Packed", "Loose"))
    ),
    Golden(
        "maps by every type of key",
        "Keys",
        " ".join(
            f"{name} {{key: {key} value: 1}} {name} {{key: {other} value: -2}}"
            for name, key, other in (
                *((name, -(2**31), 2**31 - 1) for name in ("i32", "s32", "sf32")),
                *((name, -(2**63), 2**63 - 1) for name in ("i64", "s64", "sf64")),
                *((name, 0, 2**31 - 1) for name in ("u32", "f32")),
                *((name, 0, 2**63 - 1) for name in ("u64", "f64")),
                ("b", "false", "true"),
                ("s", "''", "'ä'"),
            )
        ),
    ),
    Golden(
        "maps by unsigned keys at their ends",
        "Keys",
        " ".join(
            f"{name} {{key: {2**bits - 1} value: 1}}"
            for name, bits in (("u32", 32), ("u64", 64), ("f32", 32), ("f64", 64))
        ),
        UNSIGNED,
    ),
    Golden(
        "what becomes JSON text",
        "Json",
        "any {type_url: 'x/unknown.T' value: '\\001'} anys {} struct {fields {key: 'a' value {bool_value: true}}} "
        "value {string_value: 'x'} chain {v: 1 next {v: 2 named {key: 'k' value {v: 3}}}} chains {v: 4} chains {} "
        "m_sj {key: 'k' value {v: 5}} right {v: 6}",
        JSON,
    ),
    Golden("what becomes JSON text, not set", "Json", "left: 1", JSON),
    Golden("a message at the third level", "Outer.Middle.Inmost", "deep: 'x' sibling {n: 5}"),
    Golden("a message's later sibling", "Outer.Sibling", "n: -5"),
)
