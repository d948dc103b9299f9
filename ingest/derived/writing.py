"""A data frame as a derived table's next version: files by Spark's workers, and one entry of ours that has them in the place of those before."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql.types import ArrayType, DataType, MapType, StructType

from distributary.codecs.types.walk import children, rebuilt
from distributary.errors import PipelineError
from distributary.ingest import failpoints
from distributary.ingest.clustering.writing import Made, Target, Written
from distributary.ingest.columns.delta_schema import commented
from distributary.ingest.columns.safe_names import column_name
from distributary.ingest.derived.told import TOLD, Told, Transaction
from distributary.ingest.log_paths import LOG, entry_path
from distributary.ingest.merge import live_files
from distributary.ingest.merge.entry import removal
from distributary.ingest.parquet.statistics import EACH_COLUMN
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import ENGINE, clocks, first_actions, is_read, put_entry
from distributary.ingest.tables.properties import actions_of_columns

_ROWS_IN_A_FILE = 5_000_000

_MADE = "name string, bytes long, rows long, statistics string"

# What every Delta table can have as a column.
_COLUMNS = frozenset(
    {
        *("string", "binary", "boolean", "byte", "short", "integer", "long", "float", "double", "decimal"),
        *("date", "timestamp", "timestamp_ntz", "array", "map", "struct"),
    }
)

# What is said of each column, and of what is within.
_SAME: Mapping[str, Any] = {
    "nullable": True,
    "containsNull": True,
    "valueContainsNull": True,
    "metadata": {},
}

# What to do about another type of Spark's.
_NO_COLUMNS = {
    "void": "it has no type; write cast(NULL AS STRING) or the like",
    "interval": "Delta has no intervals; make a number of seconds of it",
    "variant": "write to_json(…)",
    "": "write cast(… AS STRING)",
}


@dataclass(frozen=True, slots=True)
class Replacing:
    """What is to become of a derived table.

    place         where it is
    version       its newest version; None where there is none yet
    schema        its columns there, as Spark's JSON has them
    properties    what it says of itself where it is made
    told          what the new version is made of
    adds          whether the rows that are there stay
    transactions  what the log is to remember beside it
    says_more     whether it says of something in its columns that it is never null, as those did that were made before
    """

    place: Files
    version: int | None
    schema: str | None
    properties: Mapping[str, str]
    told: Told
    adds: bool = False
    transactions: Sequence[Transaction] = ()
    says_more: bool = False


@dataclass(frozen=True, slots=True)
class Replaced:
    """A version that was made, and how many rows it has."""

    version: int
    rows: int
    actions: list[dict[str, Any]]


def schema_text(schema: StructType) -> str:
    """The columns as a table's log has them: every one may be null, so may what is in it, and nothing is said of it."""
    return json.dumps(json.loads(schema.json(), object_hook=_plainly))


def _plainly(told: dict[str, Any]) -> dict[str, Any]:
    # Spark says of what an expression makes that it is never null: in a struct that is null it is, and other rows' expressions say otherwise.
    return {name: _SAME.get(name, value) for name, value in told.items()}


def require_columns(table: str, schema: StructType) -> None:
    """Raises PipelineError for columns that no table can have, or that are called alike."""
    for field in schema.fields:
        if column_name(field.name, frozenset()) != field.name:
            raise PipelineError(
                f"derive {table}: Delta takes no column called {field.name!r}; give it a name by AS"
            )
    for path, kind in _types("", schema):
        if isinstance(kind, StructType):
            called = [name.lower() for name in kind.names]
            if twice := sorted({name for name in called if called.count(name) > 1}):
                where = f" within {path}" if path else ""
                raise PipelineError(
                    f"derive {table}: there are several columns called {', '.join(twice)}{where}; give them other names by AS"
                )
        if kind.typeName() not in _COLUMNS:
            why = next(why for name, why in _NO_COLUMNS.items() if name in kind.typeName())
            raise PipelineError(f"derive {table}: column {path} is of type {kind.typeName()}: {why}")


def _types(path: str, kind: DataType) -> Iterator[tuple[str, DataType]]:
    """A type and those within it, each with where it is."""
    yield path, kind
    if isinstance(kind, StructType):
        for field in kind.fields:
            yield from _types(f"{path}.{field.name}" if path else field.name, field.dataType)
    elif isinstance(kind, ArrayType):
        yield from _types(path, kind.elementType)
    elif isinstance(kind, MapType):
        yield from _types(path, kind.keyType)
        yield from _types(path, kind.valueType)


def replace(frame: DataFrame, one: Replacing) -> Replaced | None:
    """The version that has a data frame's rows in the place of all before; None where somebody else changed the table meanwhile.

    It survives a loss of power when this returns. Files of an attempt that came to nothing are no table's, and go as others of that kind do.
    Raises PipelineError for columns that do not fit those that stay, and for files that somebody deleted meanwhile.
    """
    schema = schema_text(frame.schema)
    if one.adds and schema != one.schema:
        raise PipelineError(
            f"table {one.place}: {_differing(schema, one.schema)}; cast it in the settings to what it was, or work all out again by `distributary derive --whole`"
        )
    made = _written(frame, one.place)
    failpoints.reach(failpoints.AMID_DERIVING, -1 if one.version is None else one.version)
    began, version = clocks(), 0 if one.version is None else one.version + 1
    actions = _actions(one, made, schema)
    if gone := [file.name for file in made if one.place.info(file.name) is None]:
        # Of what no version names yet upkeep knows nothing, however long it takes to make.
        raise PipelineError(
            f"table {one.place}: {len(gone)} of its new files were deleted while it was made, as by upkeep with a short --older-than; it stays as it was"
        )
    if one.version is None:
        one.place.make_folder(LOG)
    if not put_entry(one.place, version, actions) or not is_read(one.place, version, began):
        one.place.delete([file.name for file in made])
        return None
    one.place.sync([entry_path(version)])
    return Replaced(version, sum(file.rows for file in made), actions)


def _differing(schema: str, before: str | None) -> str:
    """Which columns new rows have otherwise than those that are there."""
    now, had = (
        {one["name"]: one["type"] for one in json.loads(text or '{"fields": []}')["fields"]}
        for text in (schema, before)
    )
    names = sorted(name for name in now.keys() | had.keys() if now.get(name) != had.get(name))
    return f"new rows would have {', '.join(names)} of another type than those that are there"


def _written(frame: DataFrame, place: Files) -> list[Made]:
    rows = frame.mapInArrow(_writing(place), _MADE).collect()
    return [Made(row.name, row.bytes, row.rows, row.statistics) for row in rows]


def _writing(place: Files) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        written: Written | None = None
        try:
            for batch in batches:
                if batch.num_rows:
                    rows = _plain(batch)
                    written = written or Written(
                        place, Target(rows.schema, (), EACH_COLUMN, 0), _ROWS_IN_A_FILE
                    )
                    written.add(rows)
            made = [] if written is None else written.close()
            # Here may be the power that fails.
            place.sync(one.name for one in made)
        except BaseException:
            if written is not None:
                written.give_up()
            raise
        yield pa.RecordBatch.from_pylist(
            [
                {"name": one.name, "bytes": one.bytes, "rows": one.rows, "statistics": one.statistics}
                for one in made
            ],
            pa.schema(
                {"name": pa.string(), "bytes": pa.int64(), "rows": pa.int64(), "statistics": pa.string()}
            ),
        )

    return run


def _plain(batch: pa.RecordBatch) -> pa.Table:
    """The rows with nothing said of their columns, as files of a table have them."""
    table = pa.Table.from_batches([batch])
    return table.cast(pa.schema([pa.field(one.name, _may_be_null(one.type)) for one in table.schema]))


def _may_be_null(kind: pa.DataType) -> pa.DataType:
    """A type with fields of structs that may be null."""
    inside = [one.with_type(_may_be_null(one.type)) for one in children(kind)]
    if not inside:
        return kind
    return rebuilt(kind, [one.with_nullable(True) for one in inside] if pa.types.is_struct(kind) else inside)


def _actions(one: Replacing, made: list[Made], schema: str) -> list[dict[str, Any]]:
    now = int(time.time() * 1000)
    stays = one.adds or one.version is None
    gone = [] if stays or one.version is None else [add for _, add in live_files.read(one.place, one.version)]
    info = {
        "timestamp": now,
        "operation": "WRITE",
        "operationParameters": {"mode": "Append" if one.adds else "Overwrite", "partitionBy": "[]"},
        "operationMetrics": {
            "numRemovedFiles": str(len(gone)),
            "numFiles": str(len(made)),
            "numOutputRows": str(sum(file.rows for file in made)),
            "numOutputBytes": str(sum(file.bytes for file in made)),
        },
        "isBlindAppend": False,
        "engineInfo": ENGINE,
        "txnId": str(uuid.uuid4()),
        TOLD: one.told.text(),
    }
    return [
        {"commitInfo": info},
        *(
            {"txn": {"appId": told.app, "version": told.number, "lastUpdated": now}}
            for told in one.transactions
        ),
        *_definition(one, schema),
        *({"remove": removal(add, now)} for add in gone),
        *({"add": _add(file, now)} for file in made),
    ]


def _definition(one: Replacing, schema: str) -> list[dict[str, Any]]:
    """What the table is, where it was none or had other columns."""
    if one.version is not None:
        # The same table: who reads it, or was sent its rows, goes on from what it was.
        if schema == one.schema and not one.says_more:
            return []
        handle = opened(one.place)
        return actions_of_columns(handle, commented(schema, handle.schema().to_json()))
    made: list[dict[str, Any]] = first_actions(schema, one.properties)
    return [action for action in made if "commitInfo" not in action]


def _add(file: Made, now: int) -> Mapping[str, Any]:
    return {
        "path": quote(file.name),
        "partitionValues": {},
        "size": file.bytes,
        "modificationTime": now,
        "dataChange": True,
        "stats": file.statistics,
    }
