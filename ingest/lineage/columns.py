"""Where a table's columns came from: which field of a record each holds, by the name that producers know."""

from __future__ import annotations

import pyarrow as pa

from distributary.codecs.types.fields import part
from distributary.codecs.types.spark_struct import type_name
from distributary.ingest.columns.layout import OWN, SOURCE
from distributary.ingest.kafka.columns import kafka_fields
from distributary.ingest.lineage.flow import FlowColumn
from distributary.ingest.reshaping.rule import Reshape
from distributary.ingest.settings.groups import Columns

# What lands is not the value, and nobody tells that from it.
_HIDES = frozenset({"hash", "mask"})


def columns_of(layout: pa.Schema, columns: Columns, reshape: Reshape | None) -> tuple[FlowColumn, ...]:
    """A table's columns, in order, by its layout, the names of those that are not its records', and its rule."""
    others = {field.name for field in kafka_fields(columns)} | {columns.rescued}
    rule = Reshape() if reshape is None else reshape
    others |= {one.name for one in rule.added}
    hidden = {path for path, op in rule.ops if op.what in _HIDES}
    found = []
    for field in layout:
        metadata = field.metadata or {}
        if field.name in others or OWN in metadata:
            found.append(FlowColumn(field.name, type_name(field.type)))
            continue
        path = rule.came_from([metadata.get(SOURCE, field.name.encode()).decode()])
        # What is hidden within a struct makes all of it no more what it was.
        masked = any(one[: len(path)] == path for one in hidden)
        source = ".".join(map(part, path))
        found.append(FlowColumn(field.name, type_name(field.type), source, masked))
    return tuple(found)
