"""Whatever batches a stream is cut into, its table has what a plain dictionary has that takes one record after the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.ingest.merge.upserted import Upserted, ordered_by

from distributary.ingest.merge.rule import MergeRule

START = datetime(2026, 1, 1, tzinfo=timezone.utc)

# Of a key its columns, what makes the columns of one, and values that are easily taken for each other.
TEXTS = ["", "a", "A", "ä", "null", "x" * 40, "x" * 40 + "y", "\U0010ffff" * 33, "0", "a.b"]
KINDS: dict[str, tuple[list[tuple[str, pa.DataType]], tuple[str, ...], Sequence[dict[str, Any]]]] = {
    "integers": ([("k", pa.int64())], ("k",), [{"k": n} for n in (0, -1, 1, 2**63 - 1, -(2**63), 7)]),
    "small integers": ([("k", pa.int32())], ("k",), [{"k": n} for n in (0, -1, 2**31 - 1, -(2**31))]),
    "texts": ([("k", pa.string())], ("k",), [{"k": text} for text in TEXTS]),
    "bytes": (
        [("k", pa.binary())],
        ("k",),
        [{"k": data} for data in (b"", b"\0", b"\0\0", b"null", b"\xff")],
    ),
    "floats": (
        [("k", pa.float64())],
        ("k",),
        [{"k": n} for n in (0.0, -0.0, math.nan, math.inf, -math.inf, 5e-324, 0.1)],
    ),
    "decimals": (
        [("k", pa.decimal128(20, 2))],
        ("k",),
        [
            {"k": Decimal(text)}
            for text in ("0", "-0.01", "0.01", "123456789012345678.90", "123456789012345678.91")
        ],
    ),
    "days": (
        [("k", pa.date32())],
        ("k",),
        [{"k": date(1, 1, 1)}, {"k": date(1969, 12, 31)}, {"k": date(9999, 12, 31)}],
    ),
    "times": (
        [("k", pa.timestamp("us", "UTC"))],
        ("k",),
        [
            *({"k": START + timedelta(microseconds=n)} for n in (0, 1, 999, 1000, -1)),
            {"k": datetime.max.replace(tzinfo=timezone.utc)},
            {"k": datetime.min.replace(tzinfo=timezone.utc)},
        ],
    ),
    "truths": ([("k", pa.bool_())], ("k",), [{"k": True}, {"k": False}]),
    "several": (
        [("k", pa.string()), ("n", pa.int64()), ("m", pa.string())],
        ("k", "n", "m"),
        [{"k": k, "n": n, "m": m} for k in ("a", "ab", "") for n in (0, 1) for m in ("b", "")],
    ),
    "nested": (
        [("s", pa.struct([("in", pa.struct([("k", pa.int64())])), ("x", pa.string())])), ("k", pa.int64())],
        ("s.in.k", "k"),
        [{"s": {"in": {"k": n}, "x": "beside"}, "k": m} for n in (0, 1, 2) for m in (0, 1)],
    ),
}

SEQUENCES: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "integers": (pa.int64(), [-(2**63), -1, 0, 1, 2**63 - 1]),
    "floats": (pa.float64(), [-math.inf, -1.5, -0.0, 0.0, 5e-324, math.inf, math.nan]),
    "texts": (pa.string(), ["", "a", "B", "ä", "\U00010000", "\uffff"]),
    "decimals": (pa.decimal128(10, 1), [Decimal("-10.5"), Decimal("9.1"), Decimal("10.0")]),
    "times": (
        pa.timestamp("us", "UTC"),
        [START, START + timedelta(microseconds=1), START - timedelta(days=9)],
    ),
}


@dataclass
class Model:
    """What a table has by taking one record after the other."""

    rule: MergeRule
    rows: dict[Any, dict[str, Any]] = field(default_factory=dict)
    gone: dict[Any, Any] = field(default_factory=dict)

    def take(self, row: dict[str, Any], *, removes: bool = False) -> None:
        key, order = self.key(row), self.order(row)
        older = key in self.rows and order <= self.order(self.rows[key])
        if removes:
            self.gone[key] = max(self.gone.get(key, order), order)
            if not older:
                self.rows.pop(key, None)
        elif not older and (key not in self.gone or order > self.gone[key]):
            self.rows[key] = row

    def key(self, row: dict[str, Any]) -> Any:
        return tuple(comparable(at(row, path)) for path in self.rule.keys)

    def order(self, row: dict[str, Any]) -> Any:
        return (
            *(comparable(at(row, path)) for path in self.rule.order.sequence),
            row["partition"],
            row["offset"],
        )


def at(row: Any, path: str) -> Any:
    for name in path.split("."):
        row = row[name]
    return row


def comparable(value: Any) -> Any:
    """A value so that NaN is one, and the highest, and both zeros are the same; texts compare by their bytes."""
    if isinstance(value, float):
        return (1, 0.0) if math.isnan(value) else (0, value + 0.0)
    return value.encode() if isinstance(value, str) else value


def same(rows: Sequence[dict[str, Any]]) -> list[str]:
    return sorted(map(repr, rows))


def cut(data: st.DataObject, stream: Sequence[Any]) -> list[list[Any]]:
    """A stream cut into batches, some of which come once more."""
    edges = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6), label="edges"))
    batches = [list(stream[start:end]) for start, end in zip([0, *edges], [*edges, len(stream)], strict=True)]
    again = data.draw(st.lists(st.integers(0, len(batches) - 1), max_size=2), label="again")
    # What was in is in: a replay may come whenever it likes.
    for number in again:
        batches.insert(data.draw(st.integers(number + 1, len(batches)), label="at"), batches[number])
    return batches


# Of each kind a few: what they have in common is tried with all of them.
OF_EACH = settings(max_examples=examples(10))


@pytest.mark.parametrize("kind", KINDS)
@OF_EACH
@given(data=st.data())
def test_keys_of_any_type(kind: str, data: st.DataObject) -> None:
    columns, paths, keys = KINDS[kind]
    rule = MergeRule(paths, ordered_by("seq"))
    stream = data.draw(records(keys, st.integers(0, 5), partitions=2))
    check(data, [*columns, ("seq", pa.int64()), ("v", pa.int64())], rule, stream)


@pytest.mark.parametrize("kind", SEQUENCES)
@OF_EACH
@given(data=st.data())
def test_sequences_of_any_type(kind: str, data: st.DataObject) -> None:
    dtype, values = SEQUENCES[kind]
    stream = data.draw(records([{"k": n} for n in range(3)], st.sampled_from(values), partitions=2))
    rule = MergeRule(("k",), ordered_by("seq"))
    check(data, [("k", pa.int64()), ("seq", dtype), ("v", pa.int64())], rule, stream)


@given(data=st.data())
def test_the_position_alone(data: st.DataObject) -> None:
    stream = data.draw(records([{"k": n} for n in range(5)], st.just(0), partitions=1))
    rule = MergeRule(("k",), ordered_by())
    check(data, [("k", pa.int64()), ("seq", pa.int64()), ("v", pa.int64())], rule, stream)


# By what a table is in partitions: what rows are named and ordered by, and what else they have, in which a newer one differs.
PARTITIONS = [("p",), ("k",), ("seq",), ("d", "b"), ("n", "p"), ("k", "seq", "p")]


@pytest.mark.parametrize("by", PARTITIONS, ids=".".join)
@OF_EACH
@given(data=st.data())
def test_rows_in_partitions(by: Sequence[str], data: st.DataObject) -> None:
    values = [
        {"k": k, "p": p, "d": d, "b": b, "n": n}
        for k in ("a", "b", "ä/%20=")
        for p in ("x", None)
        for d, b, n in ((date(2026, 1, 1), True, 7), (None, False, -(2**63)))
    ]
    types = [("k", pa.string()), ("p", pa.string()), ("d", pa.date32()), ("b", pa.bool_()), ("n", pa.int64())]
    stream = data.draw(records(values, st.integers(-3, 3), partitions=2))
    rule = MergeRule(("k",), ordered_by("seq"))
    check(data, [*types, ("seq", pa.int64()), ("v", pa.int64())], rule, stream, by)


def records(keys: Sequence[dict[str, Any]], sequence: st.SearchStrategy[Any], partitions: int) -> Any:
    """A stream of records, each with its place, and whether it removes its key."""

    def placed(drawn: list[tuple[dict[str, Any], Any, int, bool]]) -> list[tuple[dict[str, Any], bool]]:
        return [
            (
                {
                    "topic": "t",
                    "partition": partition,
                    "offset": offset,
                    "ts": START + timedelta(seconds=offset),
                    **key,
                    "seq": seq,
                    "v": offset,
                },
                removes,
            )
            for offset, (key, seq, partition, removes) in enumerate(drawn)
        ]

    one = st.tuples(st.sampled_from(keys), sequence, st.integers(0, partitions - 1), st.booleans())
    return st.lists(one, min_size=1, max_size=40).map(placed)


def check(
    data: st.DataObject,
    columns: Sequence[Any],
    rule: MergeRule,
    stream: Sequence[tuple[dict[str, Any], bool]],
    partitions: Sequence[str] = (),
) -> None:
    deletes = data.draw(st.booleans(), label="deletes")
    taken = [(row, removes and deletes) for row, removes in stream]
    model = Model(rule)
    for row, removes in taken:
        model.take(row, removes=removes)
    with TemporaryDirectory() as folder:
        table = Upserted.made(Path(folder), columns, rule, deletes=deletes, partitions=partitions)
        for batch in cut(data, taken):
            staged = [row for row, removes in batch if not removes]
            removed = [row for row, removes in batch if removes]
            if staged or removed:
                counts = table.merge(staged, removed, files=data.draw(st.integers(1, 3), label="files"))
                assert counts.staged == len(batch)
        expected = pa.Table.from_pylist(list(model.rows.values()), table.schema)
        assert same(table.rows()) == same(expected.to_pylist())
