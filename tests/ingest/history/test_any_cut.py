"""Whatever batches a stream is cut into, and in whatever order it comes, its table has what a recomputation of all of it has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.history.kept import Kept, Recomputed, rule_by, same
from tests.ingest.merge.test_any_cut import OF_EACH, cut

from distributary.ingest.merge.rule import MergeRule

START = datetime(2026, 1, 1, tzinfo=timezone.utc)

MOMENTS: dict[str, tuple[pa.DataType, Sequence[Any]]] = {
    "times": (pa.timestamp("us", "UTC"), [START + timedelta(microseconds=n) for n in range(8)]),
    "local times": (pa.timestamp("us"), [datetime(1969, 12, 31) + timedelta(hours=9 * n) for n in range(8)]),
    "days": (pa.date32(), [date(1969, 12, 28) + timedelta(days=n) for n in range(8)]),
    "far times": (
        pa.timestamp("us", "UTC"),
        [datetime.min.replace(tzinfo=timezone.utc), START, datetime.max.replace(tzinfo=timezone.utc)],
    ),
}

COLUMNS = [
    ("k", pa.int64()),
    ("p", pa.string()),
    ("v", pa.int64()),
    ("f", pa.float64()),
    ("s", pa.struct([("x", pa.string()), ("seen", pa.int64())])),
    ("l", pa.list_(pa.int64())),
    ("seen", pa.int64()),
]

APART = ("seen", "s.seen")


@pytest.mark.parametrize("kind", MOMENTS)
@OF_EACH
@given(data=st.data())
def test_moments_of_any_type(kind: str, data: st.DataObject) -> None:
    dtype, moments = MOMENTS[kind]
    check(data, data.draw(records(moments)), dtype, rule_by("at", apart=APART))


@given(data=st.data())
def test_what_orders_records_of_one_moment(data: st.DataObject) -> None:
    stream = data.draw(records(MOMENTS["times"][1][:3]))
    check(data, stream, pa.timestamp("us", "UTC"), rule_by("at", "n", apart=APART))


@pytest.mark.parametrize("by", [("p",), ("k",), ("v", "p")], ids=".".join)
@OF_EACH
@given(data=st.data())
def test_rows_in_partitions(by: Sequence[str], data: st.DataObject) -> None:
    stream = data.draw(records(MOMENTS["times"][1]))
    check(data, stream, pa.timestamp("us", "UTC"), rule_by("at", apart=APART), by)


def records(moments: Sequence[Any]) -> Any:
    """A stream of records, each with its place, and whether it removes its key."""

    def placed(drawn: list[tuple[Any, ...]]) -> list[tuple[dict[str, Any], bool]]:
        return [
            (
                {
                    "topic": "t",
                    "partition": partition,
                    "offset": offset,
                    "ts": START + timedelta(seconds=offset),
                    "k": key,
                    "p": ("x", None)[v % 2],
                    "v": v,
                    "f": f,
                    "l": l,
                    "s": None if x == "none" else {"x": x, "seen": offset},
                    "seen": offset,
                    "at": at,
                    "n": n,
                },
                removes,
            )
            for offset, (key, at, n, v, f, x, l, partition, removes) in enumerate(drawn)
        ]

    one = st.tuples(
        st.integers(0, 2),
        st.sampled_from(list(moments)),
        st.integers(0, 2),
        st.integers(0, 1),
        st.sampled_from([None, 0.5]),
        st.sampled_from([None, "a", "none"]),
        st.sampled_from([None, [], [1], [1, None]]),
        st.integers(0, 1),
        st.booleans(),
    )
    return st.lists(one, min_size=1, max_size=40).map(placed)


def check(
    data: st.DataObject,
    stream: Sequence[tuple[dict[str, Any], bool]],
    moment: pa.DataType,
    rule: MergeRule,
    partitions: Sequence[str] = (),
) -> None:
    deletes = data.draw(st.booleans(), label="deletes")
    taken = [(row, removes and deletes) for row, removes in stream]
    model = Recomputed(rule)
    with TemporaryDirectory() as folder:
        columns = [*COLUMNS, ("at", moment), ("n", pa.int64())]
        table = Kept.new(Path(folder), columns, rule, partitions)
        for batch in cut(data, taken):
            staged = [row for row, removes in batch if not removes]
            removed = [row for row, removes in batch if removes]
            if not batch:
                continue
            counts = table.merge(staged, removed, files=data.draw(st.integers(1, 3), label="files"))
            assert counts.staged == len(batch)
            model.take(staged, removed)
            if data.draw(st.booleans(), label="compacted"):
                table.compact()
            assert same(table.rows(), table.schema) == same(model.rows(), table.schema)
