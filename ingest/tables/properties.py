"""What a table says of itself, made what the settings say: its properties and its comment, by one entry in its log.

The entry is the version after the one that was looked at, so that nobody's change in between is lost, and a table that says all of it
already gets none: it can be done again without harm.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deltalake import DeltaTable
from deltalake import Schema as DeltaSchema
from deltalake.exceptions import CommitFailedError, TableNotFoundError
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from distributary.errors import CommitImpossible, PipelineError
from distributary.ingest.clustering.domain import FEATURES, clustering_action
from distributary.ingest.columns.clustering import spelled
from distributary.ingest.columns.delta_schema import with_columns
from distributary.ingest.merge import live_files
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.tables.conditions import quoted
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.known import TableBook, with_topics
from distributary.ingest.tables.log import ENGINE, entry, is_read, put_entry
from distributary.ingest.tables.state import TableState, read_state, state_of
from distributary.ingest.tables.state_by_spark import path_for_spark, require_delta

COMMENT = "comment"
"""What a table's comment is called among its properties; no property has this name."""

CLUSTERED = "cluster_by"
"""What the columns are called there that its rows lie near each other by; no property of a table of ours has this name."""

_ATTEMPTS = 20

# Properties that take a feature: its name, and the writer version that has it without being told.
# https://github.com/delta-io/delta/blob/master/PROTOCOL.md#writer-version-requirements
_FEATURES: Mapping[str, tuple[str, int]] = {
    "delta.appendOnly": ("appendOnly", 2),
    "delta.enableChangeDataFeed": ("changeDataFeed", 4),
}

# The one from which on a table lists its features, and those that it has without doing so before.
_LISTED = 7
_IMPLIED = (
    ("appendOnly", 2),
    ("invariants", 2),
    ("checkConstraints", 3),
    ("changeDataFeed", 4),
    ("generatedColumns", 4),
    ("columnMapping", 5),
    ("identityColumns", 6),
)

_NTZ = "timestampNtz"


@dataclass(frozen=True, slots=True)
class Setting:
    """A property, or the comment, that a table has otherwise than the settings say.

    before, after  its values; None where it has none, or is to have none
    """

    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class Retelling:
    """A table that is to say something else of itself, and by which rule."""

    folder: str
    entity: str
    spec: TableSpec
    settings: tuple[Setting, ...]


def differing(state: TableState, spec: TableSpec) -> tuple[Setting, ...]:
    """What a table has otherwise than it is to be."""
    return tuple(_differing(state, spec))


def _differing(state: TableState, spec: TableSpec) -> Iterator[Setting]:
    for name, wanted in spec.properties.items():
        have = state.properties.get(name)
        if have != wanted:
            yield Setting(name, have, wanted)
    if spec.comment is not None and spec.comment != state.comment:
        yield Setting(COMMENT, state.comment or None, spec.comment or None)
    # One that is in partitions is told of by its name, and never gets it.
    if spec.cluster_by is not None and not state.partitions:
        have_by, by = state.clustering or (), spec.cluster_by.paths(state.layout)
        if by != have_by:
            yield Setting(CLUSTERED, spelled(have_by), spelled(by))


def features_of(spec: TableSpec) -> frozenset[str]:
    """The features that a table is made with for its properties: tables with others have another protocol."""
    vectors = frozenset() if spec.upsert is None else frozenset(["deletionVectors"])
    return vectors | frozenset(
        feature for name, (feature, _) in _FEATURES.items() if spec.properties.get(name) == "true"
    )


class Retellings:
    """Which tables are to say something else of themselves; one that says what it is to is not looked at again in a run."""

    def __init__(self, tables: TableBook) -> None:
        self._tables = tables
        self._right: set[str] = set()

    def wanted(self, entities: Mapping[str, str]) -> list[Retelling]:
        """Those of these tables, each by its folder with its entity; of one that is not there nothing is wanted."""
        asked = [folder for folder in entities if folder not in self._right]
        found = []
        for folder, state in self._tables.states(asked).items():
            made_with = self._tables.made_with
            spec = with_topics(state, made_with.spec_of(entities[folder]), made_with.topics_of(folder))
            settings = differing(state, spec)
            if settings:
                found.append(Retelling(folder, entities[folder], spec, settings))
            elif spec.cluster_by is None or len(spec.cluster_by.fields) == len(state.clustering or ()):
                # Otherwise a column that it is to be clustered by may come yet.
                self._right.add(folder)
        return found


def retell(table: At, spec: TableSpec, spark: SparkSession | None = None) -> tuple[Setting, ...]:
    """Has the table say what it is to, and gives what that changed.

    Raises CommitImpossible where it is gone or nobody may do that, PipelineError where others were first again and again.
    """
    place = files_at(table)
    for _ in range(_ATTEMPTS):
        state = read_state(place, spark)
        if state is None:
            raise CommitImpossible(f"table {place} is gone; run again to have it made anew")
        found = differing(state, spec)
        if not found:
            return ()
        if not state.native:
            _retell_by_spark(spark, state, spec, found)
            return found
        if _put(place, found, spec):
            return found
    raise PipelineError(f"table {place}: {_ATTEMPTS} times another writer was first; it is tried again")


def _put(place: Files, found: Sequence[Setting], spec: TableSpec) -> bool:
    """One entry for all of them; False where another one was first, or the table is otherwise by now."""
    try:
        handle = opened(place)
    except TableNotFoundError:
        return False
    state = state_of(handle, place)
    if differing(state, spec) != tuple(found):
        return False
    given = {one.name: one.after for one in found if one.name != CLUSTERED}
    clustering = [one for one in found if one.name == CLUSTERED]
    paths = () if spec.cluster_by is None else spec.cluster_by.paths(state.layout)
    wanted = [_FEATURES[name] for name, value in given.items() if name in _FEATURES and value == "true"]
    protocol = _protocol(handle, [*wanted, *((name, _LISTED) for name in FEATURES if clustering)])
    actions = [
        _by_us("SET TBLPROPERTIES", {"properties": json.dumps(given)})
        if given
        else _by_us("CLUSTER BY", _columns_told(clustering)),
        *([] if protocol is None else [{"protocol": protocol}]),
        *([{"metaData": _metadata(handle, given)}] if given else []),
        *([clustering_action(paths)] if clustering else []),
    ]
    return _put_read(place, handle.version() + 1, actions)


def _put_read(place: Files, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
    """Whether these actions are the next version now: who stood still finds the number of one that was cleaned up free."""
    return put_entry(place, version, actions) and is_read(place, version)


def put_columns(
    place: Files, handle: DeltaTable, columns: DeltaSchema, partitions: Sequence[str] = ()
) -> None:
    """Give the table that `handle` has open what it lacks of these columns, as delta-rs does only where it knows all features.

    partitions  those that it is in partitions by from then on, as nothing is in it yet; none: as it is

    Raises CommitFailedError where somebody else was first, and CommitImpossible where there is something in it that is in no partition.
    """
    if partitions and len(live_files.read(place, handle.version())):
        raise CommitImpossible(f"table {place} has rows by now that are in no partition: move it away")
    have = json.loads(handle.schema().to_json())
    more = json.loads(columns.to_json())
    schema = json.dumps({**have, "fields": with_columns(have["fields"], more["fields"])}, ensure_ascii=False)
    actions = [
        _by_us("ADD COLUMNS", {"columns": json.dumps([field["name"] for field in more["fields"]])}),
        *actions_of_columns(handle, schema, partitions),
    ]
    if not _put_read(place, handle.version() + 1, actions):
        raise CommitFailedError(f"table {place}: another writer was first")
    require_altered(place, handle.version() + 1, columns, partitions)


def require_altered(place: Files, version: int, columns: DeltaSchema, partitions: Sequence[str] = ()) -> None:
    """Raises CommitFailedError where an entry without these columns and partitions took the place of the one by which a table got them, as Spark's own store does it in a folder."""
    if place.remote:
        return
    # Another writer's may say something else of the table, as `SET TBLPROPERTIES` does.
    told = [action["metaData"] for action in entry(place, version) if "metaData" in action]
    told = [one for one in told if not partitions or one["partitionColumns"] == list(partitions)]
    have = [json.loads(one["schemaString"])["fields"] for one in told]
    more = json.loads(columns.to_json())["fields"]
    if not any(with_columns(fields, more) == fields for fields in have):
        raise CommitFailedError(f"table {place}: another writer's entry took the place of version {version}")


def actions_of_columns(
    handle: DeltaTable, schema: str, partitions: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """What an entry has that gives a table other columns: it stays the one that it is, with what it says of itself and needs of readers and writers."""
    told_apart = {"partitionColumns": list(partitions)} if partitions else {}
    protocol = _protocol(handle, [(_NTZ, _LISTED)] if '"timestamp_ntz"' in schema else [])
    return [
        *([] if protocol is None else [{"protocol": protocol}]),
        {"metaData": {**_metadata(handle, {}), "schemaString": schema, **told_apart}},
    ]


def _columns_told(found: Sequence[Setting]) -> dict[str, str]:
    """As Spark tells of it."""
    return {
        "oldClusteringColumns": (found[0].before or "").replace(", ", ","),
        "newClusteringColumns": (found[0].after or "").replace(", ", ","),
    }


def _by_us(operation: str, parameters: Mapping[str, str]) -> dict[str, Any]:
    return {
        "commitInfo": {
            "timestamp": int(time.time() * 1000),
            "operation": operation,
            "operationParameters": parameters,
            "isBlindAppend": False,
            "engineInfo": ENGINE,
            # Its writer's own, as that of an append.
            "txnId": str(uuid.uuid4()),
        }
    }


def _metadata(handle: DeltaTable, given: Mapping[str, str | None]) -> dict[str, Any]:
    metadata = handle.metadata()
    properties = {**metadata.configuration, **{name: to for name, to in given.items() if name != COMMENT}}
    whole = {
        "id": metadata.id,
        "name": metadata.name,
        "description": given.get(COMMENT, metadata.description),
        "format": {"provider": "parquet", "options": {}},
        "schemaString": handle.schema().to_json(),
        "partitionColumns": metadata.partition_columns,
        "createdTime": metadata.created_time,
        "configuration": {name: value for name, value in properties.items() if value is not None},
    }
    return {name: value for name, value in whole.items() if value is not None}


def _protocol(handle: DeltaTable, wanted: Sequence[tuple[str, int]]) -> dict[str, Any] | None:
    """The protocol that a table needs for features, each with the writer version that has it without being told; None where it has it."""
    now = handle.protocol()
    if now.min_writer_version < _LISTED:
        version = max([now.min_writer_version, *(version for _, version in wanted)])
        if version == now.min_writer_version:
            return None
        if version < _LISTED:
            return {"minReaderVersion": now.min_reader_version, "minWriterVersion": version}
        listed = [name for name, since in _IMPLIED if since <= now.min_writer_version]
    else:
        listed = [*(now.writer_features or [])]
    lacking = [feature for feature, _ in wanted if feature not in listed]
    if not lacking:
        return None
    # The only one of these that readers have to know.
    read = [_NTZ] if _NTZ in lacking else []
    if read or now.reader_features is not None:
        mapped = ["columnMapping"] if now.min_reader_version == 2 else []
        before = mapped if now.reader_features is None else now.reader_features
        readers: dict[str, Any] = {"minReaderVersion": 3, "readerFeatures": [*before, *read]}
    else:
        readers = {"minReaderVersion": now.min_reader_version}
    return {**readers, "minWriterVersion": _LISTED, "writerFeatures": [*listed, *lacking]}


def _retell_by_spark(
    spark: SparkSession | None, state: TableState, spec: TableSpec, found: Sequence[Setting]
) -> None:
    """The same of a table whose log takes more than an entry of ours."""
    why = f"{', '.join(one.name for one in found)} would be set"
    path = path_for_spark(state.place, why)
    if spark is None:
        raise PipelineError(f"table {state.place}: {why}, and it needs Spark for it: {state.why_not}")
    require_delta(spark, state.place, why)
    table = f"delta.{quoted(path)}"
    # An empty comment is none to Delta.
    clustering = [one for one in found if one.name == CLUSTERED]
    told = [one for one in found if one.name != CLUSTERED]
    sets = [(one.name, one.after or "") for one in told if one.after is not None or one.name == COMMENT]
    gone = [one.name for one in told if one.after is None and one.name != COMMENT]
    try:
        if clustering and spec.cluster_by is not None:
            by = spec.cluster_by.paths(state.layout)
            columns = ", ".join(".".join(map(quoted, path)) for path in by)
            spark.sql(f"ALTER TABLE {table} CLUSTER BY {f'({columns})' if columns else 'NONE'}")
        if sets:
            given = ", ".join(f"{_text(name)} = {_text(value)}" for name, value in sets)
            spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({given})")
        if gone:
            names = ", ".join(map(_text, gone))
            spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ({names})")
    except AnalysisException as error:
        raise CommitImpossible(
            f"table {state.place}: Delta does not let {', '.join(one.name for one in found)} be set "
            f"({str(error).partition(chr(10))[0]}). Take that out of its rule, or put it right in the table"
        ) from None


def _text(value: str) -> str:
    """A text as SQL spells it."""
    escaped = value.replace("\\", "\\\\").replace("'", "\\'")
    # Spark puts a variable's value, such as one of the environment, in the place of its name before it reads the statement.
    return "'" + escaped.replace("${", "\\u0024{") + "'"
