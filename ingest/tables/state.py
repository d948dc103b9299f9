"""A Delta table as it is now: its columns, properties and version, which of its columns cannot become wider, and what it cannot be made.

delta-rs tells it in milliseconds a table; Spark does for tables whose features ask for it.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import DeltaError, TableNotFoundError
from pyarrow import fs

from distributary.errors import CommitImpossible, PipelineError
from distributary.ingest.clustering import domain
from distributary.ingest.columns.clustering import Path, sources, spelled
from distributary.ingest.columns.layout import OWN, SOURCE
from distributary.ingest.columns.partitions import partition_columns
from distributary.ingest.columns.safe_names import words_of
from distributary.ingest.merge import live_files
from distributary.ingest.parquet.statistics import INDEXED, Indexed
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.tables import conditions as native_conditions
from distributary.ingest.tables import state_by_spark as spark_tables
from distributary.ingest.tables.conditions import Definition, RowConditions
from distributary.ingest.tables.handle import opened
from distributary.values import without_logins

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Delta's field metadata are texts.
_OURS = (SOURCE.decode(), OWN.decode())


@dataclass(frozen=True, slots=True, kw_only=True)
class Arranged:
    """Which rows of a table are in files together.

    partitions  the columns that its files are told apart by
    clustering  the columns that its rows lie near each other by; None where it is no clustered table
    """

    partitions: tuple[str, ...] = ()
    clustering: tuple[Path, ...] | None = None


@dataclass(frozen=True, slots=True)
class TableState(Arranged):
    """One Delta table at one version.

    place       the table's folder, open
    version     the Delta version this was read at
    layout      all columns, the Kafka ones included; metadata `distributary.source` where a column was renamed, `distributary.own` where no payload has it
    why_not     in words why delta-rs may not append to it; empty where it may
    conditions  what the table puts on its rows
    properties  the table's configuration, such as `distributary.entity`
    comment     what it says of itself
    """

    place: Files
    version: int
    layout: pa.Schema
    why_not: str
    conditions: RowConditions
    properties: Mapping[str, str]
    comment: str = ""

    @property
    def native(self) -> bool:
        """Whether delta-rs may append to it."""
        return not self.why_not

    @property
    def native_partitions(self) -> tuple[str, ...]:
        """The columns that its files are told apart by before they become part of it; none where Spark's writer does that."""
        return self.partitions if self.native else ()


def read_state(table: At, spark: SparkSession | None = None) -> TableState | None:
    """The table's state now; None where there is no table.

    Raises PipelineError for a table that delta-rs cannot open when no `spark` is given to read it with.
    """
    place = files_at(table)
    try:
        return state_of(opened(place), place)
    except TableNotFoundError:
        return None
    except DeltaError as error:
        if spark is None:
            raise PipelineError(
                f"table {place}: delta-rs cannot open it ({without_logins(str(error))}); it needs Spark to be read"
            ) from error
        version, definition = spark_tables.definition(spark, place)
        reason = native_conditions.why_not_native(definition) or "delta-rs cannot open it"
        return _state(place, version, definition, reason)


def state_of(handle: DeltaTable, place: Files) -> TableState:
    """The state of the very version that `handle` holds."""
    metadata, protocol = handle.metadata(), handle.protocol()
    definition = Definition(
        fields=json.loads(handle.schema().to_json())["fields"],
        configuration=metadata.configuration,
        partition_columns=tuple(metadata.partition_columns),
        writer_version=protocol.min_writer_version,
        features=frozenset((protocol.writer_features or []) + (protocol.reader_features or [])),
        comment=metadata.description or "",
    )
    return _state(place, handle.version(), definition, native_conditions.why_not_native(definition))


def _state(place: Files, version: int, definition: Definition, why_not: str) -> TableState:
    return TableState(
        place=place,
        version=version,
        layout=_layout(definition),
        why_not=why_not,
        conditions=native_conditions.row_conditions(definition),
        properties=dict(definition.configuration),
        comment=definition.comment,
        partitions=tuple(definition.partition_columns),
        clustering=domain.clustered_by(place, version, definition.fields)
        if domain.FEATURE in definition.features
        else None,
    )


def _layout(definition: Definition) -> pa.Schema:
    plain = {"type": "struct", "fields": [_without_foreign_metadata(field) for field in definition.fields]}
    return pa.schema(DeltaSchema.from_json(json.dumps(plain)).to_arrow())


def _without_foreign_metadata(part: Any) -> Any:
    """The field or type with everything nullable and no metadata but ours: a layout compares by names and types."""
    if not isinstance(part, dict):
        return part
    kept = dict(part)
    for key in ("type", "elementType", "keyType", "valueType"):
        kept[key] = _without_foreign_metadata(part[key]) if key in part else None
    if "fields" in part:
        kept["fields"] = [_without_foreign_metadata(field) for field in part["fields"]]
    if "metadata" in part:
        kept["metadata"] = {k: v for k, v in part["metadata"].items() if k in _OURS}
    kept |= {key: True for key in ("nullable", "containsNull", "valueContainsNull") if key in part}
    return {key: value for key, value in kept.items() if value is not None}


# What Delta keeps readable for Iceberg, whose types grow by other rules.
_ICEBERG = ("delta.enableIcebergCompatV1", "delta.enableIcebergCompatV2")


def fixed_columns(state: TableState) -> frozenset[str]:
    """Top-level columns that must keep their types: those that constraints and generated columns name, generated ones, and those of partitions.

    By the words of the expressions, so that rather one too many is fixed than one too few.
    """
    if any(state.properties.get(name, "").lower() == "true" for name in _ICEBERG):
        return frozenset(state.layout.names)
    words = {word for expression in _expressions(state) for word in words_of(expression)}
    named = {name for name in state.layout.names if words and words_of(name) <= words}
    return frozenset({*named, *state.conditions.generated, *state.conditions.identity, *state.partitions})


def _expressions(state: TableState) -> Iterator[str]:
    yield from (
        text for key, text in state.properties.items() if key.startswith(native_conditions.CONSTRAINT)
    )
    yield from state.conditions.generated.values()


def table_folder(table: DeltaTable) -> fs.FileSystem | None:
    """Where a table's files are, for `to_pyarrow_dataset`, `to_pyarrow_table` and Arrow's own datasets.

    Left to itself, delta-rs has Arrow's threads call Python for each read. Those that read ahead of somebody who stops
    early are then without an interpreter when the process ends, and hang it or abort it. None, which leaves it to itself,
    where Arrow would need options of its own to get there.
    """
    if not table.table_uri.startswith("file:"):
        return None
    root, path = fs.FileSystem.from_uri(table.table_uri)
    return fs.SubTreeFileSystem(path, root)


def require_partitions(state: TableState, spec: TableSpec, day: str | None) -> None:
    """Raises CommitImpossible where a table that is there is partitioned otherwise than the settings say; `day` is the column of the day in Kafka."""
    wanted = spec.partition_by
    columns = partition_columns(wanted, state.layout, day)
    if not wanted or (len(columns) == len(wanted) and set(columns) == set(state.partitions)):
        return
    if spec.upsert is not None and is_bare(state):
        # Nothing but records that take rows away came yet: it gets them with its columns, or its first rows.
        return
    have = f"partitioned by {', '.join(state.partitions)}" if state.partitions else "not partitioned"
    have = f"clustered by {spelled(state.clustering)}" if state.clustering else have
    raise CommitImpossible(
        f"table {state.place} is {have}, and {spec.setting}.partition_by says {', '.join(wanted)}, which a table is given when it is made. "
        "Take partition_by away to go on with it as it is; or move the table away, or have route.table name another, and read the topics once "
        "more with a new checkpoint and `start: again`"
    )


def is_bare(state: TableState) -> bool:
    """Whether a table is in no partitions, and nothing is in it."""
    if not state.native or state.partitions or state.clustering is not None:
        return False
    return not len(live_files.read(state.place, state.version))


def require_clustering(state: TableState, spec: TableSpec) -> None:
    """Raises CommitImpossible where a table that is there cannot be clustered as the settings say: it is in partitions, or a column has no statistics."""
    if spec.cluster_by is None or not spec.cluster_by.fields:
        return
    by, wanted = spec.cluster_by.setting, ", ".join(spec.cluster_by.fields)
    if state.partitions:
        raise CommitImpossible(
            f"table {state.place} is partitioned by {', '.join(state.partitions)}, and {by} says {wanted}: Delta has no table that is both. "
            "Have a rule for it that says `cluster_by: []` to go on with it as it is; or move the table away, or have route.table name another, "
            "and read the topics once more with a new checkpoint and `start: again`"
        )
    indexed = Indexed.told(
        {**state.properties, **spec.properties}, sources(state.layout, state.clustering or ())
    )
    if untold := [
        ".".join(path)
        for path in spec.cluster_by.paths(state.layout)
        if not indexed.has_column(state.layout, path)
    ]:
        raise CommitImpossible(
            f"table {state.place}: {by} says {', '.join(untold)}, of which its files tell no bounds: it is behind the first {indexed.first} columns. "
            f"Set the property {INDEXED} to more, or to -1 for all columns; or take it from cluster_by"
        )
