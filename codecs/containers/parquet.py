"""Parquet files: https://parquet.apache.org/docs/file-format/

A row is handed on as JSON, as those of tables that are read are: so quarantine, bronze and replay have one text that people can
read. Which types its values have, the file's own schema says, as one that was inferred would.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds

from distributary.codecs.containers.base import Damaged, Gap, Merging, Named, Part, is_of_the_place
from distributary.codecs.json.inference import merged_fields
from distributary.codecs.types.fit import is_list
from distributary.codecs.types.spark_struct import MICROSECONDS, arrow_schema, list_of, struct_json
from distributary.codecs.types.walk import children
from distributary.codecs.writing.json_text import objects

# Of rows that are in memory together, by what they take decompressed.
_ROWS, _BYTES = 10_000, 8 << 20

_UNEVEN = "a row group has fewer or more rows than the file says"

# Whole numbers without a sign, in what holds them all.
_SIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}

_LARGEST_PRECISION = 38

# What Arrow raises for files that are not what they say.
_ERRORS = (OSError, ValueError, TypeError, KeyError, IndexError, NotImplementedError)


class ParquetFiles(Merging):
    """Parquet files. Their rows become JSON, and their schemas types of Spark's."""

    decoded_as = "json"

    def schema(self, file: Any) -> str:
        """The columns that a file's rows bring, as a StructType's JSON. Raises Damaged."""
        return struct_json(columns_of(_opened(file).schema_arrow))

    def rows(self, file: Any, named: Named) -> Iterator[Part]:
        """The rows of a file, each as JSON, some of a row group at a time. Raises Damaged."""
        opened = _opened(file)
        columns_of(opened.schema_arrow)
        first = 0
        for number in range(opened.metadata.num_row_groups):
            count = opened.metadata.row_group(number).num_rows
            row = first
            for part in _rows_of(opened, number, first, count):
                yield part
                row = first + count if isinstance(part, Gap) else part[0] + len(part[1])
            if row < first + count:
                yield Gap(row, _UNEVEN)
            first += count

    def merged(self, schemas: Sequence[str]) -> str:
        """One schema that takes the rows of each; the first one's types stay where no type takes both."""
        fields: list[pa.Field] = []
        for one in schemas:
            fields = merged_fields(fields, list(arrow_schema(one)))
        return struct_json(pa.schema(fields))


def columns_of(schema: pa.Schema) -> pa.Schema:
    """The columns that rows of a file bring, in types that tables store. Raises Damaged."""
    return pa.schema(_fields(list(schema), ""))


def _opened(file: Any) -> pq.ParquetFile:
    try:
        # Old writers' times of 96 bits are nanoseconds, of which few years fit into 64.
        return pq.ParquetFile(file, page_checksum_verification=True, coerce_int96_timestamp_unit="us")
    except _ERRORS as error:
        _require_content(error)
        raise Damaged("its footer is no Parquet file's: it was cut off, or is something else") from None


def _rows_of(opened: pq.ParquetFile, number: int, first: int, count: int) -> Iterator[Part]:
    """The rows of one row group, as far as they can be read; a gap for the rest."""
    group = opened.metadata.row_group(number)
    at_once = max(1, min(_ROWS, count, _BYTES * count // max(1, group.total_byte_size)))
    batches = opened.iter_batches(at_once, row_groups=[number])
    row = first
    while row < first + count:
        try:
            batch = next(batches, None)
            texts = None if batch is None else objects(batch)
        except _ERRORS as error:
            _require_content(error)
            yield Gap(row, f"row group {number} cannot be read from this row on ({type(error).__name__})")
            return
        if texts is None:
            return
        if row + len(texts) > first + count:
            yield Gap(row, _UNEVEN)
            return
        yield row, texts
        row += len(texts)


def _require_content(error: Exception) -> None:
    """Raises the error again where it tells of the place that the file is read from."""
    if isinstance(error, OSError) and is_of_the_place(error):
        raise error


def _fields(fields: Sequence[pa.Field], above: str) -> list[pa.Field]:
    names = [field.name for field in fields]
    if len(set(names)) < len(names):
        raise Damaged(f"{above or 'its schema'} has two columns of one name")
    found = [(field.name, _stored(field.type, f"{above}{field.name}")) for field in fields]
    return [pa.field(name, of) for name, of in found if of is not None]


def _stored(of: pa.DataType, where: str) -> pa.DataType | None:
    """The type that tables store for this one; None for one that has no value. Raises Damaged."""
    if isinstance(of, pa.BaseExtensionType):
        return _stored(of.storage_type, where)
    if kinds.is_dictionary(of):
        return _stored(of.value_type, where)
    if kinds.is_struct(of):
        inside = _fields(list(of), f"{where}.")
        return pa.struct(inside) if inside else None
    if is_list(of):
        (element,) = children(of)
        inner = _stored(element.type, f"{where}.element")
        return None if inner is None else list_of(inner)
    return _map(of, where) if kinds.is_map(of) else _leaf(of, where)


def _map(of: pa.MapType, where: str) -> pa.DataType | None:
    if kinds.is_nested(of.key_type):
        raise Damaged(f"its column {where} is a map with keys that are no single values")
    item = _stored(of.item_type, f"{where}.value")
    return None if item is None else pa.map_(pa.string(), item)


def _leaf(of: pa.DataType, where: str) -> pa.DataType | None:
    if kinds.is_null(of):
        return None
    if of in _SIGNED:
        return _SIGNED[of]
    if kinds.is_decimal(of):
        small = of.precision <= _LARGEST_PRECISION and 0 <= of.scale <= of.precision
        return pa.decimal128(of.precision, of.scale) if small else pa.string()
    if kinds.is_timestamp(of):
        return MICROSECONDS if of.tz else pa.timestamp("us")
    for is_one, stored in _LEAVES:
        if is_one(of):
            return stored
    if kinds.is_integer(of) or kinds.is_boolean(of) or of in (pa.float32(), pa.float64()):
        return of
    raise Damaged(f"its column {where} has the type {of}, which no table stores")


_LEAVES = (
    (kinds.is_string, pa.string()),
    (kinds.is_large_string, pa.string()),
    (kinds.is_string_view, pa.string()),
    (kinds.is_binary, pa.binary()),
    (kinds.is_large_binary, pa.binary()),
    (kinds.is_binary_view, pa.binary()),
    (kinds.is_fixed_size_binary, pa.binary()),
    (kinds.is_float16, pa.float32()),
    (kinds.is_date, pa.date32()),
    (kinds.is_time, pa.string()),
    (kinds.is_duration, pa.int64()),
)
