"""Inferring the schema of each entity's JSON records from a topic, all in one Spark job, however many entities there are.

Spark's JSON reader infers one schema for all that it is given, so that it would take a pass an entity: the workers find the types
themselves, by the same rules by which schemas grow later on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from distributary.codecs.base import Codec, CodecName, GrowingReader, growing_reader, load_codec, picking
from distributary.codecs.types.fields import fields_in
from distributary.codecs.wire.record_headers import last_header
from distributary.ingest.inference.bound import Looked, check_bound, enough
from distributary.ingest.inference.topic import look_at_records
from distributary.ingest.routing.routes import as_text
from distributary.ingest.schemas.hints import hints_of, with_hints
from distributary.ingest.schemas.inferred_per_entity import NO_FIELDS, EntitySchemas, entity_name
from distributary.ingest.settings.groups import Decode, Route
from distributary.ingest.source.contract import Channels, Records
from distributary.registry.base import Schema

_NOTHING = Schema(0, "STRUCT", NO_FIELDS)

_NAMED_DDL = "topic string, key binary, timestamp timestamp, offset bigint, value binary, entity string"

_FOUND_DDL = "entity string, text string, records bigint, cut_short boolean"

# Names come from data: so many times the entities that may have tables are looked at in one task.
_LEEWAY = 4

# Texts that differ are put together now and then.
_MOST_TEXTS = 32

# So many records are looked at together: the fields of each are put into those of all before it.
_TOGETHER = 256

_Run = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def infer_entities(
    topics: Records, decode: Decode, route: Route, channels: Channels, sample: int | None = None
) -> dict[str, Schema]:
    """By entity the schema of its records, from the earliest to the latest offset or of about `sample` records of them all.

    Of an entity's records that have one key only the latest is looked at; nulls, what is no JSON, records without an entity, and
    those that name a registered schema are left out. Of more entities than may have tables those of the most records have one.
    Raises ConfigError where the records of one have more fields than decode.max_fields.
    """
    known = replace(_NOTHING, text=hints_of(decode.schema_hints).json())
    run = _inferring(decode.codec, route, known, enough(decode.max_fields))

    def look(records: DataFrame) -> list[Row]:
        # A task for each of the many parts of a shuffle would be a Python worker each, mostly for nothing.
        latest = _latest(decode.codec, route, records).coalesce(topics.spark.sparkContext.defaultParallelism)
        return latest.mapInArrow(run, _FOUND_DDL).collect()

    rows = look_at_records(topics, decode, channels, look, sample)
    found = _by_name(route, [(row.entity, row.text, row.records, row.cut_short) for row in rows])
    most = sorted(found.values(), key=lambda one: (-one.records, one.entity))[: route.max_tables]
    codec = load_codec(decode.codec)
    most.sort(key=lambda one: one.entity)
    schemas = {one.entity: _schema(one, codec, decode.schema_hints) for one in most}
    check_bound([Looked(schemas[one.entity], one.cut_short, one.entity) for one in most], decode.max_fields)
    return schemas


def keep(location: EntitySchemas, found: Mapping[str, Schema]) -> dict[str, Schema]:
    """The versions of these schemas in a location, by entity."""
    entities = {schema.entity or "": entity for entity, schema in found.items()}
    texts = {schema.entity or "": schema.text for schema in found.values()}
    made = location.register_each(texts, entities) if texts else {}
    return {entities[name]: schema for name, schema in made.items()}


@dataclass
class _Found:
    """What was found of one entity's records; it is called as most of them call it."""

    entity: str
    name: str
    records: int = 0
    texts: set[str] = field(default_factory=set)
    cut_short: bool = False


def _by_name(route: Route, rows: Iterable[tuple[str, str, int, bool]]) -> dict[str, _Found]:
    found: dict[str, _Found] = {}
    for entity, text, records, cut_short in sorted(rows):
        name = entity_name(entity, route.fold_case)
        one = found.setdefault(name, _Found(entity, name))
        one.records += records
        one.texts.add(text)
        one.cut_short |= cut_short
    return found


def _schema(found: _Found, codec: Codec, hints: str | None) -> Schema:
    text = with_hints(_merged(codec, found.texts), hints)
    return replace(_NOTHING, text=text, entity=found.name)


def _with_entity(format_: CodecName, route: Route, records: DataFrame) -> DataFrame:
    """The records with the column `entity`, without those that have none."""
    columns = ["topic", "key", "timestamp", "offset", "value"]
    if route.by == "field":
        frame = records.select(*columns).mapInArrow(_picking(format_, route), _NAMED_DDL)
    elif route.by == "topic":
        frame = records.select(*columns, F.col("topic").alias("entity"))
    else:
        value = F.col("key") if route.by == "key" else last_header(F.col("headers"), route.header or "")
        frame = records.select(*columns, value.alias("entity")).mapInArrow(_reading, _NAMED_DDL)
    return frame.where("entity <> ''")


def _picking(format_: CodecName, route: Route) -> _Run:
    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        picked = picking(load_codec(format_))
        for batch in batches:
            entity = picked(_binary(batch["value"]), (route.field or "").split("."))
            yield batch.append_column(pa.field("entity", pa.string()), entity)

    return run


def _reading(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        place = batch.schema.get_field_index("entity")
        yield batch.set_column(place, pa.field("entity", pa.string()), as_text(_binary(batch["entity"])))


def _latest(format_: CodecName, route: Route, records: DataFrame) -> DataFrame:
    # Told apart before their entities are found, so that each record is looked into once.
    keyed = _with_entity(format_, route, records.where("key IS NOT NULL")).groupBy("topic", "key", "entity")
    newest = keyed.agg(F.max_by("value", F.struct("timestamp", "offset")).alias("value"))
    others = _with_entity(format_, route, records.where("key IS NULL"))
    columns = ["entity", "value"]
    return newest.select(*columns).unionByName(others.select(*columns))


@dataclass
class _Look:
    """A task's look at one entity's records: what they are, by texts of schemas, until there are too many fields."""

    records: int = 0
    texts: set[str] = field(default_factory=set)
    fields: int = 0
    cut_short: bool = False

    def take(self, codec: Codec, reader: GrowingReader, payloads: pa.BinaryArray, most: int) -> None:
        self.records += len(payloads)
        for begin in range(0, len(payloads), _TOGETHER):
            if self.cut_short:
                return
            text = reader.grown(payloads.slice(begin, _TOGETHER)).text
            if text not in self.texts:
                self.texts.add(text)
                self.fields += _fields(codec, text)
            if len(self.texts) > _MOST_TEXTS or self.fields > most:
                self.texts = {_merged(codec, self.texts)}
                self.fields = sum(_fields(codec, one) for one in self.texts)
                self.cut_short = self.fields > most


def _fields(codec: Codec, text: str) -> int:
    return fields_in(codec.reader(replace(_NOTHING, text=text), ()).schema)


def _inferring(format_: CodecName, route: Route, known: Schema, most: int) -> _Run:
    """`known` has the fields whose types are settled; of an entity's records no more than `most` fields are of interest."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        codec, looks = load_codec(format_), dict[str, _Look]()
        reader = growing_reader(codec, known)
        for batch in batches:
            named = batch["entity"].cast(pa.string()).dictionary_encode()
            for entity, rows in _groups(named):
                if entity in looks or len(looks) < _LEEWAY * route.max_tables:
                    payloads = _binary(batch["value"]).take(rows)
                    looks.setdefault(entity, _Look()).take(codec, reader, payloads, most)
        columns = [
            pa.array(list(looks), pa.string()),
            pa.array([_merged(codec, one.texts) for one in looks.values()], pa.string()),
            pa.array([one.records for one in looks.values()], pa.int64()),
            pa.array([one.cut_short for one in looks.values()], pa.bool_()),
        ]
        yield pa.RecordBatch.from_arrays(columns, names=["entity", "text", "records", "cut_short"])

    return run


def _groups(named: pa.DictionaryArray) -> Iterator[tuple[str, pa.Array]]:
    codes = named.indices.to_numpy()
    order = np.argsort(codes, kind="stable")
    found, starts = np.unique(codes[order], return_index=True)
    for code, rows in zip(found.tolist(), np.split(order, starts[1:]), strict=True):
        yield named.dictionary[code].as_py(), pa.array(rows)


def _merged(codec: Codec, texts: Iterable[str]) -> str:
    growing = codec.capabilities.growing
    several: Sequence[Schema] = [replace(_NOTHING, text=text) for text in sorted(texts)]
    return _NOTHING.text if growing is None else growing.merged([_NOTHING, *several]).text


def _binary(values: pa.Array) -> pa.BinaryArray:
    return values.cast(pa.binary())
