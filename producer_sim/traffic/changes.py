"""What a producer can do to an event's schema besides letting it grow: a function for each class of change.

Each makes the next version of a schema, whose `version` is its own number already. What a format cannot say, or a schema has
nothing left for, is a ConfigError.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import get_args

from distributary.codecs.changes.classify import ChangeClass
from distributary.errors import ConfigError
from distributary.producer_sim.events.model import EventSchema, Field
from distributary.producer_sim.formats.base import load_format

CHANGES: tuple[ChangeClass, ...] = get_args(ChangeClass)

# As what a record is written from the version on that switches its format, by what it was written as.
SWITCHED: Mapping[str, str] = {"protobuf": "avro", "avro": "protobuf", "jsonschema": "avro"}

# JSON tells whole numbers from others, and nothing else. Every integer is a number to it, though not every one a double.
WIDER: Mapping[str, tuple[str, str]] = {
    "protobuf": ("int32", "int64"),
    "avro": ("int32", "int64"),
    "jsonschema": ("int32", "double"),
    "json": ("int32", "double"),
}

NARROWER: Mapping[str, tuple[tuple[str, str], ...]] = {
    "protobuf": (("int64", "int32"), ("double", "float")),
    "avro": (("int64", "int32"), ("double", "float")),
    "jsonschema": (("double", "int32"),),
}

# Which fields change, by message; the record itself has no name here, for it may be called anything.
RECORD = ""

WIDENED = {RECORD: ("level", "inventory"), "Guild": ("members",), "Base": ("height",)}

NARROWED = {RECORD: ("score", "duration_s", "wallet"), "Position": ("y",)}

DROPPED = {RECORD: ("device",), "Position": ("z",)}

RENAMED = {RECORD: {"tags": "badges"}, "Position": {"x": "east"}}

OPTIONAL = "event_type"

# What is visible in records that name no schema.
JSON_CHANGES: tuple[ChangeClass, ...] = (
    "added",
    "widened",
    "changed",
    "dropped",
    "made_optional",
    "made_required",
)

_NO_ONEOF = "only Protobuf has a oneof; choose added"

# What a format cannot say, and what to choose instead.
CANNOT: Mapping[str, Mapping[ChangeClass, str]] = {
    "protobuf": dict.fromkeys(
        ("made_required", "made_optional"),
        "proto3 knows nothing that is required; choose writing.format avro or jsonschema",
    ),
    "avro": {"oneof_arm_added": _NO_ONEOF},
    "jsonschema": {
        "oneof_arm_added": _NO_ONEOF,
        "renamed": "JSON Schema has neither numbers nor aliases, by which a field keeps its identity; "
        "choose dropped and added",
    },
    "json": dict.fromkeys(
        (change for change in CHANGES if change not in JSON_CHANGES),
        "plain JSON has no schema that could say so; choose another format",
    ),
}

Change = Callable[[EventSchema, str], EventSchema]


def changed_schema(change: ChangeClass, before: EventSchema, format_name: str) -> EventSchema:
    """The version after `before`, which this change makes in a format. Raises ConfigError."""
    why_not = CANNOT.get(format_name, {}).get(change)
    if why_not:
        raise ConfigError(f"{change}: {why_not}")
    after = STEPS[change](replace(before, version=before.version + 1), format_name)
    if change != "format_switched" and replace(after, version=before.version) == before:
        raise ConfigError(f"{change}: version {before.version} has nothing left to change so; leave it out")
    return after


def _added(schema: EventSchema, format_name: str) -> EventSchema:
    """A field of the record, one of a message inside; then one in a list's elements and in a map's values."""
    new = f"v{schema.version}"
    schema = _with(schema, RECORD, Field(f"extra_{new}", "string", "optional"))
    schema = _with(schema, "Position", Field(f"tilt_{new}", "double"))
    if "Quest" in schema.messages:
        schema = _with(schema, "Quest", Field(f"note_{new}", "string", "optional"))
        more = Field(f"flags_{new}", "int64", "optional")
        return _with(schema, "Base", more) if "Base" in schema.messages else schema
    quest = (Field("title", "string"), Field("done", "bool"))
    base = (Field("label", "string"), Field("height", "int32"))
    parts = {"Quest": quest, "Base": base}
    if load_format(format_name).infers:  # to whom a map is a struct with a field for each key
        del parts["Base"]
    schema = replace(schema, messages={**schema.messages, **dict.fromkeys(parts, ())})
    for part, fields in parts.items():
        schema = _with(schema, part, *fields)
    schema = _with(schema, RECORD, Field("quests", "Quest", "repeated"))
    return _with(schema, RECORD, Field("bases", "map<string, Base>")) if "Base" in parts else schema


def _widened(schema: EventSchema, format_name: str) -> EventSchema:
    ways = [WIDER[format_name]]
    if load_format(format_name).infers:
        return _retyped(schema, WIDENED, ways)
    return _retyped(schema, WIDENED, [*ways, *_of_maps(ways)])


def _narrowed(schema: EventSchema, format_name: str) -> EventSchema:
    ways = NARROWER[format_name]
    return _retyped(schema, NARROWED, [*ways, *_of_maps(ways)])


def _changed(schema: EventSchema, format_name: str) -> EventSchema:
    """A text becomes a message, a boolean a text; most events leave them out.

    To a reader that infers an object is a text like any other, if the text is what it knows: there it stays one.
    """
    infers = load_format(format_name).infers

    def change(field: Field) -> Field:
        if field.name == "country" and field.type == "string" and not infers:
            return replace(field, type="Country", rare=True)
        if field.name == "premium" and field.type == "bool":
            return replace(field, type="string", label="optional", rare=True)
        return field

    after = _mapped(schema, RECORD, change)
    if "Country" not in {field.type for field in after.fields} - {*schema.messages}:
        return after
    after = replace(after, messages={**after.messages, "Country": ()})
    return _with(after, "Country", Field("code", "string"), Field("area", "int32"))


def _dropped(schema: EventSchema, format_name: str) -> EventSchema:
    for message, names in DROPPED.items():
        name = message or schema.record
        fields = schema.messages[name]
        gone = [field for field in fields if field.name in names]
        kept = tuple(field for field in fields if field.name not in names)
        schema = replace(
            schema,
            messages={**schema.messages, name: kept},
            gone={**schema.gone, name: (*schema.gone.get(name, ()), *gone)} if gone else schema.gone,
        )
    return schema


def _renamed(schema: EventSchema, format_name: str) -> EventSchema:
    for message, names in RENAMED.items():
        schema = _mapped(
            schema,
            message,
            lambda field, names=names: (  # type: ignore[misc]
                replace(field, name=names[field.name], alias=field.name) if field.name in names else field
            ),
        )
    return schema


def _made_optional(schema: EventSchema, format_name: str) -> EventSchema:
    return _mapped(
        schema,
        RECORD,
        lambda field: replace(field, label="optional") if field.name == OPTIONAL else field,
    )


def _made_required(schema: EventSchema, format_name: str) -> EventSchema:
    optional = [field.name for field in schema.fields if field.label == "optional" and not field.rare]
    if not optional:
        raise _lacking(
            "made_required", schema, "optional field", "evolution.versions: 2, or with made_optional"
        )
    return _mapped(
        schema,
        RECORD,
        lambda field: replace(field, label="required") if field.name == optional[0] else field,
    )


def _enum_value_added(schema: EventSchema, format_name: str) -> EventSchema:
    name = _enum("enum_value_added", schema)
    symbols = (*schema.enums[name], f"{name.upper()}_V{schema.version}")
    return replace(schema, enums={**schema.enums, name: symbols})


def _enum_value_removed(schema: EventSchema, format_name: str) -> EventSchema:
    name = _enum("enum_value_removed", schema)
    # The first stays: it is what an absent value is, and Avro's default.
    symbols = schema.enums[name][:-1] or schema.enums[name]
    return replace(schema, enums={**schema.enums, name: symbols})


def _oneof_arm_added(schema: EventSchema, format_name: str) -> EventSchema:
    arms = [field for field in schema.fields if field.oneof]
    if not arms:
        raise _lacking("oneof_arm_added", schema, "oneof", "evolution.versions: 3")
    oneof = arms[0].oneof
    return _with(schema, RECORD, Field(f"{oneof}_v{schema.version}", "string", oneof=oneof))


def _record_renamed(schema: EventSchema, format_name: str) -> EventSchema:
    before = schema.record
    base = schema.former[0] if schema.former else before
    after = f"{base}V{schema.version}"
    return replace(
        schema,
        record=after,
        former=(*schema.former, before),
        messages={after if name == before else name: fields for name, fields in schema.messages.items()},
        gone={after if name == before else name: fields for name, fields in schema.gone.items()},
    )


def _format_switched(schema: EventSchema, format_name: str) -> EventSchema:
    """The same fields; how they are written is the stage's to say."""
    return schema


STEPS: Mapping[ChangeClass, Change] = {
    "added": _added,
    "widened": _widened,
    "narrowed": _narrowed,
    "changed": _changed,
    "dropped": _dropped,
    "renamed": _renamed,
    "made_required": _made_required,
    "made_optional": _made_optional,
    "enum_value_added": _enum_value_added,
    "enum_value_removed": _enum_value_removed,
    "oneof_arm_added": _oneof_arm_added,
    "record_renamed": _record_renamed,
    "format_switched": _format_switched,
}


def _of_maps(ways: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    return [(f"map<string, {old}>", f"map<string, {new}>") for old, new in ways]


def _retyped(
    schema: EventSchema, where: Mapping[str, tuple[str, ...]], ways: Iterable[tuple[str, str]]
) -> EventSchema:
    """These fields with other types."""
    types = dict(ways)
    for message, names in where.items():
        schema = _mapped(
            schema,
            message,
            lambda field, names=names: (  # type: ignore[misc]
                replace(field, type=types.get(field.type, field.type)) if field.name in names else field
            ),
        )
    return schema


def _mapped(schema: EventSchema, message: str, change: Callable[[Field], Field]) -> EventSchema:
    name = message or schema.record
    if name not in schema.messages:
        return schema
    return replace(schema, messages={**schema.messages, name: tuple(map(change, schema.messages[name]))})


def _with(schema: EventSchema, message: str, *new: Field) -> EventSchema:
    """The schema with these fields, new in its version, at the end of a message; the arms of a oneof stay together."""
    name = message or schema.record
    fields = [*schema.messages[name]]
    used = [field.number for field in (*fields, *schema.gone.get(name, ()))]
    for number, field in enumerate(new, start=max(used, default=0) + 1):
        arms = [place for place, known in enumerate(fields) if field.oneof and known.oneof == field.oneof]
        place = arms[-1] + 1 if arms else len(fields)
        fields.insert(place, replace(field, number=number, since=schema.version))
    return replace(schema, messages={**schema.messages, name: tuple(fields)})


def _enum(change: ChangeClass, schema: EventSchema) -> str:
    names: Iterator[str] = iter(schema.enums)
    name = next(names, None)
    if name is None:
        raise _lacking(change, schema, "enum", "evolution.versions: 3")
    return name


def _lacking(change: ChangeClass, schema: EventSchema, what: str, remedy: str) -> ConfigError:
    return ConfigError(
        f"{change}: version {schema.version - 1} of the event has no {what}; begin with {remedy}"
    )
