"""The checksum sees every change of a value and no change of order, chunking, width or empty columns."""

from __future__ import annotations

from datetime import datetime, timezone
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from distributary.producer_sim.truth.checksum import MASK, GroupSums, row_hashes

# Machines that run tests are busy: time says nothing here.
QUICK = settings(deadline=None, max_examples=examples(25))

INNER = pa.struct([("a", pa.int64()), ("b", pa.string())])
SCHEMA = pa.schema(
    [
        ("whole", pa.int64()),
        ("real", pa.float64()),
        ("truth", pa.bool_()),
        ("text", pa.string()),
        ("raw", pa.binary()),
        ("at", pa.timestamp("us", tz="UTC")),
        ("inner", INNER),
        ("words", pa.list_(pa.string())),
        ("parts", pa.list_(INNER)),
        ("numbers", pa.map_(pa.string(), pa.int64())),
        ("inners", pa.map_(pa.string(), INNER)),
    ]
)

WHOLE = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=70)
INNERS = st.fixed_dictionaries({"a": st.none() | WHOLE, "b": st.none() | TEXT})
MOMENTS = st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(timezone.utc))


def pairs(values: st.SearchStrategy[Any]) -> st.SearchStrategy[list[tuple[str, Any]]]:
    return st.dictionaries(TEXT, values, max_size=3).map(lambda found: sorted(found.items()))


VALUES: dict[str, st.SearchStrategy[Any]] = {
    "whole": WHOLE,
    "real": st.floats(allow_nan=False),
    "truth": st.booleans(),
    "text": TEXT,
    "raw": st.binary(max_size=70),
    "at": MOMENTS,
    "inner": INNERS,
    "words": st.lists(st.none() | TEXT, max_size=3),
    "parts": st.lists(st.none() | INNERS, max_size=3),
    "numbers": pairs(st.none() | WHOLE),
    "inners": pairs(st.none() | INNERS),
}
ROWS = st.fixed_dictionaries({name: st.none() | values for name, values in VALUES.items()})
Row = dict[str, Any]


def batch(rows: list[Row], schema: pa.Schema = SCHEMA) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist(rows, schema)


def total(*batches: pa.RecordBatch) -> int:
    return sum(int(row_hashes(rows).sum(dtype=np.uint64)) for rows in batches) & MASK


def one(value: Any, kind: pa.DataType) -> int:
    return total(pa.record_batch({"column": pa.array([value], kind)}))


@QUICK
@given(st.lists(ROWS, max_size=8), st.randoms())
def test_the_order_of_rows_does_not_count(rows: list[Row], random: Any) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert total(batch(rows)) == total(batch(shuffled))


@QUICK
@given(st.lists(ROWS, max_size=8), st.integers(0, 8))
def test_chunks_do_not_count(rows: list[Row], cut: int) -> None:
    whole = batch(rows)
    assert total(whole.slice(0, cut), whole.slice(cut)) == total(whole)


@QUICK
@given(st.lists(ROWS, min_size=1, max_size=8))
def test_each_row_has_the_hash_it_has_alone(rows: list[Row]) -> None:
    alone = [int(row_hashes(batch([row]))[0]) for row in rows]
    assert row_hashes(batch(rows)).tolist() == alone


@QUICK
@given(st.lists(ROWS, max_size=5), st.permutations(SCHEMA.names))
def test_the_order_of_columns_does_not_count(rows: list[Row], names: list[str]) -> None:
    assert total(batch(rows).select(names)) == total(batch(rows))


@QUICK
@given(st.lists(ROWS, max_size=5), st.sampled_from(SCHEMA.names))
def test_a_column_of_nulls_counts_like_none(rows: list[Row], name: str) -> None:
    emptied = [{**row, name: None} for row in rows]
    kept = [column for column in SCHEMA.names if column != name]
    assert total(batch(emptied)) == total(batch(emptied).select(kept))


@QUICK
@given(st.lists(ROWS, max_size=5))
def test_structs_that_grew_count_as_before(rows: list[Row]) -> None:
    grown = pa.struct([("a", pa.int64()), ("new", pa.list_(pa.string())), ("b", pa.string())])
    wider = {
        "inner": grown,
        "parts": pa.list_(grown),
        "inners": pa.map_(pa.string(), grown),
    }
    later = pa.schema([(field.name, wider.get(field.name, field.type)) for field in SCHEMA])
    assert total(batch(rows, later)) == total(batch(rows))


@QUICK
@given(st.lists(ROWS, max_size=5))
def test_the_way_values_are_stored_does_not_count(rows: list[Row]) -> None:
    other = {
        "text": pa.large_string(),
        "raw": pa.large_binary(),
        "words": pa.large_list(pa.large_string()),
        "at": pa.timestamp("us"),
    }
    schema = pa.schema([(field.name, other.get(field.name, field.type)) for field in SCHEMA])
    assert total(batch(rows).cast(schema)) == total(batch(rows))


def texts(rows: list[Row]) -> list[str]:
    """Rows as Arrow holds them, in any order; text tells 0.0 from -0.0 and 1 from True."""
    return sorted(map(repr, batch(rows).to_pylist()))


@QUICK
@given(st.data(), ROWS, st.sampled_from(SCHEMA.names))
def test_every_other_value_counts(data: st.DataObject, row: Row, name: str) -> None:
    other = {**row, name: data.draw(st.none() | VALUES[name])}
    assert (total(batch([other])) == total(batch([row]))) == (texts([other]) == texts([row]))


@QUICK
@given(ROWS, ROWS, st.sampled_from(SCHEMA.names))
def test_values_that_change_rows_count(first: Row, second: Row, name: str) -> None:
    """Unless the rows are the same otherwise, or the values are."""
    exchanged = [{**first, name: second[name]}, {**second, name: first[name]}]
    same = texts(exchanged) == texts([first, second])
    assert (total(batch(exchanged)) == total(batch([first, second]))) == same


@QUICK
@given(st.dictionaries(TEXT, WHOLE, min_size=2, max_size=5), st.randoms())
def test_the_order_of_a_map_does_not_count(found: dict[str, int], random: Any) -> None:
    entries = list(found.items())
    shuffled = list(entries)
    random.shuffle(shuffled)
    kind = pa.map_(pa.string(), pa.int64())
    assert one(entries, kind) == one(shuffled, kind)


@QUICK
@given(st.lists(TEXT, min_size=2, max_size=4, unique=True))
def test_the_order_of_a_list_counts(words: list[str]) -> None:
    kind = pa.list_(pa.string())
    assert one(words, kind) != one(words[::-1], kind)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.int64(), [None, 0, 1, -1]),
        (pa.float64(), [None, 0.0, -0.0, 1.0, float("inf"), float("-inf"), float("nan")]),
        (pa.bool_(), [None, False, True]),
        (pa.string(), [None, "", "\0", "\0\0", "a", "a\0", "ab", "ba"]),
        (pa.binary(), [None, b"", b"\0", b"\xff"]),
        (pa.list_(pa.int64()), [None, [], [None], [0], [None, None], [0, None], [None, 0]]),
        (pa.struct([("a", pa.int64()), ("b", pa.int64())]), [None, {}, {"a": 1}, {"b": 1}, {"a": 0}]),
        (pa.map_(pa.string(), pa.int64()), [None, [], [("", None)], [("", 0)], [("a", 0)], [("a", None)]]),
        (pa.decimal128(20, 0), [None, Decimal(0), Decimal(2**64 - 1)]),
        (pa.date32(), [None, datetime(1970, 1, 1).date(), datetime(1970, 1, 2).date()]),
        (pa.duration("us"), [None, 0, 1]),
        (pa.time64("us"), [None, 0, 1]),
        (pa.dictionary(pa.int8(), pa.string()), [None, "", "a"]),
        (pa.null(), [None]),
    ],
)
def test_what_looks_alike_is_told_apart(kind: pa.DataType, values: list[Any]) -> None:
    assert len({one(value, kind) for value in values}) == len(values)


@pytest.mark.parametrize(
    ("value", "kind", "other"),
    [
        (7, pa.int8(), pa.int64()),
        (7, pa.uint32(), pa.int64()),
        (2**63 + 1, pa.uint64(), pa.uint64()),
        (1.5, pa.float32(), pa.float64()),
        ("word", pa.string(), pa.string_view()),
        (b"word", pa.binary(), pa.binary_view()),
        ([1, 2], pa.list_(pa.int64()), pa.list_(pa.int16(), 2)),
        (5, pa.duration("us"), pa.int64()),
        (datetime(2024, 1, 1), pa.timestamp("ms"), pa.timestamp("us", tz="UTC")),
        ("word", pa.string(), pa.dictionary(pa.int32(), pa.string())),
    ],
)
def test_width_does_not_count(value: Any, kind: pa.DataType, other: pa.DataType) -> None:
    assert one(value, kind) == one(value, other)


def test_the_kind_of_a_value_counts() -> None:
    alike = [
        ("1", pa.string()),
        (b"1", pa.binary()),
        (1, pa.int64()),
        (1.0, pa.float64()),
        (True, pa.bool_()),
    ]
    assert len({one(value, kind) for value, kind in alike}) == len(alike)


def test_a_column_s_name_counts_and_a_renamed_one_counts_by_its_payload_s() -> None:
    plain = pa.record_batch({"a b": pa.array([1])})
    other = pa.record_batch({"a_b": pa.array([1])})
    source = pa.field("a_b", pa.int64(), metadata={"distributary.source": "a b"})
    renamed = pa.record_batch([pa.array([1])], schema=pa.schema([source]))
    assert total(plain) != total(other)
    assert total(plain) == total(renamed)


def test_columns_can_be_left_out() -> None:
    rows = pa.record_batch({"a": [1, 2], "kafka_offset": [10, 11]})
    assert row_hashes(rows, frozenset({"kafka_offset"})).tolist() == row_hashes(rows.select(["a"])).tolist()


def test_it_stays_the_same_from_version_to_version() -> None:
    """Truth files outlive the program that wrote them."""
    rows = pa.record_batch({"a": pa.array([1, None]), "b": pa.array(["x", "žluťoučký"])})
    assert row_hashes(rows).tolist() == [4343889299024197436, 2855779858670040299]


GROUPED = st.lists(
    st.tuples(st.none() | st.sampled_from("abc"), st.none() | st.integers(0, 2), WHOLE), max_size=30
)


@QUICK
@given(GROUPED, st.integers(0, 30))
def test_groups_add_up_as_they_would_row_by_row(
    rows: list[tuple[str | None, int | None, int]], cut: int
) -> None:
    hashes = np.array([number % 2**64 for *_, number in rows], np.uint64)
    words = pa.array([word for word, *_ in rows], pa.string())
    numbers = pa.array([number for _, number, _ in rows], pa.int64())
    sums = GroupSums()
    for part in (slice(0, cut), slice(cut, None)):
        sums.add([words[part], numbers[part]], hashes[part])
    expected: dict[tuple[str | None, int | None], list[int]] = {}
    for word, number, value in rows:
        expected.setdefault((word, number), []).append(value)
    assert {key: (found.rows, found.checksum) for key, found in sums.groups.items()} == {
        key: (len(values), sum(values) & MASK) for key, values in expected.items()
    }
