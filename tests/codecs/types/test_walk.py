"""Walking nested types, and putting nested arrays together again: sliced ones, with nulls, with values below nulls."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.codecs.types.walk import alike, around, children, held, pairs, places, rebuilt

NAMES = st.lists(st.sampled_from("abcd"), unique=True, max_size=3)


def structs(inside: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return NAMES.flatmap(
        lambda names: st.tuples(*(inside for _ in names)).map(
            lambda types: pa.struct(list(zip(names, types, strict=True)))
        )
    )


def nested(inside: st.SearchStrategy[pa.DataType]) -> st.SearchStrategy[pa.DataType]:
    return st.one_of(
        structs(inside),
        inside.map(lambda of: pa.list_(pa.field("element", of))),
        inside.map(pa.large_list),
        st.tuples(inside, st.integers(0, 2)).map(lambda both: pa.list_(*both)),
        inside.map(lambda of: pa.map_(pa.string(), of)),
    )


TYPES = st.recursive(st.sampled_from([pa.int32(), pa.string(), pa.bool_()]), nested, max_leaves=4)


def values_of(of: pa.DataType) -> st.SearchStrategy[Any]:
    """Python values of a type, None among them."""
    if kinds.is_struct(of):
        some: st.SearchStrategy[Any] = st.fixed_dictionaries({one.name: values_of(one.type) for one in of})
    elif kinds.is_map(of):
        some = st.lists(st.tuples(st.sampled_from("xyz"), values_of(of.item_type)), max_size=3)
    elif kinds.is_fixed_size_list(of):
        some = st.lists(values_of(of.value_type), min_size=of.list_size, max_size=of.list_size)
    elif kinds.is_nested(of):
        some = st.lists(values_of(of.value_type), max_size=3)
    else:
        some = {pa.int32(): st.integers(-9, 9), pa.string(): st.text("ab"), pa.bool_(): st.booleans()}[of]
    return st.none() | some


@st.composite
def arrays(draw: st.DrawFn, types: st.SearchStrategy[pa.DataType] = TYPES) -> pa.Array:
    """A slice, perhaps of a slice, of an array; where some rows were made null after it had values, they are below."""
    of = draw(types)
    array = pa.array(draw(st.lists(values_of(of), max_size=6)), of)
    if draw(st.booleans()):
        array = hidden(array, draw(st.lists(st.booleans(), min_size=len(array), max_size=len(array))))
    for _ in range(draw(st.integers(0, 2))):
        begin = draw(st.integers(0, len(array)))
        array = array.slice(begin, draw(st.integers(0, len(array) - begin)))
    return array


def hidden(array: pa.Array, null: list[bool]) -> pa.Array:
    """An array with null in these rows, and its values still below them."""
    valid = array.is_valid().to_numpy(zero_copy_only=False) & ~np.array(null, bool)
    bits = pa.py_buffer(np.packbits(valid, bitorder="little"))
    inside = held(array)
    if kinds.is_map(array.type):
        inside = [pa.StructArray.from_arrays(inside, fields=[array.type.key_field, array.type.item_field])]
    buffers = array.buffers()[1 : array.type.num_buffers]
    return pa.Array.from_buffers(array.type, len(array), [bits, *buffers], children=inside)


def long(of: pa.DataType) -> pa.DataType:
    """The type with 64 bits wherever it has 32."""
    if not children(of):
        return pa.int64() if of == pa.int32() else of
    return rebuilt(of, [one.with_type(long(one.type)) for one in children(of)])


def as_long(values: pa.Array) -> pa.Array:
    if not children(values.type):
        return values.cast(long(values.type))
    return around(values, long(values.type), [as_long(one) for one in held(values)])


@given(TYPES)
def test_a_type_is_its_children_put_together(of: pa.DataType) -> None:
    assert (rebuilt(of, children(of)) if kinds.is_nested(of) else of).equals(of, check_metadata=True)


@given(arrays())
def test_an_array_is_its_children_put_together(values: pa.Array) -> None:
    if kinds.is_nested(values.type):
        again = around(values, values.type, held(values))
        again.validate(full=True)
        assert again.equals(values)
        assert again.null_count == values.null_count


@given(arrays())
def test_other_values_inside_keep_their_rows_and_nulls(values: pa.Array) -> None:
    changed = as_long(values)
    changed.validate(full=True)
    assert changed.type == long(values.type)
    assert changed.to_pylist() == values.to_pylist()


@given(arrays(TYPES.map(pa.list_) | TYPES.map(lambda of: pa.map_(pa.string(), of))))
def test_every_element_is_found_in_its_row(values: pa.Array) -> None:
    every = held(values)[-1]
    rows, positions = places(values, np.arange(len(every)))
    assert list(positions) == [place for size in sizes(values) for place in range(size)]
    assert [list(rows).count(row) for row in range(len(values))] == sizes(values)


def sizes(values: pa.Array) -> list[int]:
    return [int(size) for size in np.diff(values.offsets.to_numpy())]


def test_children_are_called_as_spark_calls_them() -> None:
    of = pa.map_(pa.field("k", pa.string(), nullable=False), pa.list_(pa.field("item", pa.int32())))
    assert [one.name for one in children(of)] == ["key", "value"]
    assert [one.name for one in children(of.item_type)] == ["element"]
    assert not children(of)[0].nullable
    assert children(pa.int32()) == children(pa.dictionary(pa.int8(), pa.string())) == []


def test_names_and_order_of_a_type_stay_when_it_is_rebuilt() -> None:
    of = pa.map_(pa.field("k", pa.string(), nullable=False), pa.field("v", pa.int32()), keys_sorted=True)
    other = rebuilt(of, [children(of)[0], pa.field("value", pa.int64())])
    assert (other.key_field.name, other.item_field, other.keys_sorted) == (
        "k",
        pa.field("v", pa.int64()),
        True,
    )
    assert rebuilt(pa.list_(pa.field("e", pa.int8())), [pa.field("x", pa.string())]).value_field.name == "e"


def test_pairs_belong_together_by_name_in_the_order_of_the_second() -> None:
    one = pa.struct([("a", pa.int32()), ("b", pa.string())])
    other = pa.struct([("c", pa.bool_()), ("a", pa.int64())])
    assert pairs(one, other) == [(None, other.field(0)), (one.field("a"), other.field(1))]
    assert [mine for mine, _ in pairs(one, other, lambda _: "same")] == [one.field("b")] * 2
    lists = pairs(pa.list_(one), pa.large_list(other))
    assert lists == [(pa.field("element", one), pa.field("element", other))]
    assert len(pairs(pa.map_(pa.string(), one), pa.map_(pa.string(), other))) == 2


def test_types_that_are_not_alike_have_no_pairs() -> None:
    for one, other in [
        (pa.struct([]), pa.list_(pa.int8())),
        (pa.int8(), pa.int8()),
        (pa.null(), pa.struct([])),
    ]:
        assert not alike(one, other)
        assert pairs(one, other) == []
    assert alike(pa.list_(pa.int8()), pa.list_(pa.string(), 2))


@pytest.mark.parametrize(
    ("of", "inside"),
    [
        (pa.list_(pa.int32()), [pa.array([1], pa.int32())]),
        (pa.list_(pa.int64()), [pa.array([1, 2, 3], pa.int32())]),
        (pa.large_list(pa.int32()), [pa.array([1, 2, 3], pa.int32())]),
        (pa.list_(pa.int32()), []),
    ],
)
def test_children_that_arrow_would_read_beyond_are_refused(of: pa.DataType, inside: list[pa.Array]) -> None:
    with pytest.raises(ValueError, match="list"):
        around(pa.array([[1, 2], [3]], pa.list_(pa.int32())), of, inside)
