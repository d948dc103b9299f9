import json
import pickle
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.ingest.arrow_data import LEAVES, batches, schemas, values

from distributary.codecs.types.fit import Fit, fit
from distributary.errors import PolicyStopped
from distributary.ingest.columns.growth import extend
from distributary.ingest.columns.layout import restrict, source_of
from distributary.ingest.conform.conversion import Conformed, conversion_for
from distributary.ingest.conform.misfits import Policy
from distributary.ingest.conform.nested import fill
from distributary.ingest.conform.rescued_text import json_values

EMPTY = pa.schema([])
NONE_RESERVED: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Policies:
    new_field: Policy = "add"
    wider_type: Policy = "rescue"
    incompatible_type: Policy = "rescue"


QUARANTINE = Policies(wider_type="quarantine", incompatible_type="quarantine")
slow = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def layout(*records: pa.Schema) -> pa.Schema:
    full = EMPTY
    for record in records:
        full = extend(full, record, NONE_RESERVED)
    return full


def conform(record: pa.Schema, full: pa.Schema, rows: list[dict[str, Any]], policies: Policies) -> Conformed:
    made = pickle.loads(pickle.dumps(conversion_for(record, full, policies)))  # noqa: S301
    conformed: Conformed = made.apply(pa.RecordBatch.from_pylist(rows, schema=record))
    conformed.rows.validate(full=True)
    return conformed


def rescued(conformed: Conformed) -> list[Any]:
    texts = [None] * conformed.rows.num_rows if conformed.rescued is None else conformed.rescued.to_pylist()
    return [None if text is None else json.loads(text) for text in texts]


def put(into: Any, of: pa.DataType, path: list[str], value: Any) -> Any:
    """`into` with a rescued value put back at its path."""
    if not path:
        assert into is None
        return value
    here, *rest = path
    if kinds.is_list(of):
        into = [] if into is None else into
        into.extend([None] * (int(here) + 1 - len(into)))
        into[int(here)] = put(into[int(here)], of.value_type, rest, value)
        return into
    into = {} if into is None else into
    inner = of.item_type if kinds.is_map(of) else of.field(here).type
    into[here] = put(into.get(here), inner, rest, value)
    return into


def parts(path: str) -> list[str]:
    found, rest = [], path
    while rest:
        if rest.startswith("`"):
            end = 1
            while rest[end] != "`" or rest[end : end + 2] == "``":
                end += 2 if rest[end] == "`" else 1
            found.append(rest[1:end].replace("``", "`"))
            rest = rest[end + 2 :]
        else:
            first, _, rest = rest.partition(".")
            found.append(first)
    return found


def without_nulls(value: Any) -> Any:
    """A value without the fields that are null, since a table has more of them than a record."""
    if isinstance(value, dict):
        return {key: without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [without_nulls(inner) for inner in value] if isinstance(value, list) else value


def as_numbers(value: Any) -> Any:
    """Numbers as decimals, however their type writes them: 2, 2.0 and "2.00" are one value."""
    if isinstance(value, dict):
        return {key: as_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [as_numbers(inner) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return Decimal(value)
    try:
        return Decimal(value) if isinstance(value, str) else value
    except ArithmeticError:
        return value.removesuffix("T00:00:00")


@slow
@given(st.data(), schemas(), schemas())
def test_every_value_is_in_its_column_or_in_the_rescued_text(
    data: st.DataObject, older: pa.Schema, record: pa.Schema
) -> None:
    full = data.draw(st.sampled_from([layout(older, record), layout(older)]))
    rows = data.draw(batches(record))
    conformed = conversion_for(record, full, Policies()).apply(rows)
    conformed.rows.validate(full=True)
    assert conformed.rejected == []
    assert conformed.rows.num_rows == rows.num_rows
    stored = rows_in_words(conformed.rows)
    of = pa.struct(list(record))
    for row, texts in zip(stored, rescued(conformed), strict=True):
        for path, value in (texts or {}).items():
            put(row, of, parts(path), value)
    sent = rows_in_words(rows)
    assert as_numbers(without_nulls(stored)) == as_numbers(without_nulls(sent))


def rows_in_words(rows: pa.RecordBatch) -> list[dict[str, Any]]:
    columns = [json_values(column) for column in rows.columns]
    names = [source_of(field) for field in rows.schema]
    return [
        {name: column[row] for name, column in zip(names, columns, strict=True)}
        for row in range(rows.num_rows)
    ]


@slow
@given(st.data(), schemas(), schemas())
def test_the_target_is_what_the_record_carries_and_fills_to_the_whole_table(
    data: st.DataObject, older: pa.Schema, record: pa.Schema
) -> None:
    full = layout(older, record)
    made = conversion_for(record, full, Policies())
    assert made.target.equals(restrict(full, EMPTY, [record]), check_metadata=True)
    conformed = made.apply(data.draw(batches(record)))
    assert conformed.rows.schema.equals(made.target, check_metadata=True) or not made.target.names
    table = restrict(full, layout(older), [record])
    for schema in (full, table):
        filled = fill(conformed.rows, schema)
        filled.validate(full=True)
        if schema.names:
            assert filled.schema.equals(schema, check_metadata=True)
        assert without_nulls(rows_in_words(filled)) == without_nulls(rows_in_words(conformed.rows))


@slow
@given(st.data(), schemas(), schemas())
def test_a_slice_conforms_as_its_rows_do(data: st.DataObject, older: pa.Schema, record: pa.Schema) -> None:
    made = conversion_for(record, layout(older), Policies(incompatible_type="quarantine"))
    rows = data.draw(batches(record, 6))
    start = data.draw(st.integers(0, rows.num_rows))
    whole, part = made.apply(rows), made.apply(rows.slice(start))
    assert part.rows.to_pylist() == whole.rows.slice(start).to_pylist()
    assert [(row + start, *rest) for row, *rest in part.rejected] == [
        each for each in whole.rejected if each[0] >= start
    ]
    assert rescued(part) == rescued(whole)[start:]


@slow
@given(st.data(), schemas(), schemas())
def test_quarantine_rejects_exactly_the_rows_that_rescue_would_have_rescued(
    data: st.DataObject, older: pa.Schema, record: pa.Schema
) -> None:
    rows = data.draw(batches(record))
    full = layout(older)
    rejecting = conversion_for(record, full, Policies("ignore", "quarantine", "quarantine")).apply(rows)
    rescuing = conversion_for(record, full, Policies("ignore", "rescue", "rescue")).apply(rows)
    assert rejecting.rescued is None
    needed = [row for row, texts in enumerate(rescued(rescuing)) if texts is not None]
    assert [row for row, _, _ in rejecting.rejected] == needed
    assert rejecting.rows.equals(rescuing.rows)


@slow
@given(st.data(), st.sampled_from(LEAVES), st.sampled_from(LEAVES))
def test_a_value_is_stored_exactly_or_not_at_all(
    data: st.DataObject, record: pa.DataType, column: pa.DataType
) -> None:
    given_ = data.draw(st.lists(values(record), max_size=6))
    schema = pa.schema([("a", record)])
    made = conversion_for(schema, pa.schema([("a", column)]), Policies())
    conformed = made.apply(pa.RecordBatch.from_pylist([{"a": value} for value in given_], schema=schema))
    lost = rescued(conformed)
    how = fit(record, column)
    if how in (Fit.SAME, Fit.EXACT):
        assert lost == [None] * len(given_)
    if how is Fit.NEVER:
        assert made.target.names == []
        assert [one is not None for one in lost] == [value is not None for value in given_]
        return
    stored = json_values(conformed.rows.column(0))
    sent = json_values(pa.array(given_, record))
    for one, other, value in zip(stored, lost, sent, strict=True):
        whole = one if other is None else other["a"]
        assert as_numbers(whole) == as_numbers(value)


def test_columns_of_the_same_type_are_passed_on_without_a_copy() -> None:
    schema = pa.schema(
        [
            ("a", pa.int64()),
            ("s", pa.struct([("x", pa.list_(pa.string()))])),
            ("m", pa.map_(pa.string(), pa.int32())),
        ]
    )
    rows = pa.RecordBatch.from_pylist([{"a": 1, "s": {"x": ["y"]}, "m": [("k", 1)]}] * 3, schema=schema)
    made = conversion_for(schema, layout(pa.schema([("b", pa.bool_())]), schema), Policies())
    assert made.trouble == ()
    stored = made.apply(rows).rows
    before = [buffer.address for column in rows.columns for buffer in column.buffers() if buffer]
    assert [buffer.address for column in stored.columns for buffer in column.buffers() if buffer] == before


def test_wider_values_that_fit_are_stored_and_the_others_follow_the_policy() -> None:
    record, full = pa.schema([("a", pa.int64())]), pa.schema([("a", pa.int32())])
    rows: list[dict[str, Any]] = [{"a": 1}, {"a": 2**31}, {"a": None}, {"a": -(2**31)}]
    kept = conform(record, full, rows, Policies())
    assert kept.rows.column("a").to_pylist() == [1, None, None, -(2**31)]
    assert rescued(kept) == [None, {"a": 2**31}, None, None]
    assert conform(record, full, rows, QUARANTINE).rejected == [
        (1, "wider_type", "a: int64 in the record does not go into the column's int32")
    ]


@pytest.mark.parametrize(
    ("record", "column", "value"),
    [
        (pa.int32(), pa.int64(), 7),
        (pa.float32(), pa.float64(), 0.5),
        (pa.int32(), pa.float64(), -(2**31)),
        (pa.int64(), pa.decimal128(21, 2), 2**63 - 1),
        (pa.uint32(), pa.int64(), 2**32 - 1),
        (pa.uint64(), pa.decimal128(20, 0), 2**64 - 1),
        (pa.decimal128(5, 1), pa.decimal128(7, 2), Decimal("-1234.5")),
        (pa.large_string(), pa.string(), "x"),
        (pa.date32(), pa.timestamp("us"), date(2024, 2, 29)),
    ],
)
def test_a_narrower_record_type_is_stored_exactly(
    record: pa.DataType, column: pa.DataType, value: Any
) -> None:
    done = conform(pa.schema([("a", record)]), pa.schema([("a", column)]), [{"a": value}], QUARANTINE)
    stored = done.rows.column("a")
    assert stored.type == column
    assert stored.to_pylist() == [datetime(2024, 2, 29) if isinstance(value, date) else value]
    assert done.rejected == []


@pytest.mark.parametrize(
    ("record", "column", "value", "fits"),
    [
        (pa.float64(), pa.float32(), 0.1, False),
        (pa.float64(), pa.float32(), 0.25, True),
        (pa.float64(), pa.float32(), 1e300, False),
        (pa.float64(), pa.float32(), float("inf"), True),
        (pa.float64(), pa.int64(), 2.0**63, False),
        (pa.float64(), pa.int64(), float("nan"), False),
        (pa.int64(), pa.float64(), 2**53 + 1, False),
        (pa.int64(), pa.float64(), 2**63 - 1, False),
        (pa.int64(), pa.float64(), -(2**63), True),
        (pa.float64(), pa.decimal128(5, 2), 1.25, True),
        (pa.float64(), pa.decimal128(5, 2), 1e10, False),
        (pa.decimal128(5, 2), pa.int8(), Decimal("127.00"), True),
        (pa.decimal128(5, 2), pa.int8(), Decimal("128.00"), False),
        (pa.timestamp("us"), pa.date32(), datetime(2024, 1, 1), True),
        (pa.timestamp("us"), pa.date32(), datetime(2024, 1, 1, 1), False),
    ],
)
def test_whether_a_value_fits_is_a_matter_of_the_value(
    record: pa.DataType, column: pa.DataType, value: Any, fits: bool
) -> None:
    done = conform(pa.schema([("a", record)]), pa.schema([("a", column)]), [{"a": value}], QUARANTINE)
    assert (done.rejected == []) == fits
    assert done.rows.column("a").is_valid().to_pylist() == [fits]


NESTED = pa.schema(
    [
        ("s", pa.struct([("n", pa.int64()), ("t", pa.string())])),
        ("l", pa.list_(pa.struct([("n", pa.int64()), ("new", pa.bool_())]))),
        ("m", pa.map_(pa.string(), pa.struct([("n", pa.int64())]))),
        ("k", pa.map_(pa.int64(), pa.string())),
    ]
)
NARROW = pa.schema(
    [
        ("s", pa.struct([("n", pa.int32()), ("t", pa.int32())])),
        ("l", pa.list_(pa.struct([("n", pa.int32())]))),
        ("m", pa.map_(pa.string(), pa.struct([("n", pa.int32())]))),
        ("k", pa.map_(pa.int32(), pa.string())),
    ]
)
BIG = 2**40
NESTED_ROWS: list[dict[str, Any]] = [
    {"s": {"n": 1, "t": None}, "l": [{"n": 1}], "m": [("a.b", {"n": BIG})], "k": [(1, "x")]},
    {
        "s": {"n": BIG, "t": "x"},
        "l": [None, {"n": BIG, "new": True}, {"n": 2}],
        "m": [],
        "k": [(BIG, "y"), (2, "z")],
    },
    {"s": None, "l": None, "m": None, "k": None},
]


def test_nested_misfits_are_rescued_by_their_path() -> None:
    done = conform(NESTED, NARROW, NESTED_ROWS, Policies())
    assert rescued(done) == [
        {"m.`a.b`.n": BIG},
        {"s.n": BIG, "s.t": "x", "l.1.n": BIG, "l.1.new": True, "k": {str(BIG): "y", "2": "z"}},
        None,
    ]
    assert done.rows.to_pylist() == [
        {"s": {"n": 1}, "l": [{"n": 1}], "m": [("a.b", {"n": None})], "k": [(1, "x")]},
        {"s": {"n": None}, "l": [None, {"n": None}, {"n": 2}], "m": [], "k": None},
        {"s": None, "l": None, "m": None, "k": None},
    ]


def test_a_rejected_row_names_fields_and_types_once_and_never_a_value() -> None:
    done = conform(NESTED, NARROW, NESTED_ROWS, QUARANTINE)
    assert [(row, reason) for row, reason, _ in done.rejected] == [(0, "wider_type"), (1, "wider_type")]
    assert all(str(BIG) not in detail and "a.b" not in detail for _, _, detail in done.rejected)
    detail = done.rejected[1][2]
    assert "s.t: string in the record does not go into the column's int32" in detail
    assert "l.element.n: int64" in detail
    assert "k.key: int64" in detail
    assert done.rescued is None


def test_trouble_says_what_is_done_about_each_field() -> None:
    found = {one.column: (one.kind, one.done) for one in conversion_for(NESTED, NARROW, Policies()).trouble}
    assert found == {
        "s.n": ("wider_type", "rescued"),
        "s.t": ("incompatible_type", "rescued"),
        "l.element.n": ("wider_type", "rescued"),
        "l.element.new": ("new_field", "rescued"),
        "m.value.n": ("wider_type", "rescued"),
        "k.key": ("wider_type", "rescued"),
    }


def test_values_under_a_null_are_not_there() -> None:
    hidden = pa.StructArray.from_arrays(
        [pa.array([BIG, 1])], fields=[pa.field("n", pa.int64())], mask=pa.array([True, False])
    )
    lists = pa.ListArray.from_arrays(
        pa.array([0, 1, 2], pa.int32()), pa.array([BIG, 1]), mask=pa.array([True, False])
    )
    rows = pa.RecordBatch.from_arrays([hidden, lists], names=["s", "l"])
    full = pa.schema([("s", pa.struct([("n", pa.int32())])), ("l", pa.list_(pa.int32()))])
    done = conversion_for(rows.schema, full, Policies()).apply(rows)
    assert done.rescued is None
    assert done.rows.to_pylist() == [{"s": None, "l": None}, {"s": {"n": 1}, "l": [1]}]


@pytest.mark.parametrize(
    ("policy", "policies"),
    [
        ("new_field", Policies(new_field="fail")),
        ("wider_type", Policies(wider_type="fail")),
        ("incompatible_type", Policies(incompatible_type="fail")),
    ],
)
def test_a_policy_that_says_fail_stops_and_names_the_field(policy: str, policies: Policies) -> None:
    with pytest.raises(PolicyStopped, match=rf"policies\.{policy} is `fail`"):
        conversion_for(NESTED, NARROW, policies)


def test_new_fields_are_rescued_or_ignored_as_told() -> None:
    record, full = pa.schema([("a", pa.int32()), ("b", pa.string())]), pa.schema([("a", pa.int32())])
    rows: list[dict[str, Any]] = [{"a": 1, "b": "x"}, {"a": 2, "b": None}]
    assert rescued(conform(record, full, rows, Policies(new_field="rescue"))) == [{"b": "x"}, None]
    ignoring = conform(record, full, rows, Policies(new_field="ignore"))
    assert ignoring.rescued is None
    assert ignoring.rows.to_pylist() == [{"a": 1}, {"a": 2}]


def test_rows_that_carry_no_column_are_still_counted_and_filled() -> None:
    record, full = pa.schema([("b", pa.string())]), pa.schema([("a", pa.int32())])
    done = conform(record, full, [{"b": "x"}, {"b": "y"}], Policies())
    assert done.rows.num_rows == 2
    assert fill(done.rows, full).to_pylist() == [{"a": None}, {"a": None}]


def test_fill_refuses_to_lose_a_column_or_to_change_a_type() -> None:
    rows = pa.RecordBatch.from_pylist([{"a": 1, "s": {"x": 1}}])
    with pytest.raises(ValueError, match="no place for a"):
        fill(rows, pa.schema([("s", pa.struct([("x", pa.int64())]))]))
    with pytest.raises(ValueError, match="s: no place for x"):
        fill(rows, pa.schema([("a", pa.int64()), ("s", pa.struct([("y", pa.int64())]))]))
    with pytest.raises(ValueError, match=r"s\.x is int64, not int32"):
        fill(rows, pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.int32())]))]))


def test_a_long_key_is_not_told_of_before_each_of_very_many_values() -> None:
    record, table = (
        pa.schema([("m", pa.map_(pa.string(), pa.list_(of)))]) for of in (pa.int64(), pa.int32())
    )
    wide = [2**40] * 1_000
    rows = [{"m": [("k" * size, wide), ("short", [1])]} for size in (10, 100_000, 10)]
    conformed = conform(record, layout(table), rows, Policies())
    assert [(row, reason) for row, reason, _ in conformed.rejected] == [(1, "wider_type")]
    found = rescued(conformed)
    assert [None if one is None else len(one) for one in found] == [1_000, None, 1_000]
    assert found[0][f"m.{'k' * 10}.999"] == 2**40
    assert conformed.rows.column("m").to_pylist()[2] == [("k" * 10, [None] * 1_000), ("short", [1])]


def test_a_long_key_is_not_told_of_before_each_of_many_fields_without_a_column() -> None:
    fields = [f"f{number}" for number in range(40)]
    record, table = (
        pa.schema([("m", pa.map_(pa.string(), pa.struct([(name, pa.int64()) for name in names])))])
        for names in ([*fields, "n"], ["n"])
    )
    rows = [{"m": [("k" * size, dict.fromkeys([*fields, "n"], 1))]} for size in (10, 100_000)]
    conformed = conform(record, layout(table), rows, Policies())
    assert [(row, reason) for row, reason, _ in conformed.rejected] == [(1, "new_field")]
    assert rescued(conformed) == [{f"m.{'k' * 10}.{name}": 1 for name in fields}, None]


def test_of_many_maps_of_a_record_each_is_held_to_what_it_holds() -> None:
    wide = {"k" * 500: [2**40] * 100}.items()
    record, table = (
        pa.schema([("l", pa.list_(pa.map_(pa.string(), pa.list_(of)))), ("m", pa.map_(pa.string(), pa.list_(of)))])
        for of in (pa.int64(), pa.int32())
    )  # fmt: skip
    rows: list[dict[str, Any]] = [
        {"l": [[("k" * 10, [2**40] * 100)]] * 9, "m": [*wide]},
        {"l": [[*wide]] * 9, "m": []},
    ]
    conformed = conform(record, layout(table), rows, Policies())
    assert [(row, reason) for row, reason, _ in conformed.rejected] == [(1, "wider_type")]
    assert len(rescued(conformed)[0]) == 1_000
