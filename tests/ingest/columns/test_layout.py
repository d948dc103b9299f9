import pickle
from collections.abc import Sequence

import pyarrow as pa
import pyarrow.types as kinds
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.arrow_data import schemas

from distributary.errors import BadSchema
from distributary.ingest.columns.layout import (
    SOURCE,
    Change,
    Layout,
    changes,
    column_path,
    extend,
    restrict,
    source_of,
    spark_type,
)
from distributary.ingest.columns.names import fold

RESERVED = frozenset({"kafka_key", "_rescued_data"})
EMPTY = pa.schema([])


def same(one: pa.Schema, other: pa.Schema) -> bool:
    return bool(one.equals(other, check_metadata=True))


def levels(columns: Sequence[pa.Field]) -> list[list[pa.Field]]:
    """The fields of every level, the top one first."""
    found = [list(columns)]
    for column in columns:
        found += levels_inside(column.type)
    return found


def levels_inside(of: pa.DataType) -> list[list[pa.Field]]:
    if kinds.is_struct(of):
        return levels(list(of))
    if kinds.is_list(of):
        return levels_inside(of.value_type)
    return levels_inside(of.item_type) if kinds.is_map(of) else []


def is_within(small: pa.DataType, big: pa.DataType) -> bool:
    """Whether all of a type is in another at the same names, with the same leaves."""
    if kinds.is_struct(small) and kinds.is_struct(big):
        return columns_within(list(small), list(big))
    if kinds.is_list(small) and kinds.is_list(big):
        return is_within(small.value_type, big.value_type)
    if kinds.is_map(small) and kinds.is_map(big):
        return small.key_type == big.key_type and is_within(small.item_type, big.item_type)
    return bool(small == big)


def columns_within(small: Sequence[pa.Field], big: Sequence[pa.Field]) -> bool:
    there = {column.name: column for column in big}
    return all(
        column.name in there
        and source_of(column) == source_of(there[column.name])
        and is_within(column.type, there[column.name].type)
        for column in small
    )


@given(st.lists(schemas(), max_size=4))
def test_growing_keeps_every_column_at_its_place_with_its_type(records: list[pa.Schema]) -> None:
    full = EMPTY
    for record in records:
        before, full = full, extend(full, record, RESERVED)
        assert [column.name for column in full][: len(before)] == [column.name for column in before]
        assert columns_within(list(before), list(full))


@given(st.lists(schemas(), max_size=4))
def test_growing_is_idempotent_and_deterministic(records: list[pa.Schema]) -> None:
    full = EMPTY
    for record in records:
        full = extend(full, record, RESERVED)
    again = EMPTY
    for record in records:
        again = extend(again, record, RESERVED)
    assert same(full, again)
    for record in records:
        assert same(extend(full, record, RESERVED), full)
    assert same(extend(full, full, RESERVED), full)


@given(st.lists(schemas(), max_size=4))
def test_every_field_has_one_column_and_names_are_unique_case_aside(records: list[pa.Schema]) -> None:
    full = EMPTY
    for record in records:
        full = extend(full, record, RESERVED)
    for columns in levels(list(full)):
        assert len({fold(column.name) for column in columns}) == len(columns)
        assert len({source_of(column) for column in columns}) == len(columns)
        assert all(column.nullable for column in columns)
    sources = {source_of(column) for column in full}
    assert sources == {field.name for record in records for field in record}
    assert not RESERVED & {column.name for column in full}


@given(schemas(), schemas(), schemas())
def test_growing_by_a_grown_layout_is_growing_by_its_parts(
    one: pa.Schema, two: pa.Schema, three: pa.Schema
) -> None:
    step_by_step = extend(extend(extend(EMPTY, one, RESERVED), two, RESERVED), three, RESERVED)
    grown = extend(extend(EMPTY, two, RESERVED), three, RESERVED)
    at_once = extend(extend(EMPTY, one, RESERVED), grown, RESERVED)
    assert {source_of(column) for column in at_once} == {source_of(column) for column in step_by_step}


@given(st.lists(schemas(), max_size=4), st.data())
def test_restricting_gives_a_part_of_the_full_layout(records: list[pa.Schema], data: st.DataObject) -> None:
    full = EMPTY
    for record in records:
        full = extend(full, record, RESERVED)
    some = [record for record in records if data.draw(st.booleans())]
    more = some + [record for record in records if data.draw(st.booleans())]
    small, big = restrict(full, EMPTY, some), restrict(full, EMPTY, more)
    assert columns_within(list(small), list(big))
    assert columns_within(list(big), list(full))
    order = [column.name for column in full]
    assert [column.name for column in big] == sorted((c.name for c in big), key=order.index)
    assert same(restrict(full, small, more), restrict(full, EMPTY, [*some, *more]))


@given(schemas(), schemas())
def test_a_table_keeps_all_it_has_and_a_first_record_is_carried_whole(one: pa.Schema, two: pa.Schema) -> None:
    base = extend(EMPTY, one, RESERVED)
    full = extend(base, two, RESERVED)
    assert same(restrict(full, base, []), base)
    assert same(restrict(full, EMPTY, [one, two]), restrict(full, base, [two]))
    assert same(restrict(base, EMPTY, [one]), base)


@given(schemas(), schemas())
def test_changes_are_empty_exactly_if_nothing_grew(one: pa.Schema, two: pa.Schema) -> None:
    base = extend(EMPTY, one, RESERVED)
    full = extend(base, two, RESERVED)
    assert bool(changes(base, full)) == (not same(base, full))
    assert [change.column for change in changes(EMPTY, base)] == [column.name for column in base]


def test_fields_are_added_in_structs_in_list_elements_and_in_map_values() -> None:
    base = extend(
        EMPTY,
        pa.schema(
            [
                ("s", pa.struct([("a", pa.int32())])),
                ("l", pa.list_(pa.struct([("a", pa.int32())]))),
                ("m", pa.map_(pa.string(), pa.struct([("a", pa.int32())]))),
            ]
        ),
        RESERVED,
    )
    inner = pa.struct([("b", pa.list_(pa.int64()))])
    record = pa.schema(
        [("s", inner), ("l", pa.list_(inner)), ("m", pa.map_(pa.string(), inner)), ("n", inner)]
    )
    assert changes(base, extend(base, record, RESERVED)) == [
        Change("s.b", "added", "array<bigint>"),
        Change("l.element.b", "added", "array<bigint>"),
        Change("m.value.b", "added", "array<bigint>"),
        Change("n", "added", "struct<b:array<bigint>>"),
    ]


def test_the_bases_type_stays_and_a_record_that_cannot_fill_it_does_not_carry_it() -> None:
    base = extend(EMPTY, pa.schema([("a", pa.int32()), ("b", pa.int32())]), RESERVED)
    record = pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert same(extend(base, record, RESERVED), base)
    assert restrict(base, EMPTY, [record]).names == ["a"]
    assert restrict(base, EMPTY, [record]).field("a").type == pa.int32()


def test_a_renamed_column_remembers_its_field() -> None:
    layout = extend(
        EMPTY, pa.schema([("a", pa.int32()), ("A", pa.int32()), ("kafka_key", pa.string())]), RESERVED
    )
    assert layout.names == ["a", "A_559aead0", "kafka_key_f2a006a4"]
    assert [column.metadata for column in layout] == [None, {SOURCE: b"A"}, {SOURCE: b"kafka_key"}]


@pytest.mark.parametrize(
    ("record", "column"),
    [
        (pa.uint8(), pa.int16()),
        (pa.uint32(), pa.int64()),
        (pa.uint64(), pa.decimal128(20, 0)),
        (pa.large_string(), pa.string()),
        (pa.dictionary(pa.int32(), pa.string()), pa.string()),
        (pa.timestamp("ns", "Europe/Berlin"), pa.timestamp("us", "UTC")),
        (pa.large_list(pa.large_binary()), pa.list_(pa.field("element", pa.binary()))),
    ],
)
def test_a_new_column_has_the_type_that_delta_stores(record: pa.DataType, column: pa.DataType) -> None:
    assert extend(EMPTY, pa.schema([("a", record)]), RESERVED).field("a").type == column


@pytest.mark.parametrize(
    "of", [pa.null(), pa.duration("us"), pa.time64("us"), pa.struct([]), pa.list_(pa.struct([]))]
)
def test_a_type_that_no_table_holds_is_named(of: pa.DataType) -> None:
    with pytest.raises(BadSchema, match="field odd"):
        extend(EMPTY, pa.schema([("odd", of)]), RESERVED)


def test_types_are_spelt_as_spark_spells_them() -> None:
    of = pa.struct(
        [("t", pa.timestamp("us", "UTC")), ("n", pa.timestamp("us")), ("m", pa.map_(pa.string(), pa.int64()))]
    )
    assert spark_type(of) == "struct<t:timestamp,n:timestamp_ntz,m:map<string,bigint>>"


def test_a_fields_path_in_the_payloads_names_leads_to_its_column() -> None:
    inner = pa.struct([pa.field("a b", pa.int64()), pa.field("c", pa.string())])
    layout = extend(EMPTY, pa.schema([("x.y", inner), ("l", pa.list_(inner))]), RESERVED)
    outer, within = layout.field(0).name, layout.field(0).type.field(0).name
    assert (outer, within) != ("x.y", "a b")
    assert column_path(layout, ("x.y", "a b")) == f"{outer}.{within}"
    assert column_path(layout, ("l", "element", "c")) == "l.element.c"
    assert column_path(layout, ("x.y", "nope")) is None
    assert [change.source for change in changes(EMPTY, layout)] == [("x.y",), ("l",)]


# --- layouts as values ---


@given(schemas())
def test_a_layout_is_the_same_however_often_it_is_made_or_sent(columns: pa.Schema) -> None:
    first, sent = Layout(columns), pickle.loads(pickle.dumps(Layout(pa.schema(list(columns)))))  # noqa: S301
    assert first == sent
    assert hash(first) == hash(sent)
    assert same(sent.columns, columns)


@pytest.mark.parametrize(
    "other",
    [
        pa.schema([("b", pa.int64()), ("a", pa.struct([("x", pa.int32())]))]),
        pa.schema([("a", pa.struct([("x", pa.int64())])), ("b", pa.int64())]),
        pa.schema(
            [("a", pa.struct([pa.field("x", pa.int32(), metadata={SOURCE: b"X "})])), ("b", pa.int64())]
        ),
        pa.schema([("a", pa.struct([("x", pa.int32())]))]),
    ],
    ids=["order", "type", "origin", "lack"],
)
def test_layouts_that_differ_in_anything_are_not_the_same(other: pa.Schema) -> None:
    columns = pa.schema([("a", pa.struct([("x", pa.int32())])), ("b", pa.int64())])
    assert Layout(columns) != Layout(other)
    assert len({Layout(columns), Layout(other), Layout(pa.schema(list(columns)))}) == 2
