"""Everything that decides what becomes of a record, fixed before a batch is read.

Workers decide nothing that is not here: the same batch with the same pins gives the same rows in the same tables.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from socket import gethostname
from typing import Protocol

import distributary
from distributary.codecs.base import INFERRED, CodecName, RecordPath
from distributary.errors import SetupError
from distributary.ingest.columns.layout import Layout
from distributary.ingest.kafka.offsets import Stretches
from distributary.ingest.routing.tree import Node
from distributary.ingest.settings.groups import Columns, Policies, Route
from distributary.ingest.settings.rule_book import RuleBook
from distributary.ingest.storage.contract import Files
from distributary.registry.base import Schema, SchemaRef


def describe(record: PinnedRecord) -> str:
    """A record type by its schema's reference, and its place in the schema where it is not the first."""
    ref, path = record.key
    whose = "" if record.schema.entity is None else f" of {record.schema.entity}"
    return f"{ref}{whose}" + (f" (message {'.'.join(map(str, path))})" if any(path) else "")


# A record type of a schema, as its wire header names it.
RecordKey = tuple[SchemaRef, RecordPath]


def by_age(key: RecordKey) -> tuple[bool, bool, int, str, RecordPath]:
    """What record types are sorted by, wherever their order counts: the older schema first.

    Inferred versions beside a registry's ids come before those: they count from -1 downwards, on a scale of their own. Ids count
    up as schemas are registered. GUIDs have no age: they come last.
    """
    ref, path = key
    number = ref if isinstance(ref, int) else 0
    return isinstance(ref, str), number >= 0, abs(number), str(ref), path


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
    """A table that is there already: the entity it belongs to, its payload columns, and those of a type that must stay.

    partitions  all its columns that its files are told apart by; none where Spark's writer does that
    clustered   those that it is clustered by, by the payload's names, dotted: its log has to tell of them
    """

    entity: str
    layout: Layout
    fixed: frozenset[str] = frozenset()
    partitions: tuple[str, ...] = ()
    clustered: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why a record goes to quarantine: a reason code and a sentence without any payload."""

    reason: str
    detail: str


@dataclass(frozen=True, slots=True)
class PinnedKeys:
    """How keys become text, where they are more than bytes.

    decoded  whether a key that names a schema is decoded by it; every other key is text as it is
    records, refused, final  as `records` and `refused` of PinnedSchemas and `schemas_final` of Turn, for the schemas of
             keys; a key that cannot be decoded has no text
    """

    decoded: bool = False
    records: tuple[PinnedRecord, ...] = ()
    refused: Mapping[RecordKey, Verdict] = field(default_factory=dict)
    final: bool = False


@dataclass(frozen=True, slots=True)
class BatchId:
    """Which batch it is, and where this attempt's files go.

    root        where all tables are
    aside       where rows are kept that wait for an answer
    generation  of the checkpoint
    id          the batch's number
    made_for    the number that the files' names carry: that of the log's entry that is to name them
    pipeline    the pipeline's name
    machine     the driver's, which syncs what is written there
    """

    root: Files
    aside: Files
    generation: str
    id: int
    made_for: int
    pipeline: str
    machine: str


@dataclass(frozen=True, slots=True)
class Decoding:
    """How records are decoded.

    codec       by name
    engine      what decodes: `arrow` or `spark`
    check       what records are held to: `types` or `schema`
    by_entity   whether records that name no schema are decoded by one that was inferred for their entity
    max_fields  how many fields an inferred schema grows to by itself
    max_questions  how many unknown record types a task asks for at most
    """

    codec: CodecName
    engine: str = "arrow"
    check: str = "types"
    by_entity: bool = False
    max_fields: int = 1000
    max_questions: int = 100


@dataclass(frozen=True, slots=True)
class WorkerRules:
    """What the settings say to workers; it stays as it is for the whole run.

    expression    what records are routed by, for `by: expression`; None where Spark has done so
    worker_bytes  how much of a task's rows is kept in memory
    tables        what each entity's table is
    """

    decoding: Decoding
    topics: tuple[str, ...]
    route: Route
    columns: Columns
    policies: Policies
    worker_bytes: int
    expression: Node | None = None
    tables: RuleBook = field(default_factory=RuleBook)


@dataclass(frozen=True, slots=True)
class PinnedSchemas:
    """Record types that may be decoded, and those that were asked for and that nobody knows: to quarantine."""

    records: tuple[PinnedRecord, ...]
    refused: Mapping[RecordKey, Verdict]


@dataclass(frozen=True, slots=True)
class PinnedTables:
    """Which tables there may be, and what is known of them.

    known       by their folder under the root
    met         record types that a table has met before, by its folder; meeting others is reported
    already     per table folder, topic and partition: offsets below this are in the table
    grow        whether known tables get columns
    widen       whether tables whose columns are too narrow for a record's type are asked for wider ones
    admitted    folders of new tables that are wanted whatever their count
    denied      folders of tables that are not to be: their records go to quarantine
    new_tables  how many further tables a task may give a provisional file
    """

    known: Mapping[str, PinnedTable]
    met: Mapping[str, tuple[RecordKey, ...]]
    already: Mapping[str, Mapping[str, Mapping[int, int]]]
    grow: bool
    widen: bool
    admitted: frozenset[str]
    denied: frozenset[str]
    new_tables: int


@dataclass(frozen=True, slots=True)
class Turn:
    """What passes over one batch differ by.

    schemas_final, tables_final  what is not pinned goes to quarantine instead of being set aside
    inferred_final  fields that the inferred schema lacks are rescued instead of letting it grow
    proposals_refused  the same for these schemas alone, which the driver took nothing of; by `proposal`
    rejected     single records that may not be decoded or written: to quarantine
    vetoed       per table folder: record types that it does not take, whose records go to quarantine
    guarded      payloads are decoded in a child process first, because a worker died
    count_input  whether this pass counts what was read (rows set aside were counted before)
    """

    schemas_final: bool
    inferred_final: bool
    proposals_refused: frozenset[bytes]
    tables_final: bool
    rejected: Mapping[Coordinates, Verdict]
    vetoed: Mapping[str, Mapping[RecordKey, Verdict]]
    guarded: bool
    count_input: bool


# The first pass over a batch: everything may still be asked for.
FIRST_TURN = Turn(
    schemas_final=False,
    inferred_final=False,
    proposals_refused=frozenset(),
    tables_final=False,
    rejected={},
    vetoed={},
    guarded=False,
    count_input=True,
)


@dataclass(frozen=True, slots=True)
class Pins:
    """What one pass over one batch is decided by. What is decided for a batch has no default: it is never forgotten.

    rules  stay as they are for the whole run; all other parts are the batch's own
    keys   how keys become text; None where they are bytes and nothing more
    placed  the records that an earlier checkpoint has brought to their place, in whichever table that is
    turn   what this pass differs by from those before
    """

    batch: BatchId
    rules: WorkerRules
    schemas: PinnedSchemas
    tables: PinnedTables
    keys: PinnedKeys | None
    placed: Stretches
    turn: Turn


class HandedOut(Protocol):
    """Bytes that Spark hands out to workers by itself."""

    @property
    def value(self) -> bytes:
        """The bytes, in a worker."""
        ...


class SentPins:
    """Pins on their way to workers, in the place of which these find what was pickled."""

    def __init__(self, pickled: bytes | HandedOut) -> None:
        self._pickled = pickled

    def __reduce__(self) -> tuple[Callable[[bytes | HandedOut, str], Pins], tuple[bytes | HandedOut, str]]:
        return _arrived, (self._pickled, distributary.__version__)


def _arrived(pickled: bytes | HandedOut, version: str) -> Pins:
    """Raises SetupError in a worker that would take them otherwise than they are meant: one that came amid a run, whose machine has another archive by then."""
    if version != distributary.__version__:
        raise SetupError(
            f"the worker on {gethostname()} has distributary {distributary.__version__}, the driver {version}; end the run, and start it again with "
            "one version everywhere (docs/how-to/clusters)"
        )
    # The driver made it.
    pins: Pins = pickle.loads(pickled if isinstance(pickled, bytes) else pickled.value)  # noqa: S301
    return pins


def proposal(key: RecordKey, text: str) -> bytes:
    """What is remembered of a schema by which that of a record type was to grow: many such texts are megabytes."""
    return blake2b(f"{key} {text}".encode(errors="surrogatepass"), digest_size=16).digest()


def for_workers(pins: Pins) -> Pins:
    """The pins without what no record names: the versions of entities' schemas that a newer one has taken the place of.

    The driver keeps them all: tables have met them.
    """
    if not pins.rules.decoding.by_entity:
        return pins
    records = pins.schemas.records
    newest = set(newest_of_entities(records).values())
    kept = [one for number, one in enumerate(records) if not one.schema.inferred or number in newest]
    return replace(pins, schemas=replace(pins.schemas, records=tuple(kept)))


TOMBSTONE = "tombstone"

UNKNOWN_SCHEMA = "unknown_schema"

REGISTRY_ERROR = "registry_error"

DATA_LOST = "data_lost"
"""In the ledger: offsets whose records Kafka had no more before they were read."""

UNUSABLE_SCHEMA = "unusable_schema"

CONSTRAINT = "constraint"

SCHEMA_CHANGE = "schema_change"

NULL_KEY = "null_key"

NULL_SEQUENCE = "null_sequence"

DELETE_CONDITION = "delete_condition"

PARTITION = "partition"

COLUMNS = "columns"

EXPECTATION = "expectation"

EXPECTATION_DROP = "expectation_drop"
"""In the ledger: records that do not meet an expectation of their table, where the settings have them dropped."""

ERASED = "erased"
"""In the ledger: records that land nowhere, as the settings say that they were erased."""

DELETE = "delete"
"""In the ledger: records that say of themselves that they are deletes, where the settings keep them out."""

NO_ENTITY = Verdict("no_entity", "the routing field has no value")

ENTITY_MISFIT = Verdict(
    NO_ENTITY.reason,
    "the routing field has a value that is none of its type in the schema, or that the schema has no field for; where the schema is inferred, give "
    "the field another type in decode.schema_hints, and run `distributary infer --refresh`",
)

TIMESTAMP_OVERFLOW = Verdict(
    "timestamp_overflow",
    "its time in Kafka is beyond what a timestamp holds: its producer sends another unit than milliseconds",
)

TABLE_LIMIT = Verdict(
    "table_limit",
    "route.max_tables is reached, the settings allow no new table, or its entity's name is too long for one, or kept for what remembers deletes or keeps records as they came",
)

KILLED_WORKER = Verdict("killed_worker", "decoding this record ends the process that decodes it")


# Each record that names such a schema says it in quarantine, and a schema may hold anything.
_LONGEST_WHY = 1_000


def unknown_schema(ref: SchemaRef) -> Verdict:
    """The registry knows no schema by this id or GUID."""
    return Verdict(UNKNOWN_SCHEMA, f"the registry knows no schema {ref}")


def registry_error(ref: SchemaRef) -> Verdict:
    """The registry fails to give this schema, while it answers other questions."""
    return Verdict(
        REGISTRY_ERROR,
        f"the registry answers with an error of its own when it is asked for schema {ref}, and answers other questions",
    )


def unusable_schema(ref: SchemaRef, why: str) -> Verdict:
    """The registry has the schema, but nothing can be decoded with it."""
    return Verdict(UNUSABLE_SCHEMA, f"schema {ref} cannot be used: {why[:_LONGEST_WHY]}")


def unasked_schema(ref: SchemaRef) -> Verdict:
    """Nobody asked the registry for it: the batch held more unknown schemas than are asked for at once."""
    return Verdict(
        "unasked_schema",
        f"schema {ref} was not asked for: the batch holds more unknown ones than registry.max_unknown_ids",
    )


def unroutable(why: str) -> Verdict:
    """The routing expression does not go with the types of such records, so that it names no entity."""
    return Verdict(NO_ENTITY.reason, why)
