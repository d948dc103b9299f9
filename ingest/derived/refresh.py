"""Derived tables made current: of what was added since where that is enough, of all rows otherwise; one entry of ours a table."""

from __future__ import annotations

import importlib
import inspect
import re
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from itertools import groupby
from typing import Any, Literal, TypeAlias

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import DataFrame, SparkSession

from distributary.errors import ConfigError, DistributaryError, PipelineError
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import app_of
from distributary.ingest.checkpoint.manifests import ManifestStore
from distributary.ingest.derivation.given import OWNER
from distributary.ingest.derived.grouping import expressions, grouped, joined, kept, readable
from distributary.ingest.derived.inputs import EVERYTHING, Snapshot, Wanted, inputs_of, snapshot
from distributary.ingest.derived.instances import Entities, Instance, instances
from distributary.ingest.derived.told import Told, told_by
from distributary.ingest.derived.writing import Replacing, replace, require_columns, schema_text
from distributary.ingest.settings.model import Settings
from distributary.ingest.spark.error_classes import named
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.table_versions import Versions, versions_at
from distributary.ingest.tables.change import LOG_RETENTION, log_retention
from distributary.ingest.tables.log import entry_tag, newest_version, transactions_of
from distributary.ingest.tables.log_checkpoint import Committed, LogCheckpoints
from distributary.ingest.tables.state_by_spark import spark_schema
from distributary.values import without_logins

# Each job of Spark's waits for the driver for longer than it takes, where what was added is little.
_THREADS = 4

# Others may change a table while its rows are worked out.
_ATTEMPTS = 3

How: TypeAlias = Literal["made", "added", "current", "waits", "failed"]

# What of a query may mean columns that it does not name.
_UNNAMED = re.compile(r"\*|\b(natural|table|pivot|unpivot|transform|map|reduce)\b", re.IGNORECASE)
_COUNTED = re.compile(r"count\s*\(\s*\*\s*\)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What was done about a derived table.

    table    its folder
    how      made of all rows; those added since were added; current already; waits for a table that is not there; failed
    rows     how many it has now; None where it was left as it is
    version  its newest version; None where there is none
    inputs   the versions of the tables that it is made of, by their folders
    why      what it waits for, or why it failed
    seconds  how long it took
    """

    table: str
    how: How
    rows: int | None = None
    version: int | None = None
    inputs: Mapping[str, int] = field(default_factory=dict)
    why: str = ""
    seconds: float = 0.0


def derive(
    settings: Settings, spark: SparkSession, tables: Sequence[str] = (), *, whole: bool = False
) -> list[Refreshed]:
    """Make a pipeline's derived tables current, each behind those that it is made of, as of its newest batch that all tables have.

    settings  the pipeline's; a run of it may go on meanwhile
    spark     the session that works them out
    tables    the folders of some; none: all
    whole     whether all is worked out again, whatever is there

    One that fails keeps no other from it but those that are made of it. Raises ConfigError for a table that is none of them, PipelineError where
    the pipeline has no batch yet.
    """
    root = open_files(settings.sink.root, settings.storage)
    last = ManifestStore(Checkpoint(open_files(settings.checkpoint, settings.storage))).last()
    entities = Entities({} if last is None else last.entities, settings.route.fold_case)
    every = instances(settings.derive, entities)
    if unknown := sorted(set(tables) - {one.table for one in every}):
        known = ", ".join(one.table for one in every) or "none yet"
        raise ConfigError(f"{', '.join(unknown)}: the settings derive no such table; there are {known}")
    chosen = [one for one in every if not tables or one.table in tables]
    if not chosen:
        return []
    versions = _versions_now(root, versions_at(settings))
    properties = {
        OWNER: settings.name,
        LOG_RETENTION: log_retention(settings.sink.log_retention_days),
    }
    with closing(LogCheckpoints()) as checkpoints, ThreadPoolExecutor(_THREADS) as pool:
        round_ = _Round(root, spark, {one.table for one in every}, versions, properties, checkpoints, whole)
        # Those of one rule are of each other in no way.
        rules = groupby(chosen, lambda one: one.rule.table)
        return [done for _, alike in rules for done in pool.map(round_.refresh, alike)]


def _versions_now(root: Files, found: Versions) -> dict[str, int]:
    """The newest versions that have no later batch: upkeep may have deleted files since that a batch's own version names."""
    now = dict[str, int]()
    for one in found.tables:
        place, app, version = root.below(one.table), app_of(found.generation, one.table), one.version
        while (told := _transactions(place, version + 1)) is not None:
            if told.get(app, found.batch) > found.batch:
                break
            version += 1
        now[one.table] = version
    return now


def _transactions(place: Files, version: int) -> Mapping[str, int] | None:
    try:
        return transactions_of(place, version)
    except FileNotFoundError:
        return None


@dataclass(frozen=True, slots=True)
class _Round:
    """One round over some of them, as of one batch.

    derived   the folders of all derived tables
    versions  of the others, those of the batch
    """

    root: Files
    spark: SparkSession
    derived: set[str]
    versions: Mapping[str, int]
    properties: Mapping[str, str]
    checkpoints: LogCheckpoints
    whole: bool

    def refresh(self, one: Instance) -> Refreshed:
        """What was done about a table; its failure is among that."""
        began = time.monotonic()
        try:
            done = self._refreshed(one)
        except (DistributaryError, DeltaError, OSError) as error:
            done = Refreshed(one.table, "failed", why=without_logins(" ".join(str(error).split())))
        except (PySparkException, Py4JError) as error:
            done = Refreshed(one.table, "failed", why=_said(error))
        return _timed(done, time.monotonic() - began)

    def _refreshed(self, one: Instance) -> Refreshed:
        place = self.root.below(one.table)
        for _ in range(_ATTEMPTS):
            version, told = told_by(place)
            now = self._of_mine(place, one, version)
            at = {name: self._version(name) for name in one.inputs}
            if missing := [name for name, newest in at.items() if newest is None]:
                why = f"{', '.join(missing)} {'are' if len(missing) > 1 else 'is'} not there yet"
                return Refreshed(one.table, "waits", version=version, why=why)
            inputs = {
                name: snapshot(self.root.below(name), newest)
                for name, newest in at.items()
                if newest is not None
            }
            way = _way(one)
            had = told if told is not None and told.definition == way.definition and not self.whole else None
            if had is not None and _is_current(inputs, had):
                return Refreshed(one.table, "current", version=version, inputs=_versions(inputs))
            how, frame = self._frame(way, inputs, now, had)
            with frame as rows:
                require_columns(one.table, rows.schema)
                schema = None if now is None else _schema_of(now)
                told_now = Told(way.definition, inputs_of(inputs))
                to = Replacing(place, version, schema, self.properties, told_now)
                done = replace(rows.coalesce(self.spark.sparkContext.defaultParallelism), to)
            if done is not None:
                tag = entry_tag(place, done.version)
                changed = sum("remove" in action for action in done.actions)
                committed = Committed(place, done.version, self.properties, tag, {}, changed)
                self.checkpoints.follow(committed)
                return Refreshed(one.table, how, done.rows, done.version, _versions(inputs))
        raise PipelineError(f"{_ATTEMPTS} times somebody else changed it first; say it again")

    def _of_mine(self, place: Files, one: Instance, version: int | None) -> Snapshot | None:
        """The table as it is. Raises PipelineError where it is somebody else's."""
        if version is None:
            return None
        now = snapshot(place, version)
        owner = now.state.properties.get(OWNER)
        if owner != self.properties[OWNER]:
            whose = "it is no derived one" if owner is None else f"pipeline {owner} derives it"
            raise PipelineError(
                f"table {place} is there, and {whose}: move it away, or give {one.rule.table} another name"
            )
        return now

    def _version(self, name: str) -> int | None:
        return newest_version(self.root.below(name)) if name in self.derived else self.versions.get(name)

    def _frame(
        self, way: _Way, inputs: Mapping[str, Snapshot], now: Snapshot | None, had: Told | None
    ) -> tuple[How, AbstractContextManager[DataFrame]]:
        """How the table is made current, and its rows, within which they may be worked out."""
        rule = way.instance.rule.aggregate
        if rule is None:
            return "made", way.rows(self.spark, inputs)
        ((name, source),) = inputs.items()
        wanted = Wanted(expressions(rule))
        if had is not None and now is not None and name in had.inputs:
            added = source.added(self.spark, had.inputs[name], wanted)
            before = now.rows(self.spark, Wanted(kept(rule)))
            groups = None if added is None else joined(before, grouped(added, rule), rule)
            if groups is not None:
                return "added", nullcontext(readable(groups, rule))
        return "made", nullcontext(readable(grouped(source.rows(self.spark, wanted), rule), rule))


@dataclass(frozen=True, slots=True)
class _Way:
    """How a table is made, with what decides its content."""

    instance: Instance
    definition: str
    function: Callable[..., Any] | None = None

    @contextmanager
    def rows(self, spark: SparkSession, inputs: Mapping[str, Snapshot]) -> Iterator[DataFrame]:
        """Its rows, of all rows of its inputs."""
        if self.function is not None:
            yield _checked(self.instance, self.function(spark, _frames(spark, inputs, EVERYTHING)))
            return
        query = (self.instance.query or "").strip().rstrip(";")
        is_named = not _UNNAMED.search(_COUNTED.sub("", query))
        frames = _frames(spark, inputs, Wanted((query,)) if is_named else EVERYTHING)
        with ExitStack() as views:
            names = {name: views.enter_context(_view(frame)) for name, frame in frames.items()}
            tables = ", ".join(f"`{name}` AS (TABLE {view})" for name, view in names.items())
            # In lines of its own: what is behind a comment at its end is none.
            yield spark.sql(f"WITH {tables} SELECT * FROM (\n{query}\n)")  # noqa: S608 - the settings are the user's own


def _way(one: Instance) -> _Way:
    if one.rule.python is None:
        return _Way(one, one.definition())
    function = _function(one.rule.python)
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = ""
    return _Way(one, one.definition(source), function)


def _function(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise PipelineError(
            f"python: {name} cannot be imported ({error}); have its folder in PYTHONPATH, or install it"
        ) from error
    if not callable(found):
        raise PipelineError(f"python: {name} is no function")
    function: Callable[..., Any] = found
    return function


def _checked(one: Instance, answer: object) -> DataFrame:
    if not hasattr(answer, "mapInArrow"):
        raise PipelineError(
            f"python: {one.rule.python} answers with {type(answer).__name__}; it must be a data frame of Spark"
        )
    frame: DataFrame = answer  # type: ignore[assignment] # checked by what is asked of it
    return frame


def _frames(spark: SparkSession, inputs: Mapping[str, Snapshot], wanted: Wanted) -> dict[str, DataFrame]:
    return {name: one.rows(spark, wanted) for name, one in inputs.items()}


@contextmanager
def _view(frame: DataFrame) -> Iterator[str]:
    """A name by which SQL finds a data frame, and which nobody else has."""
    name = f"distributary_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)


def _is_current(inputs: Mapping[str, Snapshot], had: Told) -> bool:
    if inputs.keys() != had.inputs.keys():
        return False
    return all(one.is_unchanged(had.inputs[name]) for name, one in inputs.items())


def _versions(inputs: Mapping[str, Snapshot]) -> dict[str, int]:
    return {name: one.input.version for name, one in inputs.items()}


def _schema_of(now: Snapshot) -> str:
    return schema_text(spark_schema(now.state.layout))


def _timed(done: Refreshed, seconds: float) -> Refreshed:
    return with_fields(done, seconds=round(seconds, 3))


def _said(error: Exception) -> str:
    """What Spark says of a query that the settings have: its first line, and no row's values."""
    why = named(error)
    first = (
        without_logins(str(error).splitlines()[0])[:500]
        if isinstance(error, AnalysisException | ParseException)
        else ""
    )
    return first or f"Spark failed: {why or type(error).__name__}; --debug shows all"
