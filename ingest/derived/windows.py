"""The rows that a stream adds: of the time between two watermarks, worked out of its inputs as they are when it is over.

So nothing of rows that came is kept but the watermark: what a window has is asked for once, when nothing can come to it any more.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, GroupedData, SparkSession
from pyspark.sql import Window as Over
from pyspark.sql import functions as sql
from pyspark.sql.types import DateType, TimestampNTZType, TimestampType

from distributary.errors import PipelineError
from distributary.ingest.derivation.measures import group_of
from distributary.ingest.derivation.streams import (
    OTHER,
    THIS,
    WINDOW_END,
    WINDOW_START,
    Join,
    Stream,
    Watermark,
    Window,
)
from distributary.ingest.derived.inputs import Between, Snapshot
from distributary.ingest.derived.lookups import Source

_MICROS = 1_000_000

# Columns that are none of anybody's.
_TIME, _GROUP, _OVER = "__distributary_time", "__distributary_group", "__distributary_over"
_FIRST, _LAST = "__distributary_first", "__distributary_last"
_NUMBER, _SESSION = "__distributary_number", "__distributary_session"


@dataclass(frozen=True, slots=True)
class Inputs:
    """What a stream is of: its table, the one that is joined to it, and what is looked up in."""

    spark: SparkSession
    this: Snapshot
    other: Snapshot | None
    lookups: Mapping[str, Source]

    @property
    def joined(self) -> Snapshot:
        """The table that is joined. Raises PipelineError where there is none."""
        if self.other is None:
            raise PipelineError("nothing is joined; write two inputs")
        return self.other

    @classmethod
    def of(cls, spark: SparkSession, names: Sequence[str], sources: Mapping[str, Source]) -> Inputs:
        """By the names of the inputs, the first of which is the stream's table."""
        own = [source for name in names if isinstance(source := sources[name], Snapshot)]
        beside = {name: source for name, source in sources.items() if name not in names}
        return cls(spark, own[0], own[1] if len(own) > 1 else None, beside)


@dataclass(frozen=True, slots=True)
class Sessions:
    """What is known of a table of sessions: a session may have begun at any time, so that the watermark alone does not say which rows are in one that is over.

    since  no row of before is in a session that was not over at the watermark; None where nobody knows
    over   the table as it is; None where there is none
    """

    since: int | None = None
    over: Snapshot | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """One round over a stream with a watermark.

    before    the watermark up to which rows are there; None where none are
    sessions  what is known of them, where they are what it makes
    """

    rule: Stream
    mark: Watermark
    inputs: Inputs
    before: int | None
    sessions: Sessions = Sessions()

    def watermark(self, now: float | None = None) -> int | None:
        """Up to when nothing is waited for any more, in microseconds since 1970; None where no row tells. It never goes back."""
        late = round(self.mark.late_seconds * _MICROS)
        # Of what is older it is known already. What is yet to come a clock says that is ahead: it must not end windows for all others, nor by
        # and by as time goes on, where these lag behind.
        until = round((time.time() if now is None else now) * _MICROS)
        span = Between(None if self.before is None else self.before + late, until)
        newest = [_newest(self._this(span))]
        if self.rule.join is not None:
            newest.append(_newest(self._other(self.rule.join, span)))
        known = [one for one in newest if one is not None]
        if len(known) < len(newest):
            return self.before
        reached = min(known) - late
        return reached if self.before is None else max(reached, self.before)

    def closed(self, after: int | None, upto: int | None) -> DataFrame:
        """The rows whose time was over between two watermarks; no row where there is none."""
        window, join = self.rule.window, self.rule.join
        if window is not None:
            if window.gap_seconds is not None:
                rows = self._not_over(after, upto)
            else:
                low = None if after is None else after - window.length * _MICROS
                rows = self._this(Between(low, upto))
            return self._windows(window, rows, after, upto)
        if join is not None:
            return self._pairs(join, after, upto)
        raise PipelineError("a stream with a watermark has windows or a join; write one of both")

    def late(self, added: DataFrame) -> int:
        """How many of these rows came when their time was over already."""
        if self.before is None:
            return 0
        over = _TIME
        if self.rule.window is not None and self.rule.window.gap_seconds is not None:
            return self._late_for_sessions(self.rule.window, self._shaped(added))
        if self.rule.window is not None:
            over = f"{_TIME} - pmod({_TIME}, {self.rule.window.slide * _MICROS}) + {self.rule.window.length * _MICROS}"
        elif self.rule.join is not None:
            over = f"{_TIME} + {round(self.rule.join.within_seconds * _MICROS)}"
        return self._shaped(added).where(f"{over} <= {self.before}").count()

    def late_beside(self, added: DataFrame) -> int:
        """How many of these rows of the joined table came when a row that they belong to was there without them already."""
        join = self.rule.join
        if self.before is None or join is None:
            return 0
        within = round(join.within_seconds * _MICROS)
        late = _timed(added.alias(OTHER), join.time).where(sql.col(_TIME) <= self.before)
        first = late.agg(sql.min(_TIME)).collect()[0][0]
        if first is None:
            return 0
        over = self._this(Between(int(first) - within, self.before - within))
        belongs = _beside_each_other(join)
        return late.alias(OTHER).join(over.alias(THIS), belongs, "left_semi").count()

    def since(self, reached: int) -> int | None:
        """The time before which no row is in a session that is not over at a watermark; None where it makes no sessions."""
        window = self.rule.window
        if window is None or window.gap_seconds is None:
            return None
        begun = (
            self._pieces(window, self._not_over(self.before, reached))
            .agg(sql.min(_TIME).alias(_FIRST), sql.max(_TIME).alias(_LAST))
            .where(sql.col(_LAST) + window.length * _MICROS > reached)
            .agg(sql.min(_FIRST))
            .collect()[0][0]
        )
        alone = reached - window.length * _MICROS
        return alone if begun is None else min(int(begun), alone)

    def _not_over(self, after: int | None, upto: int | None) -> DataFrame:
        """The rows up to a time that are in no session which was over at a watermark."""
        if after is None:
            return self._this(Between(None, upto))
        return self._behind_those_over(self._this(Between(self.sessions.since, upto)), after)

    def _behind_those_over(self, rows: DataFrame, after: int) -> DataFrame:
        """Those of these rows that came behind the last session of their group which was over at a watermark: a row between two of before must not bind both together."""
        rows = rows.where(_in_span(Between(self.sessions.since, None)))
        if self.sessions.over is None:
            return rows
        gap = self.rule.window.length * _MICROS if self.rule.window is not None else 0
        groups = dict(map(group_of, self.rule.by))
        low = None if self.sessions.since is None else self.sessions.since + gap
        over = self.sessions.over.rows(self.inputs.spark, Between(low, None, WINDOW_END)).where(
            _end() <= after
        )
        last = over.groupBy(
            *(sql.col(f"`{name}`").alias(f"{_OVER}{n}") for n, name in enumerate(groups))
        ).agg((sql.max(_end()) - gap).alias(_OVER))
        known = rows.select(
            "*", *(sql.expr(text).alias(f"{_GROUP}{n}") for n, text in enumerate(groups.values()))
        )
        same = [sql.col(f"{_GROUP}{n}").eqNullSafe(sql.col(f"{_OVER}{n}")) for n in range(len(groups))]
        both = known.join(last, reduce(and_, same, sql.lit(True)), "left")
        later = both.where(sql.col(_OVER).isNull() | (sql.col(_TIME) > sql.col(_OVER)))
        return later.drop(*(f"{name}{n}" for n in range(len(groups)) for name in (_GROUP, _OVER)), _OVER)

    def _late_for_sessions(self, window: Window, added: DataFrame) -> int:
        """How many of these rows are in no session that was not over: one that is late alone is not where it is near to others."""
        before = self.before or 0
        if not added.where(f"{_TIME} + {window.length * _MICROS} <= {before}").count():
            return 0
        marked = [
            rows.withColumn(_OVER, sql.lit(number))
            for number, rows in enumerate(
                (self._not_over(before, None), self._behind_those_over(added, before))
            )
        ]
        pieces = self._pieces(window, marked[0].unionByName(marked[1]).alias(THIS))
        counted = pieces.agg(sql.sum(_OVER).alias(_OVER), sql.max(_TIME).alias(_LAST))
        still = counted.where(sql.col(_LAST) + window.length * _MICROS > before)
        kept = still.agg(sql.sum(_OVER)).collect()[0][0]
        return added.count() - int(kept or 0)

    def _pairs(self, join: Join, after: int | None, upto: int | None) -> DataFrame:
        within = round(join.within_seconds * _MICROS)
        low = None if after is None else after - within
        high = None if upto is None else upto - within
        this = self._this(Between(low, high)).where(_within(sql.col(_TIME), low, high))
        other = self._other(join, Between(None if low is None else low - within, upto))
        both = this.alias(THIS).join(other.alias(OTHER), _beside_each_other(join), join.how)
        return both.select(*_named(self.rule.columns))

    def _windows(self, window: Window, rows: DataFrame, after: int | None, upto: int | None) -> DataFrame:
        """Those that end between two times."""
        found = self._pieces(window, rows).agg(*_named(self.rule.columns), sql.max(_TIME).alias(_LAST))
        end = sql.unix_micros(sql.col(f"{_TIME}.end"))
        if window.gap_seconds is not None:
            # What is asked of a group Spark asks of each row before it is in one, where a session of one row has another end.
            end = sql.col(_LAST) + window.length * _MICROS
        groups = dict(map(group_of, self.rule.by))
        bounds = {WINDOW_START: "start", WINDOW_END: "end"}
        return found.where(_within(end, after, upto)).select(
            *(sql.col(f"{_TIME}.{part}").alias(name) for name, part in bounds.items()),
            *(sql.col(f"`{name}`") for name in (*groups, *self.rule.columns)),
        )

    def _pieces(self, window: Window, rows: DataFrame) -> GroupedData:
        """Rows by the piece of time and the group that they are in."""
        groups = _named(dict(map(group_of, self.rule.by)))
        if window.gap_seconds is not None:
            rows, piece = _in_sessions(rows, groups, window.gap_seconds * _MICROS), sql.col(_SESSION)
        else:
            moment = sql.timestamp_micros(sql.col(_TIME))
            piece = sql.window(moment, f"{window.seconds} seconds", f"{window.slide} seconds")
        return rows.groupBy(piece.alias(_TIME), *groups)

    def _this(self, span: Between) -> DataFrame:
        rows = self.inputs.this.rows(self.inputs.spark, span.of(self.mark.time))
        return self._shaped(rows).where(_in_span(span))

    def _shaped(self, rows: DataFrame) -> DataFrame:
        return _timed(shaped(rows, self.rule, self.inputs.lookups, self.inputs.spark), self.mark.time)

    def _other(self, join: Join, span: Between) -> DataFrame:
        rows = self.inputs.joined.rows(self.inputs.spark, span.of(join.time))
        return _timed(rows.alias(OTHER), join.time).where(_in_span(span))


def shaped(rows: DataFrame, rule: Stream, lookups: Mapping[str, Source], spark: SparkSession) -> DataFrame:
    """The rows that count, with what is looked up beside them."""
    found = rows.alias(THIS)
    for name, on in rule.lookup.items():
        beside = lookups[name].rows(spark).alias(name)
        same = " AND ".join(f"{THIS}.`{column}` = `{name}`.`{column}`" for column in on)
        # Which of the two is meant by a name that both have is no question then.
        found = (
            found.join(beside, sql.expr(same), "left")
            .select(
                f"{THIS}.*",
                *(sql.col(f"`{name}`.`{one}`") for one in beside.columns if one not in found.columns),
            )
            .alias(THIS)
        )
    return found if rule.where is None else found.where(rule.where)


def plain(rows: DataFrame, rule: Stream) -> DataFrame:
    """Rows with the columns that the settings say."""
    return rows.select(*_named(rule.columns))


def _in_sessions(rows: DataFrame, groups: Sequence[Column], gap: int) -> DataFrame:
    """Rows, each with the session of its group that it is in.

    As Spark's `session_window` has them, which makes sessions of the rows of each single value where several aggregates are of distinct ones.
    """
    time, of_group = sql.col(_TIME), Over.partitionBy(*groups)
    in_order = of_group.orderBy(_TIME)
    begins = sql.when(time - sql.lag(_TIME).over(in_order) > gap, 1).otherwise(0)
    # Of rows of one time each counts all of them, so that they are in the same one.
    numbered = rows.withColumn(_NUMBER, begins).withColumn(_NUMBER, sql.sum(_NUMBER).over(in_order))
    of_session = Over.partitionBy(*groups, _NUMBER)
    start, end = sql.min(_TIME).over(of_session), sql.max(_TIME).over(of_session) + gap
    bounds = (sql.timestamp_micros(at).alias(part) for part, at in (("start", start), ("end", end)))
    return numbered.withColumn(_SESSION, sql.struct(*bounds))


def _beside_each_other(join: Join) -> Column:
    """Whether rows of both tables belong together."""
    within = round(join.within_seconds * _MICROS)
    return sql.expr(f"({join.on}) AND abs({THIS}.{_TIME} - {OTHER}.{_TIME}) <= {within}")


def _end() -> Column:
    """When a row's window ends, in microseconds."""
    return sql.unix_micros(sql.col(WINDOW_END))


def _named(columns: Mapping[str, str]) -> list[Column]:
    return [sql.expr(text).alias(name) for name, text in columns.items()]


def _timed(rows: DataFrame, text: str) -> DataFrame:
    """Those that have a time, with it in microseconds."""
    kind = rows.select(sql.expr(text)).schema[0].dataType
    if not isinstance(kind, TimestampType | TimestampNTZType | DateType):
        raise PipelineError(
            f"the time of a row, {text}, is of type {kind.simpleString()}; make a timestamp of it, as timestamp_millis({text}) does"
        )
    moment = sql.unix_micros(sql.expr(f"cast({text} AS timestamp)"))
    return rows.withColumn(_TIME, moment).where(sql.col(_TIME).isNotNull())


def _newest(rows: DataFrame) -> int | None:
    found = rows.agg(sql.max(_TIME)).collect()[0][0]
    return None if found is None else int(found)


def _within(moment: Column, after: int | None, upto: int | None) -> Column:
    """Behind the one and up to the other."""
    wanted = sql.lit(True)
    if after is not None:
        wanted = wanted & (moment > after)
    return wanted if upto is None else wanted & (moment <= upto)


def _in_span(span: Between) -> Column:
    """From the one end to the other, both of which are in it."""
    return _within(sql.col(_TIME), None if span.low is None else span.low - 1, span.high)
