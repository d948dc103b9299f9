"""The Delta tables as they are now: reading their state, creating them, adding columns.

delta-rs does it in milliseconds a table; Spark does it for tables whose features ask for it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import CommitProperties, DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, DeltaError, TableNotFoundError
from tenacity import retry, retry_if_exception_type, stop_after_attempt, wait_random

from distributary.errors import CommitImpossible, PipelineError
from distributary.ingest import native_conditions, spark_tables
from distributary.ingest.delta_log import create_actions, entry, put_entry
from distributary.ingest.native_conditions import Definition
from distributary.ingest.table_schema import Misfit, misfits, only_wider, storable
from distributary.ingest.wider_columns import widen_columns

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Path = str | os.PathLike[str]

# delta-rs checkpoints every 100 commits by default; opening a table then costs 15 ms after 100 commits instead of 3.
_CREATED_WITH = {"delta.checkpointInterval": "25"}
# Key of the Delta field metadata that holds the payload's own name of a renamed column.
_SOURCE = "distributary.source"
_ATTEMPTS = 20


@dataclass(frozen=True, slots=True)
class TableState:
    """One Delta table at one version.

    path               the table's folder
    layout             all columns, the Kafka ones included; metadata `distributary.source` where a column was renamed
    native             delta-rs may append to it
    why_not            in words why it may not; empty when native
    checks             SQL booleans; the table takes a row only if each is true (a NULL is a violation)
    version            the Delta version this was read at
    generated          generated columns and their SQL expressions
    identity           columns that the writer numbers itself
    partition_columns  names of the partition columns, in order
    properties         the table's configuration, such as `distributary.entity`
    """

    path: str
    layout: pa.Schema
    native: bool
    why_not: str
    checks: tuple[str, ...]
    version: int
    generated: Mapping[str, str]
    identity: tuple[str, ...]
    partition_columns: tuple[str, ...]
    properties: Mapping[str, str]


def read_state(path: Path, spark: SparkSession | None = None) -> TableState | None:
    """The table's state now; None where there is no table.

    Raises PipelineError for a table that delta-rs cannot open when no `spark` is given to read it with.
    """
    try:
        return state_of(DeltaTable(path), path)
    except TableNotFoundError:
        return None
    except DeltaError as error:
        if spark is None:
            raise PipelineError(
                f"table {path}: delta-rs cannot open it ({error}); it needs Spark to be read"
            ) from error
        version, definition = spark_tables.definition(spark, os.fspath(path))
        reason = native_conditions.why_not_native(definition) or "delta-rs cannot open it"
        return _state(path, version, definition, reason)


def state_of(handle: DeltaTable, path: Path) -> TableState:
    """The state of the very version that `handle` holds."""
    metadata, protocol = handle.metadata(), handle.protocol()
    definition = Definition(
        fields=json.loads(handle.schema().to_json())["fields"],
        configuration=metadata.configuration,
        partition_columns=tuple(metadata.partition_columns),
        writer_version=protocol.min_writer_version,
        features=frozenset((protocol.writer_features or []) + (protocol.reader_features or [])),
    )
    return _state(path, handle.version(), definition, native_conditions.why_not_native(definition))


def _state(path: Path, version: int, definition: Definition, why_not: str) -> TableState:
    return TableState(
        path=os.fspath(path),
        layout=_layout(definition),
        native=not why_not,
        why_not=why_not,
        checks=native_conditions.checks(definition),
        version=version,
        generated=native_conditions.generated_columns(definition),
        identity=native_conditions.identity_columns(definition),
        partition_columns=tuple(definition.partition_columns),
        properties=dict(definition.configuration),
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
        kept["metadata"] = {k: v for k, v in part["metadata"].items() if k == _SOURCE}
    kept |= {key: True for key in ("nullable", "containsNull", "valueContainsNull") if key in part}
    return {key: value for key, value in kept.items() if value is not None}


def create(
    path: Path, schema: pa.Schema, properties: Mapping[str, str], like: TableState | None = None
) -> TableState | None:
    """A table with these columns, all nullable, and this configuration; one that is there gets the columns it lacks.

    `like` is a table just made with the same columns: a copy of its beginning costs a fraction. Gives the new table's
    state, None for one that was there. Raises BadSchema where Delta cannot store the schema, CommitImpossible where
    the table there contradicts it.
    """
    configuration = {**_CREATED_WITH, **properties}
    if not DeltaTable.is_deltatable(os.fspath(path)):
        made = _created(path, schema, configuration) if like is None else _copied(path, like, configuration)
        if made is not None:
            return made
    evolve(path, schema)
    return None


def _created(path: Path, schema: pa.Schema, configuration: Mapping[str, str]) -> TableState | None:
    try:
        handle = DeltaTable.create(
            os.fspath(path),
            storable(schema),
            configuration=configuration,
            # Keys of ours are unknown to Delta, which refuses them unless told otherwise.
            raise_if_key_not_exists=False,
            # Tried again after a rival's, it would be version 1 and replace the rival's columns without an error.
            commit_properties=CommitProperties(max_commit_retries=0),
        )
    except DeltaError:  # one that appeared meanwhile is as good as ours
        if not DeltaTable.is_deltatable(os.fspath(path)):
            raise
        return None
    return state_of(handle, path)


def _copied(path: Path, like: TableState, configuration: Mapping[str, str]) -> TableState | None:
    os.makedirs(os.path.join(path, "_delta_log"), exist_ok=True)
    if not put_entry(path, 0, create_actions(entry(like.path, 0), configuration)):
        return None
    return replace(like, path=os.fspath(path), properties=configuration)


@retry(
    retry=retry_if_exception_type(CommitFailedError),
    stop=stop_after_attempt(_ATTEMPTS),
    wait=wait_random(0, 0.05),
    reraise=True,
)
def evolve(
    path: Path, schema: pa.Schema, spark: SparkSession | None = None, *, widen: bool = False
) -> tuple[str, ...]:
    """Adds what `schema` has and the table lacks, in structs, list elements and map values too.

    Returns the dotted paths added; nothing is done where nothing lacks, and nothing is ever removed. Changed is only
    with `widen` the type of a column that Delta can make as wide as `schema` has it, which takes Spark.
    Raises CommitImpossible where a column of the table has another type than in `schema`, or the table is gone.
    """
    state = read_state(path, spark)
    if state is None:
        raise CommitImpossible(
            f"table {path} is gone, so no column can be added; run again to have it made anew"
        )
    if widen:
        state = _with_wider_columns(state, schema, spark)
    lacking = _lacking(state, schema)
    if not lacking:
        return ()
    tops = {misfit.top for misfit in lacking}
    # Only these: names that Delta refuses elsewhere are fine in a table with column mapping.
    new = storable(pa.schema([field for field in schema if field.name in tops]))
    merged = pa.unify_schemas([state.layout, new], promote_options="permissive")
    if state.native:
        columns = pa.schema([merged.field(name) for name in new.names])
        DeltaTable(path).alter.add_columns(DeltaSchema.from_arrow(columns).fields)
    elif spark is not None:
        spark_tables.add_columns(spark, state.path, merged, state.identity)
    else:
        raise PipelineError(
            f"table {path} needs Spark to take the columns {_paths(lacking)}: {state.why_not}"
        )
    return tuple(misfit.path for misfit in lacking)


def _with_wider_columns(state: TableState, wanted: pa.Schema, spark: SparkSession | None) -> TableState:
    if spark is None:
        raise PipelineError(f"table {state.path} needs Spark to have wider columns")
    if not widen_columns(spark, state.path, state.layout, wanted):
        return state
    after = read_state(state.path, spark)
    if after is None:
        raise CommitImpossible(f"table {state.path} is gone; run again to have it made anew")
    return after


def _lacking(state: TableState, wanted: pa.Schema) -> list[Misfit]:
    found = list(misfits(state.layout, wanted))
    if contradictions := [
        str(misfit) for misfit in found if misfit.have is not None and not only_wider(misfit)
    ]:
        raise CommitImpossible(
            f"table {state.path} cannot take the columns wanted: {'; '.join(contradictions)}; it was altered by "
            "another hand. Change it back, or move the table away to have it made anew"
        )
    return [misfit for misfit in found if misfit.have is None]


def _paths(lacking: list[Misfit]) -> str:
    return ", ".join(misfit.path for misfit in lacking)
