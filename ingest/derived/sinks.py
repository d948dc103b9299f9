"""Where a derived table's rows go beside the table, brought up to its newest version."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa
from deltalake.exceptions import DeltaError
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as sql

from distributary.codecs.writing.column import Written, registered, type_name, written_column
from distributary.codecs.writing.formats import JSON_TEXT
from distributary.errors import (
    BrokerUnavailable,
    DistributaryError,
    PipelineError,
    RegistryFault,
    RegistryUnavailable,
)
from distributary.ingest import failpoints
from distributary.ingest.derivation.beside import ToFiles, ToKafka
from distributary.ingest.derivation.measures import PREFIX, group_of
from distributary.ingest.derived import to_files, to_kafka
from distributary.ingest.derived.inputs import Between, NamedFile, Snapshot, snapshot
from distributary.ingest.derived.instances import Instance
from distributary.ingest.derived.marks import Mark, Marks
from distributary.ingest.derived.to_kafka import Seen, Topic, Uuids
from distributary.ingest.derived.told import Input
from distributary.ingest.merge import live_files
from distributary.ingest.settings.model import Settings
from distributary.ingest.spark.error_classes import named
from distributary.ingest.spark.session import OURS, that_decide
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.tables.log import newest_version
from distributary.registry.confluent.options import RegistryAccess
from distributary.registry.confluent.registry import ConfluentRegistry

# Another one where the same settings come to other records.
_WAY = "1"


@dataclass(frozen=True, slots=True)
class Outside:
    """What is beside a pipeline's tables, as its settings have it.

    marks  the checkpoint
    uuids  tells topics from those of before, within one round
    conf   what decides about values in a session, by Spark's own names: the same in whichever one tables are made current
    """

    pipeline: str = ""
    storage: StorageOptions = field(default_factory=StorageOptions)
    kafka: Mapping[str, str] = field(default_factory=dict)
    registry: RegistryAccess | None = None
    marks: Files | None = None
    uuids: Uuids = field(default_factory=Uuids)
    conf: Mapping[str, str] = field(default_factory=lambda: OURS)

    @property
    def otherwise(self) -> str:
        """What decides about values otherwise than in our sessions."""
        return "\n".join(f"{name} {value}" for name, value in self.conf.items() if value != OURS.get(name))

    @classmethod
    def of(cls, settings: Settings) -> Outside:
        """As a pipeline's settings have it."""
        return cls(
            settings.name,
            settings.storage,
            settings.source.kafka,
            settings.registry,
            open_files(settings.checkpoint, settings.storage),
            conf=that_decide(settings.spark.conf),
        )


@dataclass(frozen=True, slots=True)
class Given:
    """What the sinks of a table were given.

    counts  how many records or files, by the sink; one that has the newest version already is not named
    why     what else there is to say of it
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    why: str = ""


def bring_up(spark: SparkSession, one: Instance, place: Files, outside: Outside, *, whole: bool) -> Given:
    """Give each sink of a table what it lacks.

    whole  whether a topic gets every row again. Raises PipelineError, BrokerUnavailable, RegistryUnavailable.
    """
    sink, counts, why = one.rule.sink, dict[str, int](), ""
    if sink is None:
        return Given()
    if sink.files is not None and (files := _to_files(spark, one.table, place, sink.files, outside)):
        counts["files"] = files
    if sink.kafka is not None:
        records, why = _Sending(spark, one, place, outside, sink.kafka).bring_up(whole=whole)
        if records is not None:
            counts["kafka"] = records
    return Given(counts, why)


def _now(place: Files) -> Snapshot:
    version = newest_version(place)
    if version is None:
        raise PipelineError(f"table {place} is gone")
    return _read(place, version)


def _read(place: Files, version: int) -> Snapshot:
    """A version with the columns that are for people."""
    found = snapshot(place, version)
    shown = [column for column in found.columns if not column.name.startswith(PREFIX)]
    return replace(found, columns=pa.schema(shown))


def _to_files(spark: SparkSession, table: str, place: Files, to: ToFiles, outside: Outside) -> int:
    root = open_files(to.path, outside.storage)
    return to_files.put(spark, _now(place), root.below(table))


@dataclass(frozen=True, slots=True)
class _Between:
    """What lies between two versions of a table, by their files: of what is added, as a stream's rows are, that is little beside the table.

    had, now   the earlier and the later one
    went, came, stays  the files of the one, of the other, and of both; none of the last where a row may be another one for its columns
    """

    had: Snapshot
    now: Snapshot
    went: Sequence[NamedFile]
    came: Sequence[NamedFile]
    stays: Sequence[NamedFile]

    @classmethod
    def of(cls, now: Snapshot, had: Snapshot) -> _Between:
        """Raises FileNotFoundError where the log does not lead to one of both (any more)."""
        later, earlier = (
            {_told(file): file for file in live_files.read(one.place, one.input.version)}
            for one in (now, had)
        )
        both = later.keys() & earlier.keys() if now.columns.equals(had.columns) else set[str]()
        went, came = (
            [file for name, file in files.items() if name not in both] for files in (earlier, later)
        )
        return cls(had, now, went, came, [later[name] for name in sorted(both)])

    def that_may_have_keys_of(
        self, came: DataFrame, keys: Sequence[str], spark: SparkSession
    ) -> DataFrame | None:
        """The keys of rows that stay, of files that may have a key of these rows by what the log tells of them; None where none may."""
        numbers = {name: _as_number(self.now.columns.field(name)) for name in keys}
        told = {name: one for name, one in numbers.items() if one is not None}
        asked = [of(one) for one in told.values() for of in (sql.count, sql.min, sql.max)]
        count, *found = came.agg(sql.count("*"), *asked).collect()[0]
        spans = [
            Between(low, high, name, numbers=pa.types.is_integer(self.now.columns.field(name).type))
            for name, known, low, high in zip(told, found[::3], found[1::3], found[2::3], strict=True)
            # Of a row without a value the log tells nothing.
            if known == count
        ]
        files = [file for file in self.stays if all(span.may_be_in(file[1]) for span in spans)]
        if not files or not count:
            return None
        only = pa.schema([self.now.columns.field(name) for name in keys])
        return replace(self.now, columns=only).rows_of(spark, files)


def _told(file: NamedFile) -> str:
    """Tells a file from others, and from itself with other rows marked as gone."""
    return f"{file[0]}\n{json.dumps(file[1].get('deletionVector'), sort_keys=True)}"


def _as_number(column: pa.Field) -> Column | None:
    """A column's values as a span has them; None of one whose spans nobody tells."""
    if pa.types.is_integer(column.type):
        return sql.col(f"`{column.name}`")
    if pa.types.is_timestamp(column.type) and column.type.tz is not None:
        return sql.unix_micros(sql.col(f"`{column.name}`"))
    return None


@dataclass(frozen=True, slots=True)
class _Strays:
    """What a topic has that no mark tells of.

    keys       that have a value there; None where there are no records, or nobody can read them
    every_row  whether all rows are sent
    """

    keys: DataFrame | None = None
    every_row: bool = False
    why: str = ""


_NO_STRAYS = _Strays()

_ANEW = "topic {} was made anew since, so that all rows are sent"


@dataclass(frozen=True, slots=True)
class _Sending:
    """One table's way to its topic."""

    spark: SparkSession
    one: Instance
    place: Files
    outside: Outside
    to: ToKafka

    def bring_up(self, *, whole: bool) -> tuple[int | None, str]:
        """How many records were sent, None where the topic has the newest version already; and what else there is to say."""
        marks, now, topic, uuids = self._marks(), _now(self.place), self._topic(), self.outside.uuids
        seen = uuids.seen(topic)
        if not whole and self._has(self._last(marks, seen)[1], now.input, seen):
            return None, ""
        uuids.require_answering(topic)
        try:
            return self._brought_up(marks, topic, whole=whole)
        except to_kafka.BrokersSilent:
            uuids.note_silent(topic)
            raise
        except BrokerUnavailable:
            uuids.note_slow(topic)
            raise

    def _brought_up(self, marks: Marks, topic: Topic, *, whole: bool) -> tuple[int | None, str]:
        """The same by the one who sends to it from now on."""
        with to_kafka.sending(topic) as producer:
            # What is there now nobody else adds to.
            now, seen = _now(self.place), Uuids().seen(topic)
            number, mark = self._last(marks, seen)
            if not whole and self._has(mark, now.input, seen):
                return None, ""
            anew = mark is not None and self._is_own(mark) and not mark.is_of(seen.uuid)
            before, settled, again = None if anew else self._before(mark, now), False, False
            if mark is None or anew or not self._is_own(mark):
                number = self._begun(marks, number, mark, now.input, seen)
                strays = _Strays(why=_ANEW.format(topic.name) if anew else "")
            else:
                strays = self._strays(topic, mark, seen.ends, known=before is not None and not whole)
                settled = not strays.every_row and mark.tells_all(seen.ends)
                again = strays.every_row or bool(mark.begun)
                number = self._sending_again(marks, number, mark)
            records = self._records(now, before, whole=whole or strays.every_row, strays=strays.keys)
            dropped, reached = list[int](), dict(seen.ends)

            def told() -> PipelineError:
                return to_kafka.too_large(topic, self.one.table, now.input.version, self._keys())

            def too_large() -> None:
                if self.to.too_large == "fail":
                    raise told()
                dropped.append(1)

            if again and self.to.too_large == "fail":
                # Where such a row ended the attempt before, each turn would send those before it once more.
                to_kafka.require_fitting(topic, records, told)

            def undone() -> None:
                if mark is not None and settled:
                    marks.put_behind(number, replace(mark, undone=True))

            sent = to_kafka.send(producer, topic.name, _pairs(records), too_large, reached, undone)
        failpoints.reach(failpoints.AFTER_SENDING, now.input.version)
        # Where nobody tells them for once those of before stay: strays behind them are found later.
        kept = mark.ends if mark is not None and self._is_own(mark) and not anew else {}
        ends = reached if seen.ends else kept
        sent_up_to = Mark.of(self._digest(), now.input, self._known(mark, seen.uuid), ends)
        marks.put_behind(number, replace(sent_up_to, anywhere=self._anywhere()))
        why = [strays.why] if strays.why else []
        if dropped:
            why.append(
                f"{len(dropped):,} rows are larger than topic {topic.name} takes, and a record without a value has the place of each"
            )
        return sent, "; ".join(why)

    def _begun(self, marks: Marks, number: int, mark: Mark | None, table: Input, seen: Seen) -> int:
        """Have it said where a topic ends that is sent all rows: by that what is sent before somebody dies is found. The number of the newest mark then."""
        begun = Mark.of("", table, self._known(mark, seen.uuid), seen.ends)
        marks.put_behind(number, replace(begun, begun=self._digest(), anywhere=self._anywhere()))
        return marks.last()[0]

    def _sending_again(self, marks: Marks, number: int, mark: Mark) -> int:
        """Have it forgotten that all was taken back, before more is sent. The number of the newest mark then."""
        if not mark.undone:
            return number
        marks.put_behind(number, replace(mark, undone=False))
        return marks.last()[0]

    def _last(self, marks: Marks, seen: Seen) -> tuple[int, Mark | None]:
        """The newest mark and its number. Of brokers that were called otherwise it is this sink's, too, where the topic is the same one."""
        number, mark = marks.last()
        if mark is None or not seen.uuid or (mark.topic, mark.anywhere) != (seen.uuid, self._anywhere()):
            return number, mark
        own = self._digest()
        return number, replace(mark, sink=mark.sink and own, begun=mark.begun and own)

    def _strays(self, topic: Topic, mark: Mark, ends: Mapping[int, int], *, known: bool) -> _Strays:
        """What the topic may have beside what its mark tells of; `known` is whether that can be told any more."""
        if not ends or (mark.begun and not mark.ends) or (known and mark.is_at(ends)):
            return _NO_STRAYS
        has_less = any(end < mark.ends.get(one, 0) for one, end in ends.items())
        since = mark.ends if (known or mark.begun) and not has_less else {}
        # Of a partition that came since all.
        begins = {one: since.get(one, 0) for one in ends} if since else {}
        try:
            found = to_kafka.keys_in(self.spark, topic, begins, ends)
            strayed = not found.isEmpty()
        except (PySparkException, Py4JError) as error:
            why = f"what topic {topic.name} has cannot be read ({named(error) or type(error).__name__}), so that all rows are sent, and keys that went may stay there: let its user read it"
            return _Strays(None, True, why)
        if known and mark.undone and not strayed and not has_less:
            return _NO_STRAYS
        # Even where nothing is to be seen: compaction takes a record without a value, and with it that a row went which may be back.
        why = f"topic {topic.name} has other records than were noted, as after a crash or with a checkpoint that was put back, so that all rows are sent"
        # One without a value has strayed, too: its row may be back.
        keys = found.where("there").select("key").distinct() if strayed else None
        return _Strays(keys, True, why if known else "")

    def _known(self, mark: Mark | None, uuid: str) -> str:
        """By what the topic is told from another one from now on: where nobody answered, by what it was before."""
        if uuid == to_kafka.GONE:
            # It is there, or nothing could have been sent: not every broker had heard of it.
            return ""
        return uuid or (mark.topic if mark is not None and self._is_own(mark) else "")

    def _has(self, mark: Mark | None, table: Input, seen: Seen) -> bool:
        if mark is None or not mark.has(self._digest(), table):
            return False
        return mark.is_of(seen.uuid) and mark.is_at(seen.ends)

    def _is_own(self, mark: Mark) -> bool:
        """Whether a mark is of this sink."""
        return self._digest() in (mark.sink, mark.begun)

    def _marks(self) -> Marks:
        if self.outside.marks is None:
            raise PipelineError("there is no checkpoint that could remember what was sent")
        return Marks(self.outside.marks, self.one.table)

    def _topic(self) -> Topic:
        outside = self.outside
        # A trial of the same pipeline sends elsewhere, and takes over from nobody.
        sender = f"distributary-{outside.pipeline}-{self.one.table}-{self._name()}"
        topic = Topic(self._name(), self.to.options(outside.kafka), sender)
        return replace(topic, patience=outside.uuids.patience_with(topic))

    def _name(self) -> str:
        return self.one.filled(self.to.topic)

    def _keys(self) -> Sequence[str]:
        rule = self.one.rule.aggregate
        if self.to.keys or rule is None:
            return self.to.keys
        return [name for name, _ in map(group_of, rule.by)]

    def _digest(self) -> str:
        """Tells this sink from one with other records."""
        return self._digest_at(self.to.options(self.outside.kafka)["bootstrap.servers"])

    def _anywhere(self) -> str:
        """The same, wherever its brokers are."""
        return self._digest_at("")

    def _digest_at(self, servers: str) -> str:
        parts = (_WAY, servers, self._name(), self.to.format, self._subject(), *self._keys())
        return hashlib.sha256("\n".join(parts).encode("utf-8", "surrogatepass")).hexdigest()

    def _subject(self) -> str:
        return self.one.filled(self.to.subject or f"{self.to.topic}-value")

    def _before(self, mark: Mark | None, now: Snapshot) -> _Between | None:
        """What lies between the table as the topic has it and as it is; None where nobody can tell any more."""
        if mark is None or (mark.sink, mark.id) != (self._digest(), now.input.id):
            return None
        if mark.version > now.input.version:
            return None
        try:
            found = _Between.of(now, _read(self.place, mark.version))
        except (OSError, DeltaError, DistributaryError):
            return None
        if found.had.input.entry != mark.entry or any(
            self.place.info(name) is None for name, _ in found.went
        ):
            # A backup was restored, or upkeep has deleted them.
            return None
        return found if set(self._keys()) <= set(found.had.columns.names) else None

    def _records(
        self, now: Snapshot, before: _Between | None, *, whole: bool, strays: DataFrame | None = None
    ) -> DataFrame:
        keys = self._keys()
        if missing := [name for name in keys if name not in now.columns.names]:
            raise PipelineError(f"sink.kafka.keys: the table has no column called {', '.join(missing)}")
        changed = self._changed(now, before, whole=whole)
        value = changed["text"] if self.to.format == JSON_TEXT else self._encoded(changed)
        records = changed.select(changed["key"].cast("binary"), value.cast("binary").alias("value"))
        if strays is None:
            return records
        gone = strays.join(changed.select(changed["key"].cast("binary")), "key", "left_anti")
        return records.unionByName(gone.withColumn("value", sql.lit(None).cast("binary")))

    def _changed(self, now: Snapshot, before: _Between | None, *, whole: bool) -> DataFrame:
        spark, keys = self.spark, self._keys()
        if before is None or whole or not before.stays:
            had = None if before is None else before.had.rows(spark)
            return to_kafka.changes(now.rows(spark), had, keys, whole=whole)
        came = now.rows_of(spark, before.came)
        beside = before.that_may_have_keys_of(came, keys, spark)
        return to_kafka.changes(came, before.had.rows_of(spark, before.went), keys, beside=beside)

    def _encoded(self, changed: DataFrame) -> Column:
        wanted = Written(self.to.format, self._subject())
        if self.outside.registry is None or self.outside.registry.url is None:
            raise PipelineError(
                f"sink.kafka.format is {self.to.format}, which takes a registry; write registry.url"
            )
        self.outside.uuids.require_registry()
        try:
            with ConfluentRegistry(self.outside.registry) as registry:
                name = type_name(self.one.table)
                schema = registered(registry, wanted, changed.schema["row"].dataType, name)
        except RegistryFault:
            # One question's own.
            raise
        except RegistryUnavailable:
            self.outside.uuids.note_silent_registry()
            raise
        return written_column(changed["row"], schema, wanted)


def _pairs(frame: DataFrame) -> Iterator[tuple[bytes, bytes | None]]:
    for row in frame.toLocalIterator(prefetchPartitions=True):
        yield bytes(row.key), None if row.value is None else bytes(row.value)
