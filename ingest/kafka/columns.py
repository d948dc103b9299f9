"""The columns that an entity's table has beside its payload's, and a table's columns with and without them.

Those that say where a row came from are the first, so that later columns follow them; the rescued values are the last.
"""

from __future__ import annotations

from collections.abc import Container

import pyarrow as pa

from distributary.ingest.columns.layout import NO_FIELD, SOURCE, Layout, is_own, source_of
from distributary.ingest.kafka.records import TEXT, TIMESTAMP
from distributary.ingest.settings.groups import Columns


def kafka_fields(columns: Columns) -> list[pa.Field]:
    """Topic, partition, offset, timestamp, key and schema id, by the names the settings give them; the key's text and the day if wanted."""
    text = [] if columns.key_text is None else [pa.field(columns.key_text, pa.string())]
    day = [] if columns.kafka_date is None else [pa.field(columns.kafka_date, pa.date32())]
    return [
        pa.field(columns.kafka_topic, pa.string()),
        pa.field(columns.kafka_partition, pa.int32()),
        pa.field(columns.kafka_offset, pa.int64()),
        pa.field(columns.kafka_ts, TIMESTAMP),
        pa.field(columns.kafka_key, pa.binary()),
        pa.field(columns.schema_id, pa.int64()),
        *text,
        *day,
    ]


def kafka_arrays(columns: Columns, raw: pa.RecordBatch, schema_ids: pa.Int64Array) -> list[pa.Array]:
    """The same columns of these records; `schema_ids` are those of their schemas."""
    text = [] if columns.key_text is None else [raw[TEXT]]
    day = [] if columns.kafka_date is None else [raw["ts"].cast(pa.date32())]
    return [*(raw[name] for name in ("topic", "partition", "offset", "ts", "key")), schema_ids, *text, *day]


def table_schema(columns: Columns, layout: Layout) -> pa.Schema:
    """All columns of an entity's table whose payload columns are `layout`."""
    return pa.schema([*kafka_fields(columns), *(_as_stored(columns, column) for column in layout.columns)])


def payload_layout(columns: Columns, table: pa.Schema) -> Layout:
    """The payload columns of a table, the column of rescued values among them if there is one."""
    own = {field.name for field in kafka_fields(columns)}
    kept = [field for field in table if field.name not in own]
    # A field is elsewhere where its own name was taken: by a column of ours, as the settings called it then.
    elsewhere = {source_of(field) for field in kept if field.metadata and source_of(field) != field.name}
    return Layout(pa.schema([_as_read(columns, field, elsewhere) for field in kept]))


def with_rescued(columns: Columns, layout: Layout) -> Layout:
    """The layout with the column of rescued values."""
    if columns.rescued in layout.names:
        return layout
    return Layout(layout.columns.append(_nobodys(pa.field(columns.rescued, pa.string()))))


def of_records(columns: Columns, layout: Layout) -> Layout:
    """The layout without the column of rescued values, and without those that no record has: what a record's columns are held against."""
    kept = [column for column in layout.columns if column.name != columns.rescued and not _is_nobodys(column)]
    return layout if len(kept) == len(layout.columns) else Layout(pa.schema(kept))


def _as_read(columns: Columns, column: pa.Field, elsewhere: Container[str]) -> pa.Field:
    if column.name == columns.rescued:
        return _nobodys(column)
    taken = column.name in elsewhere and source_of(column) == column.name
    return _nobodys(column, column.name) if taken else column


def _nobodys(column: pa.Field, which: str = "") -> pa.Field:
    """The column as one that no field of a payload is for: a field of its name has a column of another name. `which` tells it from others of a table."""
    return column.with_metadata({SOURCE: f"{NO_FIELD}{which}".encode("utf-8", "surrogatepass")})


def _is_nobodys(column: pa.Field) -> bool:
    return source_of(column).startswith(NO_FIELD)


def _as_stored(columns: Columns, column: pa.Field) -> pa.Field:
    ours = column.name == columns.rescued or (_is_nobodys(column) and not is_own(column))
    return column.remove_metadata() if ours else column
