"""Records of upserted tables, in a worker: which cannot take a row's place, without a key or what orders them, and what those that can set of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.ingest.columns.single_values import value_at, value_path
from distributary.ingest.kafka.records import TEXT
from distributary.ingest.merge.rule import present_metadata
from distributary.ingest.pins import NULL_KEY, NULL_SEQUENCE
from distributary.ingest.settings.groups import Columns
from distributary.ingest.settings.upserts import Upsert

Rejected = tuple[int, str, str]


def unplaced(upsert: Upsert, rows: pa.RecordBatch, keys: pa.RecordBatch, *, by_text: bool) -> list[Rejected]:
    """(row, reason, detail) of those of a table's rows that have no place in it, each once, ascending.

    rows     the payload's columns of the table
    keys     the same records as Kafka has them
    by_text  whether a record's key is its text, not its bytes
    """
    found: dict[int, Rejected] = {}
    for lacking, reason, detail in _lacking(upsert, rows, keys, by_text):
        for row in np.flatnonzero(lacking).tolist():
            found.setdefault(row, (row, reason, detail))
    return [found[row] for row in sorted(found)]


def saying_what_is_set(upsert: Upsert, rows: pa.RecordBatch, columns: Columns) -> pa.RecordBatch:
    """The rows, whose columns are those that their records' schema has, with that said of them where a row sets no others."""
    if upsert.update == "all":
        return rows
    # What was rescued is of this record alone, as are Kafka's columns.
    return rows.replace_schema_metadata(present_metadata([*_leaves(rows.schema), columns.rescued]))


def _leaves(fields: Iterable[pa.Field], above: str = "") -> Iterator[str]:
    """Of a struct its fields, as the table's may have others, which came with another schema."""
    for field in fields:
        if kinds.is_struct(field.type):
            yield from _leaves(field.type, f"{above}{field.name}.")
        else:
            yield f"{above}{field.name}"


def _lacking(
    upsert: Upsert, rows: pa.RecordBatch, keys: pa.RecordBatch, by_text: bool
) -> Iterator[tuple[npt.NDArray[np.bool_], str, str]]:
    if not upsert.keys:
        yield _null(keys.column(TEXT if by_text else "key")), NULL_KEY, "the record has no key"
    for named, reason in ((upsert.keys, NULL_KEY), (upsert.sequence_by, NULL_SEQUENCE)):
        for field in named:
            path = value_path(rows.schema, field)
            if path is None:
                everyone = np.ones(rows.num_rows, np.bool_)
                yield everyone, reason, f"its schema has no field {field} of one value"
            else:
                values = value_at(rows, path)
                yield _null(values), reason, f"field {field} has no value"
                if reason == NULL_SEQUENCE and kinds.is_floating(values.type):
                    yield _true(pc.is_nan(values)), reason, f"field {field} is not a number"


def _null(values: pa.Array) -> npt.NDArray[np.bool_]:
    return _true(pc.is_null(values))


def _true(flags: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = flags.fill_null(False).to_numpy(zero_copy_only=False)
    return found
