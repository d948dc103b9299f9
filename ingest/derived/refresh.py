"""Derived tables made current: of what was added since where that is enough, of all rows otherwise; one entry of ours a table."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from dataclasses import dataclass, field
from dataclasses import replace as with_fields
from itertools import groupby
from typing import Literal, TypeAlias

from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql import SparkSession

from distributary.errors import ConfigError, DistributaryError, PipelineError, unforeseen
from distributary.ingest import failpoints
from distributary.ingest.checkpoint.folder import RESETS, Checkpoint, going
from distributary.ingest.checkpoint.generation import known_id
from distributary.ingest.checkpoint.manifests import ManifestStore
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.derivation.given import OWNER, Aggregate
from distributary.ingest.derived.grouping import decimals, grouped, joined, kept, readable
from distributary.ingest.derived.inputs import EVERYTHING, Snapshot, Wanted, is_still, snapshot
from distributary.ingest.derived.instances import Entities, Instance, instances
from distributary.ingest.derived.lookups import Source, lookups
from distributary.ingest.derived.sinks import Outside, bring_up
from distributary.ingest.derived.streams import Making, Streamed
from distributary.ingest.derived.there import entities_of, versions_now
from distributary.ingest.derived.told import Told, told_by
from distributary.ingest.derived.ways import Way, way_of
from distributary.ingest.derived.windows import Inputs
from distributary.ingest.derived.writing import Replacing, replace, require_columns, schema_text
from distributary.ingest.origins.plans import Origin, origins
from distributary.ingest.settings.model import Settings
from distributary.ingest.spark.error_classes import named, told_by_worker
from distributary.ingest.spark.session import ANSI, OURS, in_use, with_settings
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files, tables_at
from distributary.ingest.table_versions import versions_at, versions_left
from distributary.ingest.tables.change import LOG_RETENTION, log_retention
from distributary.ingest.tables.log import entry_tag, newest_version
from distributary.ingest.tables.log_checkpoint import Committed, LogCheckpoints
from distributary.ingest.tables.state_by_spark import spark_schema
from distributary.ingest.upkeep.made_of_others import take_over
from distributary.values import without_logins

# Each job of Spark's waits for the driver for longer than it takes, where what was added is little.
_THREADS = 4

# What keeps delta-rs from adding to a table, as that is said.
_NEVER_NULL = "NOT NULL"

# Others may change a table while its rows are worked out.
_ATTEMPTS = 3

How: TypeAlias = Literal["made", "added", "current", "waits", "failed"]


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What was done about a derived table.

    table    its folder
    how      made of all rows; those added since were added; current already; waits for a table that is not there; failed
    rows     how many it has now, or of a stream how many were added; None where it was left as it is
    version  its newest version; None where there is none
    inputs   the versions of the tables that it is made of, by their folders
    why      what it waits for, why it failed, how many rows came too late for it, or that its topic was made anew
    seconds  how long it took
    sent     how many records or files its sinks were given, by what they are: `kafka`, `files`
    columns  where something was done, of which columns of its inputs each of its columns is, as far as that is known
    """

    table: str
    how: How
    rows: int | None = None
    version: int | None = None
    inputs: Mapping[str, int] = field(default_factory=dict)
    why: str = ""
    seconds: float = 0.0
    sent: Mapping[str, int] = field(default_factory=dict)
    columns: Mapping[str, Sequence[Origin]] = field(default_factory=dict)


def derive(  # noqa: PLR0913 - which tables, how, and until when
    settings: Settings,
    spark: SparkSession,
    tables: Sequence[str] = (),
    *,
    whole: bool = False,
    stopped: Callable[[], bool] = lambda: False,
    rules: Collection[str] | None = None,
) -> list[Refreshed]:
    """Make a pipeline's derived tables current, each behind those that it is made of, as of its newest batch that all tables have.

    settings  the pipeline's; a run of it may go on meanwhile
    spark     the session that works them out
    tables    the folders of some; none: all
    whole     whether all is worked out again, whatever is there
    stopped   whether to leave the rest as it is, asked before each of them
    rules     those of some rules alone, by `table`; none: of all

    One that fails keeps no other from it but those that are made of it. Before the first batch all of them wait, but for those of tables that an earlier checkpoint filled. Raises ConfigError for a table
    that is none of them, PipelineError amid a reset, and where nobody can tell which versions of the inputs belong together.
    """
    root = tables_at(settings.sink.root, settings.storage)
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    # Of one that ends meanwhile the versions of before would be known, too.
    _require_no_reset(checkpoint)
    versions, unreadable, named = _inputs(settings, root, checkpoint)
    # Behind them: one that begins now empties tables of which the versions of before are known.
    _require_no_reset(checkpoint)
    folders = entities_of(root, versions, named, settings.route.folder)
    every = instances(settings.derive, Entities(folders, settings.route.fold_case))
    if unknown := sorted(set(tables) - {one.table for one in every}):
        known = ", ".join(one.table for one in every) or "none yet"
        raise ConfigError(f"{', '.join(unknown)}: the settings derive no such table; there are {known}")
    wanted = [one for one in every if not tables or one.table in tables]
    chosen = [one for one in wanted if rules is None or one.rule.table in rules]
    properties = {
        OWNER: settings.name,
        LOG_RETENTION: log_retention(settings.sink.log_retention_days),
    }
    with closing(LogCheckpoints()) as checkpoints, ThreadPoolExecutor(_THREADS) as pool:
        round_ = _Round(root, spark, every, versions, properties, checkpoints, whole, Outside.of(settings))

        def refreshed(one: Instance) -> Refreshed | None:
            if stopped():
                return None
            # What is made of other tables goes on without.
            lacking = [f"table {name} ({unreadable[name]})" for name in one.inputs if name in unreadable]
            why = f"nobody can open {', '.join(lacking)}: have what was done to it taken back, or restore it from a copy"
            return Refreshed(one.table, "failed", why=why) if lacking else round_.refresh(one)

        # Those of one rule are of each other in no way.
        by_rule = groupby(chosen, lambda one: one.rule.table)
        found = [done for _, alike in by_rule for done in pool.map(refreshed, alike)]
        return [done for done in found if done is not None]


def _inputs(
    settings: Settings, root: Files, checkpoint: Checkpoint
) -> tuple[Mapping[str, int], Mapping[str, str], Mapping[str, str]]:
    """The pipeline's tables with the versions that are read; those that nobody can open, and why; and the entities that the newest batch knows."""
    manifests, generation = ManifestStore(checkpoint), known_id(checkpoint)
    if (last := manifests.last()) is None:
        threads = settings.limits.commit_threads
        left = None if generation is None else versions_left(root, settings.name, generation, threads)
        found = {} if left is None else versions_now(root, with_fields(left, unreadable={}), generation)
        # One that came meanwhile may be in some tables only.
        if (last := manifests.last()) is None:
            # Before the first batch of all there is nothing to make any of, and they wait.
            return found, {} if left is None else left.unreadable, {}
    at = versions_at(settings)
    versions = versions_now(root, with_fields(at, unreadable={}), generation)
    return versions, at.unreadable, last.entities


def _require_no_reset(checkpoint: Checkpoint) -> None:
    """Raises PipelineError amid a reset: windows that end, and topics, would keep what is made of half of the rows."""
    if any(True for _ in going(checkpoint.files, RESETS)):
        raise PipelineError(
            "a reset was begun and is not done, so that tables lack rows: let it end, or say `distributary reset` with `--layer silver` again, which goes on with it"
        )


def _require_own_name(one: Instance, every: Sequence[Instance]) -> None:
    """Raises PipelineError where two are called alike: each would take the other's place, round by round."""
    rules = sorted({other.rule.table for other in every if other.table == one.table})
    entities = sorted({other.entity or "" for other in every if other.table == one.table})
    if len(rules) > 1 or len(entities) > 1:
        raise PipelineError(
            f"{' and '.join(rules)} would both be this table, for {' and '.join(map(repr, entities))}; give one of them another name"
        )


@dataclass(frozen=True, slots=True)
class _Round:
    """One round over some of them, as of one batch.

    spark     the session, or a copy of it that goes by what the settings say
    derived   all derived tables
    versions  of the others, those of the batch
    """

    root: Files
    spark: SparkSession
    derived: Sequence[Instance]
    versions: Mapping[str, int]
    properties: Mapping[str, str]
    checkpoints: LogCheckpoints
    whole: bool
    outside: Outside = field(default_factory=Outside)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spark", with_settings(self.spark, self.outside.conf))

    def refresh(self, one: Instance) -> Refreshed:
        """What was done about a table; its failure is among that."""
        began = time.monotonic()
        try:
            with in_use(self.spark):
                done = self._refreshed_and_sent(one)
        except (DistributaryError, DeltaError, OSError) as error:
            done = Refreshed(one.table, "failed", why=without_logins(" ".join(str(error).split())))
        except (PySparkException, Py4JError) as error:
            done = Refreshed(one.table, "failed", why=_said(error, one))
        except failpoints.Failpoint:
            raise
        except Exception as error:  # noqa: BLE001 whatever it is, the others and the run go on without
            done = Refreshed(one.table, "failed", why=unforeseen(error))
        return _timed(done, time.monotonic() - began)

    def _refreshed_and_sent(self, one: Instance) -> Refreshed:
        done = self._refreshed(one)
        if done.how == "waits":
            return done
        given = bring_up(self.spark, one, self.root.below(one.table), self.outside, whole=self.whole)
        why = "; ".join(filter(None, (done.why, given.why)))
        return with_fields(done, sent=given.counts, why=why)

    def _refreshed(self, one: Instance) -> Refreshed:
        _require_own_name(one, self.derived)
        place = self.root.below(one.table)
        for _ in range(_ATTEMPTS):
            version, told = told_by(place)
            way = way_of(one, self.outside.otherwise)
            at = {name: self._version(name) for name in one.inputs}
            if (known := self._known(way, version, told, at)) is not None:
                return Refreshed(one.table, "current", version=version, inputs=known)
            now = self._of_mine(place, one, version)
            version = None if now is None else now.input.version
            if missing := [name for name, newest in at.items() if newest is None]:
                why = f"{', '.join(missing)} {'are' if len(missing) > 1 else 'is'} not there yet"
                return Refreshed(one.table, "waits", version=version, why=why)
            inputs: dict[str, Source] = {
                name: with_fields(snapshot(self.root.below(name), newest, way.wanted), name=name)
                for name, newest in at.items()
                if newest is not None
            }
            inputs |= lookups(one.rule.static, self.outside.storage)
            told = None if self.whole else told
            had = None if told is None else told.by(way.definition)
            if had is not None and _is_current(_that_decide(one, inputs), had):
                return Refreshed(one.table, "current", version=version, inputs=_versions(inputs))
            making = self._making(way, inputs, now, told)
            with making.frame as rows:
                require_columns(one.table, rows.schema)
                schema = None if now is None else _schema_of(now)
                # Spark tells it anew where settings or columns are others: it takes a part of the time that a small turn does.
                same = had is not None and schema == schema_text(rows.schema)
                columns: Mapping[str, Sequence[Origin]] = had.columns if had is not None and same else {}
                columns = columns or origins(rows)
                told_now = Told(
                    way.definition,
                    {name: source.input for name, source in inputs.items()},
                    self.properties[OWNER],
                    columns,
                )
                says_more = now is not None and _NEVER_NULL in now.state.why_not
                to = Replacing(
                    place,
                    version,
                    schema,
                    self.properties,
                    told_now,
                    making.adds,
                    making.transactions,
                    says_more,
                )
                done = replace(rows.coalesce(self.spark.sparkContext.defaultParallelism), to)
            if done is not None:
                failpoints.reach(failpoints.AFTER_DERIVING, done.version)
                tag = entry_tag(place, done.version)
                changed = sum("remove" in action for action in done.actions)
                # How long its versions last a table says itself.
                own = self.properties if now is None else now.state.properties
                committed = Committed(place, done.version, own, tag, {}, changed)
                self.checkpoints.follow(committed)
                how: How = "made" if making.made else "added"
                late = f"{making.late:,} rows came too late for it" if making.late else ""
                return Refreshed(
                    one.table, how, done.rows, done.version, _versions(inputs), late, columns=columns
                )
        raise PipelineError(f"{_ATTEMPTS} times somebody else changed it first; say it again")

    def _known(
        self, way: Way, version: int | None, told: Told | None, at: Mapping[str, int | None]
    ) -> dict[str, int] | None:
        """The versions of its inputs, where neither these nor the table have another one than when it was made; then none of them is opened, which costs what it has of files."""
        had = None if told is None or self.whole else told.by(way.definition)
        if had is None or (had.at, had.pipeline) != (version, self.properties[OWNER]):
            return None
        # What is looked up in is looked at, and nothing else is told of.
        if had.inputs.keys() != at.keys():
            return None
        same = (
            one.version == at[name] and is_still(self.root.below(name), one)
            for name, one in had.inputs.items()
        )
        return {name: one.version for name, one in had.inputs.items()} if all(same) else None

    def _of_mine(self, place: Files, one: Instance, version: int | None) -> Snapshot | None:
        """The table as it is. Raises PipelineError where it is somebody else's."""
        if version is None:
            return None
        own = EVERYTHING if one.rule.aggregate is None else Wanted(kept(one.rule.aggregate))
        now = snapshot(place, version, own)
        owner = now.state.properties.get(OWNER)
        if owner != self.properties[OWNER]:
            if owner is not None and owner in self._names():
                take_over(place, self.properties[OWNER])
                return self._of_mine(place, one, newest_version(place))
            whose = "it is no derived one" if owner is None else f"pipeline {owner} derives it"
            raise PipelineError(
                f"table {place} is there, and {whose}: move it away, or give {one.rule.table} another name"
            )
        # Those that were made before say so of what expressions make.
        foreign = [one for one in now.state.why_not.split("; ") if one and not one.startswith(_NEVER_NULL)]
        foreign += [f"partitions by {', '.join(now.state.partitions)}"] if now.state.partitions else []
        if foreign:
            raise PipelineError(
                f"table {place} was given what only Spark's writer keeps ({'; '.join(foreign)}): take that away, or delete the table, and it is made anew"
            )
        return now

    def _names(self) -> Collection[str]:
        """What the pipeline is and was called, as its entities' tables tell: asked of them all, where one tells another name alone."""
        marks = self.outside.marks
        known = None if marks is None else known_id(Checkpoint(marks))
        return Records(self.root).of_pipeline(self.properties[OWNER], known)[1].names

    def _version(self, name: str) -> int | None:
        return (
            newest_version(self.root.below(name))
            if any(name == one.table for one in self.derived)
            else self.versions.get(name)
        )

    def _making(
        self, way: Way, inputs: Mapping[str, Source], now: Snapshot | None, told: Told | None
    ) -> Making:
        """How the table is made current, with its rows, within which they may be worked out."""
        rule, stream, one = way.instance.rule.aggregate, way.instance.rule.stream, way.instance
        if stream is not None:
            of = Inputs.of(self.spark, one.inputs, inputs)
            there = None if self.whole else now
            return Streamed(one.table, way.definition, stream, of, there, told).making(self.spark, inputs)
        if rule is None:
            frames = {name: source.rows(self.spark) for name, source in inputs.items()}
            return Making(True, way.rows(self.spark, frames))
        had = None if told is None else told.by(way.definition)
        with in_use(exact := with_settings(self.spark, {ANSI: OURS[ANSI]})):
            return _aggregated(exact, rule, inputs, now, had)


def _aggregated(
    spark: SparkSession,
    rule: Aggregate,
    inputs: Mapping[str, Source],
    now: Snapshot | None,
    had: Told | None,
) -> Making:
    """How an aggregate is made current. In a session in which an overflow is an error: null in its place, later ones would be added to nothing."""
    ((name, source),) = inputs.items()
    if isinstance(source, Snapshot) and had is not None and now is not None and name in had.inputs:
        added = source.added(spark, had.inputs[name])
        exact = {} if added is None else decimals(rule, added)
        groups = None if added is None else joined(now.rows(spark), grouped(added, rule, exact), rule)
        if groups is not None:
            return Making(False, nullcontext(readable(groups, rule, exact)))
    rows = source.rows(spark)
    exact = decimals(rule, rows)
    return Making(True, nullcontext(readable(grouped(rows, rule, exact), rule, exact)))


def _that_decide(one: Instance, inputs: Mapping[str, Source]) -> Mapping[str, Source]:
    """Those of which other rows make other rows of it: of rows that are taken as they come the first alone."""
    stream = one.rule.stream
    if stream is None or stream.watermark is not None:
        return inputs
    return {name: inputs[name] for name in one.inputs[:1]}


def _is_current(inputs: Mapping[str, Source], had: Told) -> bool:
    if not inputs.keys() <= had.inputs.keys():
        return False
    return all(one.is_unchanged(had.inputs[name]) for name, one in inputs.items())


def _versions(inputs: Mapping[str, Source]) -> dict[str, int]:
    return {name: one.input.version for name, one in inputs.items()}


def _schema_of(now: Snapshot) -> str:
    return schema_text(spark_schema(now.state.layout))


def _timed(done: Refreshed, seconds: float) -> Refreshed:
    return with_fields(done, seconds=round(seconds, 3))


def _said(error: Exception, of: Instance) -> str:
    """What Spark says of a query that the settings have: its first line, and no row's values."""
    # A function of the user's own may open what rows name.
    met = "" if of.rule.python is not None else told_by_worker(error)
    why = met or named(error)
    first = (
        without_logins(str(error).splitlines()[0])[:500]
        if isinstance(error, AnalysisException | ParseException)
        else ""
    )
    return first or f"Spark failed: {why or type(error).__name__}; --debug shows all"
