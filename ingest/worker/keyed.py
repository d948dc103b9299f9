"""Records of tables with one row a key, in a worker: which have no place there, which are deletes, and what the others set of their row."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from distributary.codecs.types.row_shape import with_beside
from distributary.errors import SumsDisagree
from distributary.ingest.columns.layout import Layout, is_own
from distributary.ingest.columns.safe_names import MEMORY_SUFFIX, fold
from distributary.ingest.columns.single_values import value_at, value_path
from distributary.ingest.history.timeline import FOR_EVER
from distributary.ingest.kafka.columns import kafka_fields, table_schema
from distributary.ingest.kafka.records import TEXT
from distributary.ingest.merge.columns import brought
from distributary.ingest.merge.rule import (
    IS_DELETE,
    MergeRule,
    Order,
    Validity,
    memory_schema,
    position_of,
    present_metadata,
)
from distributary.ingest.pins import NULL_KEY, NULL_SEQUENCE, Pins
from distributary.ingest.settings.groups import Columns
from distributary.ingest.settings.rule_book import RuleBook
from distributary.ingest.settings.upserts import Upsert

Rejected = tuple[int, str, str]

Mask = npt.NDArray[np.bool_]


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


def keyless(keys: pa.RecordBatch, *, by_text: bool) -> list[tuple[Mask, str]]:
    """Which records have no key that names a row, with the reason; the first that holds is a record's own."""
    found = [(_null(keys.column("key")), "the record has no key")]
    if by_text:
        undecoded = "the record's key names a schema by which it cannot be decoded, or is no text"
        found.append((_null(keys.column(TEXT)), undecoded))
    return found


def named_by_text(pins: Pins) -> bool:
    """Whether a record's own key is its text, not its bytes."""
    return pins.keys is not None and pins.keys.decoded


def rule_of(upsert: Upsert, layout: Layout, columns: Columns, *, by_text: bool) -> MergeRule:
    """By which columns of a table with these of the payload its rows take the place of others.

    Raises SumsDisagree where it has no column of a field that names rows, or orders them.
    """
    own = columns.key_text if by_text and columns.key_text is not None else columns.kafka_key
    keys = tuple(_column(layout, field) for field in upsert.keys) or (own,)
    sequence = tuple(_column(layout, field) for field in upsert.sequence_by)
    order = Order(position_of(columns), sequence, upsert.moved)
    return MergeRule(keys, order, upsert.update, history=_validity(upsert, layout, columns))


def _validity(upsert: Upsert, layout: Layout, columns: Columns) -> Validity | None:
    """The columns that say when a row was true, and those that make no history: Kafka's, and of the payload's those that the table has of them."""
    if upsert.history is None:
        return None
    since, until, current = _own(layout) or upsert.history.columns
    paths = (value_path(layout.columns, field, whole=True) for field in upsert.ignored)
    ignored = tuple(".".join(path) for path in paths if path is not None)
    return Validity(since, until, current, (*(field.name for field in kafka_fields(columns)), *ignored))


def _own(layout: Layout) -> tuple[str, ...]:
    return tuple(column.name for column in layout.columns if is_own(column))


def _column(layout: Layout, field: str) -> str:
    path = value_path(layout.columns, field)
    if path is None:
        raise SumsDisagree(f"field {field} names rows, or orders them, and the table has no column of it")
    return ".".join(path)


def table_of(pins: Pins, folder: str) -> str:
    """The folder of the entity's table that files in a folder are for: its own, or that of what remembers its deletes."""
    return folder.removesuffix(MEMORY_SUFFIX) if pins.rules.tables.remembers else folder


def whole_layout(pins: Pins, folder: str, entity: str | None, layout: Layout) -> Layout:
    """All columns of a file in this folder; `layout` are the payload's columns of the entity's table."""
    columns = pins.rules.columns
    whole = table_schema(columns, layout)
    upsert = None if entity is None else pins.rules.tables.upsert(entity)
    if upsert is None or table_of(pins, folder) == folder:
        return Layout(whole)
    return Layout(memory_schema(rule_of(upsert, layout, columns, by_text=named_by_text(pins)), whole))


def remembered(rows: pa.RecordBatch, layout: Layout, *, deletes: bool = True) -> pa.RecordBatch:
    """Of deletes, or of all records where those are remembered, what is remembered; null where their schema does not have it."""
    told = {IS_DELETE: pa.repeat(pa.scalar(deletes), rows.num_rows)}
    arrays = [
        told[one.name]
        if one.name in told
        else brought(rows.column(one.name), one.type)
        if one.name in rows.schema.names
        else pa.nulls(rows.num_rows, one.type)
        for one in layout.columns
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=layout.columns)


def deleted(
    upsert: Upsert | None, rules: RuleBook, rows: pa.RecordBatch, beside: pa.RecordBatch | None = None
) -> Mask | None:
    """Which records take their key's row away, by their own fields and what is known beside them; None where none does.

    Raises ConfigError.
    """
    if upsert is None or upsert.deletes is None or upsert.deletes.when is None:
        return None
    found = _true(rules.conditions[upsert.deletes.when].met(with_beside(rows, beside)))
    return found if found.any() else None


def with_mark(upsert: Upsert | None, layout: Layout) -> Layout:
    """The payload columns of a table, with that which says which rows are deleted, if they stay."""
    mark = None if upsert is None else upsert.mark
    if mark is None or fold(mark) in map(fold, layout.names):
        return layout
    return Layout(layout.columns.append(pa.field(mark, pa.bool_())))


def wrong_mark(mark: str | None, layout: Layout) -> str:
    """Why a table with these columns cannot have this one mark its deleted rows; empty where it can."""
    if mark is None or mark in layout.names:
        return ""
    there = next((name for name in layout.names if fold(name) == fold(mark)), None)
    if there is None:
        return ""
    return f"it has a column {there}, which engines take for {mark}, by which deleted rows are to be marked; have `deletes.mark` name another"


def not_deleted(upsert: Upsert, rows: pa.RecordBatch) -> pa.RecordBatch:
    """The rows, which say that they are not, unless their records say something of it themselves."""
    if upsert.mark is None or upsert.mark in rows.schema.names:
        return rows
    return rows.append_column(upsert.mark, pa.repeat(pa.scalar(False), rows.num_rows))


def saying_what_is_set(
    upsert: Upsert, rows: pa.RecordBatch, columns: Columns, lost: Sequence[str]
) -> pa.RecordBatch:
    """The rows, whose columns are those that their records' schema has, with that said of them where a row sets no others.

    `lost` are those that it has as types of which they take nothing: they are emptied.
    """
    if upsert.update == "all":
        return rows
    # What was rescued is of this record alone, as are Kafka's columns.
    set_by = [*_leaves(rows.schema), *lost, columns.rescued]
    return rows.replace_schema_metadata(present_metadata(set_by))


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
        yield from ((lacking, NULL_KEY, why) for lacking, why in keyless(keys, by_text=by_text))
    for named, reason in ((upsert.keys, NULL_KEY), (upsert.sequence_by, NULL_SEQUENCE)):
        for field in named:
            path = value_path(rows.schema, field)
            if path is None:
                everyone = np.ones(rows.num_rows, np.bool_)
                yield everyone, reason, f"its schema has no field {field} of one value"
            else:
                values = value_at(rows, path)
                yield _null(values), reason, f"field {field} has no value, or none of its column's type"
                if reason == NULL_SEQUENCE and kinds.is_floating(values.type):
                    yield _true(pc.is_nan(values)), reason, f"field {field} is not a number"
                if upsert.history is not None and field == upsert.sequence_by[0]:
                    yield _last_of_all(values), reason, f"field {field} is the last time that there is"


def _last_of_all(values: pa.Array) -> npt.NDArray[np.bool_]:
    """Which are the moment that stands for the end of what is true still: a row that began then would leave the one before it without an end."""
    if not kinds.is_timestamp(values.type):
        return np.zeros(len(values), np.bool_)
    return _true(pc.equal(values.view(pa.int64()), FOR_EVER))


def _null(values: pa.Array) -> npt.NDArray[np.bool_]:
    return _true(pc.is_null(values))


def _true(flags: pa.BooleanArray) -> npt.NDArray[np.bool_]:
    found: npt.NDArray[np.bool_] = flags.fill_null(False).to_numpy(zero_copy_only=False)
    return found
