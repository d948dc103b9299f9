"""Arrow's nested types and arrays, walked and put together again: structs, lists of each kind, and maps.

A type's children are fields: those of a struct by their own names, a list's `element`, a map's `key` and `value`, as in
Spark's ALTER TABLE. An array's children are arrays in the same order; of a list or a map they are only as long as its
rows need, whatever it is a slice of. What has no children (a union and a dictionary among them) is a leaf.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.types.fit import is_list
from distributary.codecs.types.masks import Rows


def children(of: pa.DataType) -> list[pa.Field]:
    """The fields right below a type; none for a leaf."""
    if kinds.is_struct(of):
        return list(of)
    if kinds.is_map(of):
        return [of.key_field.with_name("key"), of.item_field.with_name("value")]
    return [of.value_field.with_name("element")] if is_list(of) else []


def alike(one: pa.DataType, other: pa.DataType) -> bool:
    """Whether both are structs, both lists of any kind, or both maps."""
    return any(kind(one) and kind(other) for kind in (kinds.is_struct, is_list, kinds.is_map))


def _own_name(field: pa.Field) -> str:
    return str(field.name)


def pairs(
    one: pa.DataType, other: pa.DataType, name: Callable[[pa.Field], str] = _own_name
) -> list[tuple[pa.Field | None, pa.Field]]:
    """Each child of `other`, in its order, behind the child of `one` that belongs to it; None where there is none.

    A struct's fields belong together where `name` gives the same for both. Types that are not alike have no pairs.
    """
    if not alike(one, other):
        return []
    if not kinds.is_struct(one):
        return list(zip(children(one), children(other), strict=True))
    own = {name(field): field for field in one}
    return [(own.get(name(field)), field) for field in other]


def rebuilt(of: pa.DataType, inside: Sequence[pa.Field]) -> pa.DataType:
    """A nested type of the same kind with other children: any number for a struct, else as many as `children` gives.

    What `of` calls a list's elements, a map's keys and its values stays.
    """
    if kinds.is_struct(of):
        return pa.struct(list(inside))
    if kinds.is_map(of):
        key, value = inside
        return pa.map_(
            key.with_name(of.key_field.name), value.with_name(of.item_field.name), keys_sorted=of.keys_sorted
        )
    element = inside[0].with_name(of.value_field.name)
    if kinds.is_fixed_size_list(of):
        return pa.list_(element, of.list_size)
    return pa.large_list(element) if kinds.is_large_list(of) else pa.list_(element)


def held(values: pa.Array) -> list[pa.Array]:
    """The arrays right below one, in the order of `children`; none for a leaf.

    A struct's have a value a row, a list's or a map's all elements, keys and values of its rows; what stands below a
    null is in them too.
    """
    if kinds.is_struct(values.type):
        return [values.field(place) for place in range(values.type.num_fields)]
    if kinds.is_map(values.type):
        return _cut(values, [values.keys, values.items])
    return _cut(values, [values.values]) if is_list(values.type) else []


def around(values: pa.Array, of: pa.DataType, inside: Sequence[pa.Array]) -> pa.Array:
    """An array of the type `of` with the lengths and nulls of `values`, of the same kind, around other arrays.

    `inside` are as `held` gives them, of the types of `children(of)`. Raises ValueError for others, for Arrow would read
    beyond their ends.
    """
    edges = None if kinds.is_struct(of) else _edges(values)
    _refuse_others(values, of, inside, len(values) if edges is None else int(edges[-1] - edges[0]))
    buffers = [_validity(values)]
    if edges is not None and not kinds.is_fixed_size_list(of):
        buffers.append(pa.py_buffer(edges - edges[0] if edges[0] else edges))
    if kinds.is_map(of):
        inside = [pa.StructArray.from_arrays(inside, fields=[of.key_field, of.item_field])]
    return pa.Array.from_buffers(of, len(values), buffers, values.null_count, 0, list(inside))


def places(values: pa.Array, elements: Rows) -> tuple[Rows, Rows]:
    """The row that each of these elements of lists or maps is in, and its position there, both from 0 on.

    Elements are numbered as `held` gives them.
    """
    edges = _edges(values)
    begin = (edges - edges[0]).astype(np.int64)
    rows = np.searchsorted(begin, elements, side="right") - 1
    return rows, elements - begin[rows]


def _edges(values: pa.Array) -> npt.NDArray[np.integer]:
    """Where each list or map begins among all elements, and where the last one ends."""
    if kinds.is_fixed_size_list(values.type):
        rows = np.arange(values.offset, values.offset + len(values) + 1)
        return np.asarray(rows * values.type.list_size)
    return np.asarray(values.offsets.to_numpy())


def _cut(values: pa.Array, whole: Sequence[pa.Array]) -> list[pa.Array]:
    edges = _edges(values)
    return [one.slice(int(edges[0]), int(edges[-1] - edges[0])) for one in whole]


def _validity(values: pa.Array) -> pa.Buffer | None:
    if not values.null_count:
        return None
    if not values.offset:
        return values.buffers()[0]
    valid = values.is_valid().to_numpy(zero_copy_only=False)
    return pa.py_buffer(np.packbits(valid, bitorder="little"))


def _types(of: pa.DataType) -> list[pa.DataType]:
    """The children's types alone: what is asked in every batch, where fields take longer to make."""
    if kinds.is_struct(of):
        return [field.type for field in of]
    return [of.key_type, of.item_type] if kinds.is_map(of) else [of.value_type]


def _refuse_others(values: pa.Array, of: pa.DataType, inside: Sequence[pa.Array], count: int) -> None:
    if values.type.id != of.id or [one.type for one in inside] != _types(of):
        raise ValueError(f"{values.type} around {[one.type for one in inside]} is not {of}")
    if any(len(one) != count for one in inside):
        raise ValueError(f"{of} needs {count} values in each child, not {[len(one) for one in inside]}")
