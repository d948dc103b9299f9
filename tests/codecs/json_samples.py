"""Random schemas, JSON objects that fit them, fit them in part or are no JSON at all, and the game event."""

from __future__ import annotations

import base64
import json
import random
from datetime import date, datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds
from hypothesis import strategies as st

from distributary.codecs.types.spark_struct import list_of

UTC = pa.timestamp("us", "UTC")
EVENT = pa.schema(
    [
        ("event_id", pa.string()),
        ("game_name", pa.string()),
        ("player_id", pa.int64()),
        ("event_type", pa.string()),
        ("at", UTC),
        ("level", pa.int32()),
        ("score", pa.int64()),
        ("bet", pa.float64()),
        ("win", pa.bool_()),
        ("country", pa.string()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("device", pa.struct([("os", pa.string()), ("memory", pa.int64())])),
        ("tags", list_of(pa.string())),
    ]
)

_LEAVES = st.sampled_from(
    [
        pa.bool_(),
        pa.int8(),
        pa.int32(),
        pa.int64(),
        pa.float32(),
        pa.float64(),
        pa.string(),
        pa.binary(),
        pa.date32(),
        UTC,
        pa.timestamp("us"),
        pa.decimal128(7, 2),
    ]
)
NAMES = st.sampled_from(["a", "b", "c", "A", "a.b", "`", "", "é", "x\0y", 'q"', "1"])


def _structs(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    fields = st.dictionaries(NAMES, inner, min_size=1, max_size=3)
    return fields.map(lambda found: pa.struct(list(found.items())))


def types(maps: bool) -> st.SearchStrategy[pa.DataType]:
    """Types of columns, nested a little."""

    def nested(inner: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
        found = inner.map(list_of) | _structs(inner)
        return found | inner.map(lambda of: pa.map_(pa.string(), of)) if maps else found

    return st.recursive(_LEAVES, nested, max_leaves=4)


def schemas(maps: bool = False) -> st.SearchStrategy[pa.Schema]:
    """Schemas of a few columns."""
    return st.dictionaries(NAMES, types(maps), min_size=1, max_size=4).map(
        lambda found: pa.schema(list(found.items()))
    )


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
_TIMES = st.datetimes(datetime(1, 1, 1), datetime(9999, 12, 31, 23, 59, 59))
_FITTING: dict[pa.DataType, st.SearchStrategy[Any]] = {
    pa.bool_(): st.booleans(),
    pa.int8(): st.integers(-(2**7), 2**7 - 1),
    pa.int32(): st.integers(-(2**31), 2**31 - 1),
    pa.int64(): st.integers(-(2**63), 2**63 - 1),
    pa.float32(): st.floats(width=32, allow_nan=False, allow_infinity=False),
    pa.float64(): st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(2**53), 2**53),
    pa.string(): TEXT,
    pa.binary(): st.binary(max_size=5).map(lambda found: base64.b64encode(found).decode()),
    pa.date32(): st.dates().map(date.isoformat),
    pa.timestamp("us"): _TIMES.map(lambda found: found.isoformat(" ")),
    UTC: _TIMES.map(lambda found: found.isoformat() + "Z"),
    pa.decimal128(7, 2): st.integers(-(10**7) + 1, 10**7 - 1).map(lambda cents: cents / 100),
}


def fitting(of: pa.DataType) -> st.SearchStrategy[Any]:
    """Values, as the json module writes them, that fit a column."""
    if kinds.is_struct(of):
        return st.fixed_dictionaries({}, optional={one.name: st.none() | fitting(one.type) for one in of})
    if kinds.is_list(of):
        return st.lists(st.none() | fitting(of.value_type), max_size=3)
    if kinds.is_map(of):
        return st.dictionaries(TEXT, st.none() | fitting(of.item_type), max_size=3)
    return _FITTING[of]


ANYTHING: st.SearchStrategy[Any] = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | st.sampled_from(
        [
            "12",
            "2026-01-02",
            "2026-02-30",
            "2026-01-02T03:04:05Z",
            "2026-01-02 03:04:05.1",
            "NaN",
            "YQ==",
            "\ud800",
            ".5",
            "1e400",
        ]
    ),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=5,
)


def payloads(schema: pa.Schema) -> st.SearchStrategy[bytes]:
    """A payload: mostly an object that fits the schema, at times one that does not, at times no JSON at all."""
    names = st.sampled_from(schema.names) | NAMES
    return _payloads(fitting(pa.struct(list(schema))), st.dictionaries(names, ANYTHING, max_size=2))


@st.composite
def _payloads(
    draw: st.DrawFn, fits: st.SearchStrategy[dict[str, Any]], others: st.SearchStrategy[dict[str, Any]]
) -> bytes:
    values = dict(draw(fits))
    if draw(st.integers(0, 3)) == 0:
        values |= draw(others)
    text = json.dumps(values, ensure_ascii=draw(st.booleans()), indent=draw(st.sampled_from([None, None, 1])))
    found = text.encode("utf-8", "surrogatepass")
    if draw(st.integers(0, 4)) == 0:
        place = draw(st.integers(0, len(found)))
        found = found[:place] + draw(st.sampled_from(GRIT)) + found[place + draw(st.integers(0, 2)) :]
    return found


# What is put into payloads to break them, or to make two of one.
GRIT = [
    b"", b" ", b"\n", b"}", b"{", b"[", b"]", b",", b'"', b"\\", b"\0", b"\xff", b"null", b"} null {", b"}{", b"NaN", b"-", b"1", b".5", b"e9",
    b"\xef\xbb\xbf", b'"a":1,', b'"zz":2,', b"\t", b"\x01", b"\\ud800", b"//", b"'",
]  # fmt: skip


def game_events(count: int, seed: int = 1) -> list[bytes]:
    """So many game events, the same ones for the same seed."""
    dice = random.Random(seed)
    return [json.dumps(_game_event(dice, number)).encode() for number in range(count)]


def _game_event(dice: random.Random, number: int) -> dict[str, Any]:
    at = datetime.fromtimestamp(1_700_000_000 + number, timezone.utc)
    return {
        "event_id": f"{dice.getrandbits(64):016x}",
        "game_name": f"game_{number % 10}",
        "player_id": dice.randrange(10**9),
        "event_type": dice.choice(["start", "stop", "bet"]),
        "at": at.isoformat().replace("+00:00", "Z"),
        "level": number % 100,
        "score": number * 31,
        "bet": dice.random(),
        "win": number % 2 == 0,
        "country": "NL",
        "price": 1.25,
        "day": at.date().isoformat(),
        "device": {"os": "ios", "memory": 4096},
        "tags": ["a", "b"][: number % 3],
    }
