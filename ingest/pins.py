"""Everything that decides what becomes of a record, fixed before a batch is read.

Workers decide nothing that is not here: the same batch with the same pins gives the same rows in the same tables.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pyarrow as pa

from distributary.codecs.base import INFERRED, RecordPath
from distributary.ingest.routing.tree import Node
from distributary.ingest.settings.groups import Columns, Policies, Route
from distributary.registry.base import Schema, SchemaRef


def describe(record: PinnedRecord) -> str:
    """A record type by its schema's reference, and its place in the schema where it is not the first."""
    ref, path = record.key
    whose = "" if record.schema.entity is None else f" of {record.schema.entity}"
    return f"{ref}{whose}" + (f" (message {'.'.join(map(str, path))})" if any(path) else "")


# A record type of a schema, as its wire header names it.
RecordKey = tuple[SchemaRef, RecordPath]

# Where a record stands in Kafka: topic, partition, offset.
Coordinates = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class PinnedRecord:
    """A record type that may be decoded in this batch, and the columns it brings."""

    key: RecordKey
    schema: Schema


def newest_inferred(records: Sequence[PinnedRecord]) -> int | None:
    """Which of these is the newest version of the inferred schema; it takes what the others take. None without any.

    Those that are for one entity's records do not count.
    """
    return newest_of_entities(records).get(None)


def newest_of_entities(records: Sequence[PinnedRecord]) -> dict[str | None, int]:
    """Which of these are the newest versions of inferred schemas, by the entities they are for; None: for all."""
    found: dict[str | None, int] = {}
    for number, pinned in enumerate(records):
        before, schema = found.get(pinned.schema.entity), pinned.schema
        # Versions count up; where they stand beside a registry's ids, they count down from -1.
        if schema.inferred and (before is None or abs(schema.id) > abs(records[before].schema.id)):
            found[schema.entity] = number
    return found


def numbers_of_records(records: Sequence[PinnedRecord]) -> dict[RecordKey, int]:
    """The places of record types among the pinned ones, by what records name; `INFERRED` is the newest inferred one."""
    numbers: dict[RecordKey, int] = {pinned.key: number for number, pinned in enumerate(records)}
    inferred = newest_inferred(records)
    return numbers if inferred is None else {**numbers, (INFERRED, ()): inferred}


@dataclass(frozen=True, slots=True)
class PinnedTable:
    """A table that is there already: the entity it belongs to, its payload columns, and those of a type that must stay."""

    entity: str
    layout: pa.Schema
    fixed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a record goes to quarantine: a reason code and a sentence without any payload."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class PinnedKeys:
    """How keys become text, where they are more than bytes.

    decoded  whether a key that names a schema is decoded by it; every other key is text as it is
    records, refused, final  as `records`, `refused` and `schemas_final` of the pins, for the schemas of keys; a key that
             cannot be decoded has no text
    """

    decoded: bool = False
    records: tuple[PinnedRecord, ...] = ()
    refused: Mapping[RecordKey, Verdict] = field(default_factory=dict)
    final: bool = False


@dataclass(frozen=True)
class Pins:
    """What one pass over one batch is decided by.

    expression   what records are routed by, for `by: expression`; None where Spark has done so
    engine       what decodes: `arrow` or `spark`
    check        what records are held to: `types` or `schema`
    widen        whether tables whose columns are too narrow for a record's type are asked for wider ones
    keys         how keys become text; None where they are bytes and nothing more
    by_entity    whether records that name no schema are decoded by one that was inferred for their entity
    records      record types that may be decoded
    refused      record types that were asked for and that nobody knows: to quarantine
    tables       known tables, by their folder under the root
    admitted     folders of new tables that are wanted whatever their count
    denied       folders of tables that are not to be: their records go to quarantine
    new_tables   how many further tables a task may give a provisional file
    rejected     single records that may not be decoded or written: to quarantine
    already      per table folder, topic and partition: offsets below this are in the table
    met          record types that a table has met before, by its folder; meeting others is reported
    schemas_final, tables_final  what is not pinned goes to quarantine instead of being set aside
    max_fields   how many fields an inferred schema grows to by itself
    inferred_final  fields that the inferred schema lacks are rescued instead of letting it grow
    guarded      payloads are decoded in a child process first, because a worker died
    count_input  whether this pass counts what was read (rows set aside were counted before)
    """

    root: str
    aside: str
    generation: str
    batch_id: int
    codec: str
    topics: tuple[str, ...]
    route: Route
    columns: Columns
    policies: Policies
    grow: bool
    worker_bytes: int
    expression: Node | None = None
    engine: str = "arrow"
    check: str = "types"
    by_entity: bool = False
    widen: bool = False
    keys: PinnedKeys | None = None
    records: tuple[PinnedRecord, ...] = ()
    refused: Mapping[RecordKey, Verdict] = field(default_factory=dict)
    tables: Mapping[str, PinnedTable] = field(default_factory=dict)
    admitted: frozenset[str] = frozenset()
    denied: frozenset[str] = frozenset()
    new_tables: int = 0
    rejected: Mapping[Coordinates, Verdict] = field(default_factory=dict)
    already: Mapping[str, Mapping[str, Mapping[int, int]]] = field(default_factory=dict)
    met: Mapping[str, tuple[RecordKey, ...]] = field(default_factory=dict)
    max_questions: int = 100
    max_fields: int = 1000
    schemas_final: bool = False
    inferred_final: bool = False
    tables_final: bool = False
    guarded: bool = False
    count_input: bool = True


def for_workers(pins: Pins) -> Pins:
    """The pins without what no record names: the versions of entities' schemas that a newer one has taken the place of.

    The driver keeps them all: tables have met them, and manifests list them.
    """
    if not pins.by_entity:
        return pins
    newest = set(newest_of_entities(pins.records).values())
    kept = [one for number, one in enumerate(pins.records) if not one.schema.inferred or number in newest]
    return replace(pins, records=tuple(kept))


TOMBSTONE = "tombstone"

UNKNOWN_SCHEMA = "unknown_schema"

UNUSABLE_SCHEMA = "unusable_schema"

CONSTRAINT = "constraint"

NO_ENTITY = Verdict("no_entity", "the routing field has no value")

TABLE_LIMIT = Verdict("table_limit", "route.max_tables is reached, or the settings allow no new table")

KILLED_WORKER = Verdict("killed_worker", "decoding this record ends the process that decodes it")


def unknown_schema(ref: SchemaRef) -> Verdict:
    """The registry knows no schema by this id or GUID."""
    return Verdict(UNKNOWN_SCHEMA, f"the registry knows no schema {ref}")


def unusable_schema(ref: SchemaRef, why: str) -> Verdict:
    """The registry has the schema, but nothing can be decoded with it."""
    return Verdict(UNUSABLE_SCHEMA, f"schema {ref} cannot be used: {why}")


def unasked_schema(ref: SchemaRef) -> Verdict:
    """Nobody asked the registry for it: the batch held more unknown schemas than are asked for at once."""
    return Verdict(
        "unasked_schema",
        f"schema {ref} was not asked for: the batch holds more unknown ones than registry.max_unknown_ids",
    )
