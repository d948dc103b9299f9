from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

import pyarrow as pa
import pyarrow.types as kinds
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.arrow_data import columns_within, same, schemas

from distributary.errors import BadSchema
from distributary.ingest.columns.growth import Change, GrowthRules, changes, extend, grown
from distributary.ingest.columns.layout import NO_COLUMNS, SOURCE, Layout, source_of
from distributary.ingest.columns.safe_names import fold

RESERVED = frozenset({"kafka_key", "_rescued_data"})
ALL = GrowthRules(widens=True, reserved=RESERVED)
EMPTY = pa.schema([])


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
    both = extend(extend(EMPTY, two, RESERVED), three, RESERVED)
    at_once = extend(extend(EMPTY, one, RESERVED), both, RESERVED)
    assert {source_of(column) for column in at_once} == {source_of(column) for column in step_by_step}


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


def layouts() -> st.SearchStrategy[Layout]:
    """What a table's columns have become by some records."""
    return st.lists(schemas(), max_size=3).map(
        lambda records: reduce(lambda layout, record: grown(layout, record, ALL), records, NO_COLUMNS)
    )


@given(layouts(), schemas(), st.booleans(), st.booleans())
def test_a_table_grows_by_what_its_rules_let_it_and_by_nothing_else(
    layout: Layout, record: pa.Schema, adds: bool, widens: bool
) -> None:
    after = grown(layout, record, GrowthRules(adds, widens, RESERVED))
    kinds_ = {change.kind for change in changes(layout.columns, after.columns)}
    assert kinds_ <= {kind for kind, may in (("added", adds), ("widened", widens)) if may}
    assert after.names[: len(layout.names)] == layout.names
    assert grown(after, record, GrowthRules(adds, widens, RESERVED)) is after
    if not kinds_:
        assert after is layout


@given(layouts(), schemas())
def test_a_worker_that_adds_first_and_widens_then_comes_to_what_the_driver_makes_at_once(
    layout: Layout, record: pa.Schema
) -> None:
    added = grown(layout, record, GrowthRules(reserved=RESERVED))
    wished = grown(added, record, GrowthRules(adds=False, widens=True))
    assert wished == grown(layout, record, ALL)
    # The driver is told the columns wished for, and holds them against the table as it was.
    assert grown(layout, wished.columns, GrowthRules(widens=True)) == wished


@given(layouts(), schemas())
def test_columns_that_must_keep_their_types_do(layout: Layout, record: pa.Schema) -> None:
    fixed = GrowthRules(widens=True, reserved=RESERVED, fixed=frozenset(layout.names))
    assert grown(layout, record, fixed) == grown(layout, record, GrowthRules(reserved=RESERVED))


def test_a_column_of_another_layout_keeps_its_name_there() -> None:
    columns = pa.schema([("kafka_key", pa.string()), ("a b", pa.int64()), ("_rescued_data", pa.string())])
    layout = grown(NO_COLUMNS, columns, GrowthRules(reserved=RESERVED))
    assert not RESERVED & set(layout.names)
    assert grown(NO_COLUMNS, layout.columns, GrowthRules()) == layout
    taken = Layout(pa.schema([pa.field(layout.names[0], pa.int64())]))
    assert len(set(grown(taken, layout.columns, GrowthRules()).names)) == 4
