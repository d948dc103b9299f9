"""The groups of a pipeline's settings, each a frozen model that checks itself; `model.py` puts them together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator, model_validator
from typing_extensions import Self

from distributary.codecs.base import IN_GLUE, CodecName, load_codec
from distributary.codecs.envelope.options import GivenEnvelope, codec_name
from distributary.errors import UnknownCodec
from distributary.ingest.columns import clustering
from distributary.ingest.columns import safe_names as names
from distributary.ingest.settings.places import OptionalPlace, PlaceOfTables
from distributary.ingest.settings.refused_kafka_options import check_kafka, check_spark, spark_options
from distributary.ingest.settings.source.bounds import Assigned, Begins, Ends
from distributary.ingest.settings.source.delta import DeltaTables
from distributary.ingest.settings.source.kinesis import KinesisStream, wrong_bounds_of_streams
from distributary.ingest.settings.source.landing import FilesSource, wrong_bounds_of_files
from distributary.ingest.settings.source.presets import Preset
from distributary.ingest.settings.source.topics import Topics, wrong_beside, wrong_partitions, wrong_topics
from distributary.ingest.settings.table_properties import TableProperties
from distributary.ingest.settings.upserts import whole_paths
from distributary.passed_on_options import ClientOptions
from distributary.values import (
    Bytes,
    EmptyIsNone,
    Group,
    Name,
    PositiveSeconds,
    Seconds,
    Wrong,
)


class Source(Group):
    """Where the events come from."""

    preset: Preset | None = None
    """The service that Kafka is had from and who logs in to it, rendered as options of `source.kafka`, where `bootstrap.servers` stands; whatever stands there wins."""
    kafka: Annotated[ClientOptions, AfterValidator(check_kafka)] = ClientOptions({})
    """Any options of Kafka's Java client, by their own names, such as `bootstrap.servers` and `security.protocol`. `isolation.level` is `read_committed` unless given. Only options that would break a promise are refused."""
    topics: Topics = ()
    """The topics to read, by name, or by a `/regex/`, which need only be found in the name, such as `/^events\\./`: topics that fit and come while a pipeline runs are taken up within half a minute, from their first record. Topics may be added and taken out while a checkpoint lives: an added one begins as `starting_offsets` says, one that was taken out goes on where it was once it is there again."""
    starting_offsets: Begins = "earliest"
    """Where a new checkpoint begins to read a topic: `earliest`, its first record; `latest`, its end; a point in time with its zone, such as `2026-11-01T00:00:00Z`, the first record of each partition that was written then or later, which is the end where there is none; or offsets, as `{game-events: {"0": 1000}}`, where a partition that is left out begins with its first record."""
    until: Ends = None
    """Where the reading ends, and the run with it: a point in time with its zone, before the first record of each partition that was written then or later; or offsets, as `{game-events: {"0": 2000}}`, before these. What is not there yet is not waited for: a partition without such a record, or that is left out, is read up to where it ends now."""
    partitions: Assigned = Field(default_factory=dict)
    """Which partitions are read of each topic, as `{game-events: [0, 1]}`, where others are another pipeline's; all, unless given. It names every topic of `topics`, none of which is a pattern then. A partition that is added while a checkpoint lives begins as `starting_offsets` says, as do those that nobody named where this is taken out of the settings again."""
    on_data_loss: Literal["stop", "record"] = "stop"
    """What becomes of records that Kafka has no more before they were read, as by the topic's retention: `stop` ends the run, which names them; `record` goes on with the first ones that are there, and tells of those that are lost in the ledger and at the run's end."""
    delta: DeltaTables | None = None
    """Delta tables to read instead of Kafka's topics, such as those that another pipeline writes: `{paths: ./lake/silver_chess_events}`. Records are their rows; the format is `json` then, with the types that the tables have."""
    files: FilesSource | None = None
    """Files to read instead of Kafka's topics, as they land in a folder or below a prefix of a bucket: `{path: ./landing}`. The format is `json` then, unless given."""
    kinesis: KinesisStream | None = None
    """A stream of Amazon Kinesis to read instead of Kafka's topics: `{stream: game-events, region: eu-central-1}`. Needs `distributary[aws]`."""
    headers: bool = True
    """Whether the record header `__value_schema_id` is read, where newer producers name the schema."""

    @model_validator(mode="after")
    def _with_preset(self) -> Self:
        if self.preset is not None:
            # The group is frozen for everybody but who makes it.
            self.__dict__["kafka"] = ClientOptions({**self.preset.options(), **self.kafka})
        if self.delta is not None:
            self.__dict__["topics"] = tuple(self.delta.topics())
            if self.delta.starting_version is not None:
                self.__dict__["starting_offsets"] = self.delta.starting_offsets()
        if self.files is not None:
            self.__dict__["topics"] = (self.files.topic,)
        if self.kinesis is not None:
            self.__dict__["topics"] = (self.kinesis.topic,)
        return self

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        others = [name for name in ("delta", "files", "kinesis") if getattr(self, name) is not None]
        if others:
            yield from wrong_beside(others[0], self.model_fields_set)
            yield from wrong_bounds_of_files(self) if self.files is not None else ()
            yield from wrong_bounds_of_streams(self) if self.kinesis is not None else ()
            return
        for name, there in (("kafka", "bootstrap.servers" in self.kafka), ("topics", bool(self.topics))):
            if not there:
                yield (name,), "this setting is missing; write it"
        yield from wrong_partitions(self.topics, self.partitions)
        for name, bound in (("starting_offsets", self.starting_offsets), ("until", self.until)):
            yield from wrong_topics(self.topics, bound if isinstance(bound, dict) else (), name)

    def spark_options(self) -> dict[str, str]:
        """The client options as Spark's Kafka source spells them."""
        return spark_options(self.kafka)


class Decode(Group):
    """How payloads become rows, and what happens when their schema changes."""

    format: Name = "protobuf"
    """The codec: a built-in one, or one that an installed package offers."""
    wire: Literal["confluent", "glue"] = "confluent"
    """How records name their schema, which is as the registry's own serializers write: what `registry.type` says, and need not be given."""
    envelope: GivenEnvelope | None = None
    """What the records stand in that says what became of each: `debezium`, whose change is unwrapped, so that the row's own fields are the columns; as a mapping, with what else there is to say of it. By default they stand in nothing. With it `route.field` is `__source_table`, the table at the source, unless given, and rules with `mode: upsert` have `sequence_by` and `deletes` by what the envelope says, where they do not say it."""
    evolution: Literal["auto", "restart", "inline", "fail", "ignore"] = "auto"
    """What a schema that changes a table does: `auto` restarts for one that somebody registered and goes on for one that was inferred, which grows with records; `restart` gives the attempt up and starts the query again with the new schema; `inline` goes on with it in the same batch; `fail` stops; `ignore` leaves the tables as they are and rescues new values."""
    schema_location: OptionalPlace = None
    """The folder with the versions of an inferred schema, for formats whose records name none; by default `schemas/<name>`. A path, or a URL as for `sink.root`."""
    schema_hints: Annotated[str | None, EmptyIsNone] = None
    """Types that win over inferred ones, as Spark's DDL, such as `level bigint, position struct<x: double>`."""
    schema_per: Literal["topic", "entity"] = "topic"
    """What has an inferred schema of its own: `topic`, all records together; `entity`, each entity's records, so that a field may be a number for one and a text for another. The entity must be known before a record is decoded: not for `route.by` record or expression, nor for key where `decode.key` is auto."""
    max_fields: Annotated[int, Field(ge=1)] = 1000
    """How many fields, nested ones included, an inferred schema has at most: one that grows by itself stops there and further fields are rescued; where there is none yet and records have more, `infer` and `run` say so and keep none."""
    check: Literal["types", "schema"] = "types"
    """What records are held to: `types`, those of their schema's fields; `schema`, all that it says, such as a JSON Schema's `required`, `minimum` and `pattern`, which is slow and needs the extra `distributary[validation]` wherever records are decoded. A record that does not meet it goes the way of those that cannot be decoded."""
    key: Literal["bytes", "text", "auto"] = "bytes"
    """What becomes of a record's key beside the column of its bytes: `bytes`, nothing more; `text`, a column of its text; `auto`, the same, where a key that names a schema of the registry is decoded by it first: a single value as it is written, a record as JSON, with the maps of Avro and Protobuf ordered by their keys, as these come in no order. A key that cannot be decoded has no text; its record lands all the same."""
    engine: Literal["arrow", "spark"] = "arrow"
    """What decodes: `arrow` is the native decoder in the workers; `spark` takes the values from Spark's own functions (`from_avro`, `from_json`, `from_protobuf`) for each record that the native decoder has found whole, which is slower, and has Spark evaluate `route.expression`, whatever it uses."""

    @property
    def codec(self) -> CodecName:
        """What decodes records, envelope and all."""
        in_glue = f"glue/{self.format}"
        # For any other format the settings are refused.
        return codec_name(
            in_glue if self.wire == "glue" and in_glue in IN_GLUE else self.format, self.envelope
        )

    @field_validator("format")
    @classmethod
    def _known(cls, name: str) -> str:
        try:
            if name in IN_GLUE:
                raise UnknownCodec(f"write format: {name.removeprefix('glue/')}, and registry.type: glue")
            load_codec(name)
        except UnknownCodec as error:
            raise ValueError(str(error)) from None
        return name


class Route(Group):
    """How a record finds its table."""

    by: Literal["field", "record", "topic", "key", "header", "expression"] = "field"
    """What a record is routed by: `field`, a field of its payload; `record`, the full name of its record or message type; `topic`, its topic; `key`, its key as text; `header`, the last record header of a name; `expression`, what Spark SQL makes of its payload."""
    field: Name | None = None
    """The payload field that names the entity, for `by: field`; dotted if it is nested."""
    header: Name | None = None
    """The record header whose value, as text, names the entity, for `by: header`."""
    expression: Name | None = None
    """The Spark SQL expression over the payload's fields whose value, as text, names the entity, for `by: expression`, such as `concat(game_name, '_', lower(country))`."""
    table: str = "{entity}"
    """The tables' names: `{entity}` once, and around it a-z, 0-9 and _. An entity's name that is not made of those gets a hash appended."""
    max_tables: Annotated[int, Field(ge=1)] = 1000
    """How many entity tables there may be; records of further entities go to quarantine."""
    fold_case: bool = True
    """Whether entities that differ only by case are one."""

    @field_validator("table")
    @classmethod
    def _usable(cls, template: str) -> str:
        names.check_template(template)
        return template

    @field_validator("field")
    @classmethod
    def _whole_path(cls, path: str | None) -> str | None:
        if path is not None and not all(path.split(".")):
            raise ValueError("a part between dots is empty; write for example header.game_name")
        return path

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        for by, name in (("field", self.field), ("header", self.header), ("expression", self.expression)):
            if self.by == by and name is None:
                what = "write its name" if by != "expression" else "write it"
                yield (by,), f"records are routed by {_a(by)}: {what}"
            if self.by != by and name is not None:
                yield (by,), f"records are routed by {self.by}: leave it out, or write by: {by}"

    def folder(self, entity: str) -> str:
        """The folder of an entity's table, under the root."""
        return names.table_name(self.table, entity, self.fold_case)


class Columns(Group):
    """The names of the columns that every entity's table has beside its payload's."""

    kafka_topic: Name = "kafka_topic"
    """The record's topic."""
    kafka_partition: Name = "kafka_partition"
    """The record's partition."""
    kafka_offset: Name = "kafka_offset"
    """The record's offset."""
    kafka_ts: Name = "kafka_ts"
    """The record's timestamp in Kafka."""
    kafka_key: Name = "kafka_key"
    """The record's key, as bytes."""
    schema_id: Name = "schema_id"
    """The id of the schema it was decoded with."""
    key_text: Name | None = None
    """The record's key as text, where `decode.key` is not `bytes`; then `kafka_key_text` by default."""
    kafka_date: Name | None = None
    """The day of the record's timestamp in Kafka, in UTC, for `tables[].partition_by`. There is none unless it is given a name."""
    rescued: Name = "_rescued_data"
    """JSON text of the values that its table has no place for."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        taken = set(map(names.fold, names.RESERVED_COLUMNS))
        for role, name in self.given():
            if names.column_name(name, frozenset()) != name:
                yield (role,), "Delta takes no column of this name; use letters, digits and _"
            elif names.column_name(name, taken) != name:
                yield (role,), "another column, or Delta itself, has this name (case aside); choose another"
            taken.add(names.fold(name))

    def reserved(self) -> frozenset[str]:
        """The names that no payload column may have."""
        return frozenset(name for _, name in self.given())

    def given(self) -> list[tuple[str, str]]:
        """The columns that there are, each by its role and its name."""
        return [(role, name) for role, name in self if name is not None]

    def day_meant(self) -> str:
        """What to write for the day of the record's timestamp in Kafka."""
        if self.kafka_date is None:
            return "give sink.columns.kafka_date a name, such as kafka_date, and write that"
        return f"write {self.kafka_date}"

    def why_not_clustered(self, name: str) -> str:
        """Why no table is clustered by what is called so, as far as the settings alone tell; empty where one may be."""
        if name == self.kafka_key:
            return "it is bytes, of which a file has no bounds; name a field, or the column of the key's text"
        if name == "kafka_date" and self.kafka_date is None:
            return f"there is no such column; {self.day_meant()}"
        if "(" in name:
            return f"an expression is none of a record's fields; for a field's day give it a column by columns.days, for the day in Kafka {self.day_meant()}"
        return ""


class Maintain(Group):
    """Upkeep that a run does by itself, as `distributary maintain` does it."""

    every_hours: Annotated[float, Field(gt=0, le=8_760)] = 24.0
    """How long after one upkeep the next begins, whichever run that was."""
    older_than_days: Annotated[float, Field(ge=7, le=36_500)] = 7.0
    """Files that no version of a table has needed for so long are deleted."""


Days: TypeAlias = Annotated[float, Field(gt=0, le=36_500)]


class Keep(Group):
    """For how long the record is kept, by upkeep; for ever unless given."""

    batches_days: Annotated[float, Field(ge=1, le=36_500)] | None = None
    """For how long `ledger_batches` tells of each batch; older ones are one row a day there."""
    changes_days: Days | None = None
    """For how long `ledger_changes` tells what schemas changed."""
    quarantine_days: Days | None = None
    """For how long records stay in `quarantine`. The ledger goes on telling how many there were."""


ClusterFields: TypeAlias = Annotated[
    tuple[Name, ...], Field(max_length=clustering.MOST), AfterValidator(whole_paths)
]


class Sink(Group):
    """Where the tables are."""

    root: PlaceOfTables
    """The folder of all tables. A path, relative to the settings file, under which driver and workers see the same; or a URL: `s3://bucket/lake`, `abfss://container@account.dfs.core.windows.net/lake`, `az://container/lake`, `gs://bucket/lake`, `hdfs://namenode:8020/lake`."""
    mode: Literal["append"] = "append"
    """How rows land: `append` adds each record as a row."""
    log_retention_days: Annotated[int, Field(ge=1, le=365_000)] = 2
    """For how long the versions of a table that is made here can be read again: what its log has beyond that goes with the next checkpoint of it. A table that is there keeps what it says itself (`delta.logRetentionDuration`)."""
    properties: TableProperties = Field(default_factory=dict)
    """Properties of all entities' tables, by their own names, such as `delta.checkpointInterval`; `tables` says more of some tables. A table that is there gets them with its next rows."""
    max_rows_per_file: Annotated[int, Field(ge=1)] | None = None
    """How many rows a file of an entity's table has at most; by default as many as a batch and a worker's memory give it."""
    cluster_by: ClusterFields | None = None
    """By what entities' tables are clustered, where `tables` says neither that nor `partition_by` of one; as `tables[].cluster_by`."""
    maintain: Maintain | None = None
    """Upkeep by the runs themselves, in a process of its own beside the batches: `{}` or `{every_hours: 24}`; one that ends when all is ingested does it then. By default there is none."""
    keep: Keep = Keep()
    """For how long the record is kept: `distributary maintain`, and runs with `sink.maintain`, let go what is older."""
    columns: Columns = Columns()
    """Names of the columns added to every row."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        for place, name in enumerate(self.cluster_by or ()):
            if why := self.columns.why_not_clustered(name):
                yield ("cluster_by", place), why


class Trigger(Group):
    """When batches run."""

    available_now: bool = False
    """Whether the run ends once everything that was there at its start is ingested."""
    interval_seconds: Seconds = 10.0
    """How long records wait for others before a batch takes them, at the most; a batch that would be full (`limits.batch_rows`) waits for nothing. Each batch is a commit and a file or more for each table that gets rows, so that 0, which takes what is there as soon as the last batch is done, may make 12,000 of them an hour, and 10 makes 360."""


class Limits(Group):
    """Bounds on what a batch and a worker take at once."""

    batch_rows: Annotated[int, Field(ge=1, le=2**63 - 1)] = 500_000
    """At most how many Kafka offsets one batch covers."""
    batch_files: Annotated[int, Field(ge=1)] = 2_000
    """From how many files on a batch's rows are brought together by table before they are written. As many come as there are tables times tasks, of which a batch has as many as run at once; brought together, about one a table, at the price of sending the rows from task to task. Tables that are new in a batch are not counted, so a first batch with many of them may have more; a table's partitions are, as many as the batches before had. Brought together there is still a file for each of them."""
    worker_bytes: Bytes = 128 * 2**20
    """About how much a Python worker may hold in rows not yet written, as bytes or as `192 MiB`."""
    arrow_rows: Annotated[int, Field(ge=1, le=2**31 - 1)] = 20_000
    """How many rows a worker is given at once."""
    commit_threads: Annotated[int, Field(ge=1, le=256)] | None = None
    """How many tables are committed side by side; by default 8 in a folder, and 64 in a store, where most of the time is waiting."""


class NamedTable(Group):
    """One table, named by the user."""

    table: str
    """The table's name."""

    @field_validator("table")
    @classmethod
    def _usable(cls, name: str) -> str:
        names.check_table(name)
        return name


NoEntity = Annotated[
    Annotated[Literal["quarantine", "drop", "fail"], Tag("word")] | Annotated[NamedTable, Tag("named")],
    Discriminator(lambda value: "named" if isinstance(value, dict | NamedTable) else "word"),
]


# What a class of change does that needs no place for a value.
OnChange: TypeAlias = Literal["keep", "quarantine", "fail"]


class Policies(Group):
    """What happens to what does not fit."""

    new_field: Literal["add", "rescue", "fail", "ignore"] = "add"
    """A payload field that the table lacks: `add` a column, `rescue` its values into the rescued column, `fail`, or `ignore` it."""
    wider_type: Literal["rescue", "widen", "quarantine", "fail"] = "rescue"
    """A field whose type is wider than its column's. Values that fit are stored; of the others, `rescue` stores the value as text in the rescued column, `quarantine` sets the record aside. `fail` stops as soon as the type is met. `widen` makes the column wider where Delta can, as from `int` to `bigint`, and rescues otherwise; the table then has Delta's feature `typeWidening`, which delta-rs and some other readers do not know, and Spark commits to it, more slowly."""
    incompatible_type: Literal["quarantine", "rescue", "fail"] = "quarantine"
    """A field whose type does not go into its column's: records that have a value there go to `quarantine`, or their value is rescued (`rescue`), or the run stops (`fail`)."""
    dropped_field: OnChange = "keep"
    """A new schema lacks a field that the one before it had: `keep` the column, which is null in new rows; or such a schema's records, of a table that had those of the one before, wait in `quarantine`; or the run stops (`fail`). So with the five below."""
    renamed_field: OnChange = "keep"
    """A field has another name: `keep` the column, beside which the new name gets one as `new_field` says."""
    narrower_type: OnChange = "keep"
    """A field's type is narrower: `keep` the column, which has every value of it."""
    required_field: OnChange = "keep"
    """A field that records might lack is required: `keep` the column, which may be null."""
    enum_value: OnChange = "keep"
    """An enum has another symbol, or lacks one: `keep` the column, which is text."""
    record_name: OnChange = "keep"
    """The record type has another name: `keep` the table, where records are not routed by that name."""
    new_entity: Literal["create", "quarantine", "fail"] = "create"
    """An entity that has no table yet: `create` it, `quarantine` its records, or `fail`."""
    no_entity: NoEntity = "quarantine"
    """A record without a value in the routing field: `quarantine`, `drop` (counted), `fail`, or `{table: name}` to collect such records in one table. One with a value there that is none of the field's type is not dropped but in quarantine."""
    undecodable: Literal["quarantine", "fail"] = "quarantine"
    """A record that cannot be decoded."""
    quarantine_headers: bool = False
    """Whether records in `quarantine` keep their headers, so that they can be sent once more as they came; with `bronze` they always do."""
    stuck_table: Literal["stop", "park"] = "stop"
    """A table that can never take the files of a decided batch, as when it was dropped or altered by hand, or that nobody can open: `stop` the run until `distributary resolve` has decided, or the table can be read; or `park` the table: its files wait, those of later batches behind them, and all other tables go on."""
    parked_batches: Annotated[int, Field(ge=1)] = 1000
    """How many batches may be decided while the files of one wait for a parked table; then the run stops."""


class Budget(Group):
    """How often something may happen within a window, and the waits in between, which double up to the longest."""

    max: Annotated[int, Field(ge=0)]
    """How many within the window; one more ends the run."""
    window_seconds: PositiveSeconds = 600.0
    """The window's length."""
    first_wait_seconds: Seconds
    """The wait after the first."""
    longest_wait_seconds: Seconds
    """The longest wait."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if self.longest_wait_seconds < self.first_wait_seconds:
            yield ("longest_wait_seconds",), "it is less than first_wait_seconds; write at least as much"


class Failures(Budget):
    """Restarts after failures."""

    max: Annotated[int, Field(ge=0)] = 5
    """How many within the window; one more ends the run. Those of one batch, or of one time that a run begins to read, count for as long as that does not succeed, however long an attempt takes."""
    first_wait_seconds: Seconds = 1.0
    """The wait after the first."""
    longest_wait_seconds: Seconds = 60.0
    """The longest wait."""


class Evolutions(Budget):
    """Restarts because a schema evolved."""

    max: Annotated[int, Field(ge=0)] = 20
    """How many within the window; one more ends the run."""
    first_wait_seconds: Seconds = 0.0
    """The wait after the first."""
    longest_wait_seconds: Seconds = 5.0
    """The longest wait."""


class Supervisor(Group):
    """How often the query is started again by itself before the run gives up."""

    failures: Failures = Failures()
    """Restarts after a failure."""
    evolutions: Evolutions = Evolutions()
    """Restarts because a registered schema evolved; they count apart from failures. An inferred one that grows is not counted."""


class Spark(Group):
    """The Spark session; what `spark-submit` sets wins."""

    master: Name = "local[*]"
    """Spark's master."""
    conf: Annotated[ClientOptions, AfterValidator(check_spark)] = ClientOptions({})
    """Further Spark settings by their own names."""


def _a(noun: str) -> str:
    return f"an {noun}" if noun[0] in "aeiou" else f"a {noun}"
