"""Records of upserted tables that cannot take a row's place, in a worker: those without a key, or without what orders them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.ingest.columns.single_values import value_at, value_path
from distributary.ingest.kafka.records import TEXT
from distributary.ingest.pins import NULL_KEY, NULL_SEQUENCE
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
