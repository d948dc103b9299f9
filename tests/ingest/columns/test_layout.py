from __future__ import annotations

import pickle

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.arrow_data import columns_within, same, schemas

from distributary.ingest.columns.growth import changes, extend
from distributary.ingest.columns.layout import SOURCE, Layout, column_path, restrict

RESERVED = frozenset({"kafka_key", "_rescued_data"})
EMPTY = pa.schema([])


@given(schemas())
def test_a_layout_is_the_same_however_often_it_is_made_or_sent(columns: pa.Schema) -> None:
    first, sent = Layout(columns), pickle.loads(pickle.dumps(Layout(pa.schema(list(columns)))))  # noqa: S301
    assert first == sent
    assert hash(first) == hash(sent)
    assert same(sent.columns, columns)


def test_bytes_that_are_no_layout_are_told_by_one_error() -> None:
    serialized = Layout(pa.schema([("a", pa.int64())])).serialized
    for other in (b"", b"x", serialized[:8], serialized[:-1], serialized[8:]):
        with pytest.raises(pa.ArrowException):
            Layout.read(other)


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


def test_the_bases_type_stays_and_a_record_that_cannot_fill_it_does_not_carry_it() -> None:
    base = extend(EMPTY, pa.schema([("a", pa.int32()), ("b", pa.int32())]), RESERVED)
    record = pa.schema([("a", pa.int64()), ("b", pa.string())])
    assert same(extend(base, record, RESERVED), base)
    assert restrict(base, EMPTY, [record]).names == ["a"]
    assert restrict(base, EMPTY, [record]).field("a").type == pa.int32()


def test_a_fields_path_in_the_payloads_names_leads_to_its_column() -> None:
    inner = pa.struct([pa.field("a b", pa.int64()), pa.field("c", pa.string())])
    layout = extend(EMPTY, pa.schema([("x.y", inner), ("l", pa.list_(inner))]), RESERVED)
    outer, within = layout.field(0).name, layout.field(0).type.field(0).name
    assert (outer, within) != ("x.y", "a b")
    assert column_path(layout, ("x.y", "a b")) == f"{outer}.{within}"
    assert column_path(layout, ("l", "element", "c")) == "l.element.c"
    assert column_path(layout, ("x.y", "nope")) is None
    assert [change.source for change in changes(EMPTY, layout)] == [("x.y",), ("l",)]
