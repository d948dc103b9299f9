"""Which columns of a Parquet file are worth a dictionary: those whose values repeat.

A dictionary of values that hardly repeat is built, found to be too large, and thrown away; a sample tells before.
"""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc

SAMPLE_ROWS = 2_000

# Distinct values among the sample above which a column gets no dictionary.
MOST_DISTINCT = 0.5


def dictionary_columns(rows: pa.Table) -> list[str]:
    """The Parquet paths, such as `position.x` and `tags.list.element`, that get a dictionary."""
    sample = rows.slice(0, SAMPLE_ROWS).combine_chunks()
    return [
        path
        for field, column in zip(sample.schema, sample.columns, strict=True)
        for path, values in _leaves(
            field.name, column.chunk(0) if column.num_chunks else pa.array([], field.type)
        )
        if _repeats(values)
    ]


def _repeats(values: pa.Array) -> bool:
    if pa.types.is_boolean(values.type):
        return False  # a bit a value already
    return not len(values) or pc.count_distinct(values).as_py() <= len(values) * MOST_DISTINCT


def _leaves(path: str, values: pa.Array) -> Iterator[tuple[str, pa.Array]]:
    """https://github.com/apache/parquet-format/blob/master/LogicalTypes.md#nested-types"""
    if pa.types.is_struct(values.type):
        for field, child in zip(values.type, values.flatten(), strict=True):
            yield from _leaves(f"{path}.{field.name}", child)
    elif pa.types.is_list(values.type):
        yield from _leaves(f"{path}.list.element", values.flatten())
    elif pa.types.is_map(values.type):
        yield from _leaves(f"{path}.key_value.key", values.keys)
        yield from _leaves(f"{path}.key_value.value", values.items)
    else:
        yield path, values
