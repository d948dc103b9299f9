"""A game event and how it grows: the fields, the columns and the Protobuf schema of version 1, 2, 3 and so on.

Every version only adds to the one before it, so each is BACKWARD compatible. Versions 2 and 3 together bring
a plain field, a nested message, a repeated field, a map, an enum and a oneof; each version from 4 on adds a
plain field, one of the other kinds in rotation, and a field inside a message that was there already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache

import pyarrow as pa

from distributary.producer_sim.events.model import TIMESTAMP, EventSchema, Field, columns

RECORD = "GameEvent"

PLAIN_KINDS = ("int64", "string", "double", "bool", "bytes", "uint32", "float")

NESTED_KINDS = ("message", "repeated", "map", "enum", "oneof", "timestamp")


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


def arrow_schema(version: int) -> pa.Schema:
    """The columns a correct reader finds in events of this version: enums by name, every field nullable."""
    return columns(event_schema(version))


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
