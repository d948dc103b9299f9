"""What the newest schemas would do to a pipeline's tables, before anything runs: `distributary plan` as a function."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from pyspark.sql.types import StructType

from distributary.codecs.base import Codec, load_codec
from distributary.errors import BadSchema, SetupError
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.manifests import ManifestStore
from distributary.ingest.columns.safe_names import MEMORY_SUFFIX
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.evolution.candidates import Candidates
from distributary.ingest.evolution.offered import Offer, offered
from distributary.ingest.evolution.pairing import Known
from distributary.ingest.evolution.planner import Planner, Step, TablePlan
from distributary.ingest.evolution.rules import rules_of
from distributary.ingest.evolution.rules_of_tables import RuleInPlan, rules_in_plan
from distributary.ingest.evolution.watched import WatchedSubject, watched_subjects
from distributary.ingest.inputs.ahead import columns_there, schemas_there
from distributary.ingest.pins import RecordKey
from distributary.ingest.routing.read_ahead import ReadExpression, read_ahead
from distributary.ingest.schemas.from_columns import brought
from distributary.ingest.schemas.hints import hints_ahead
from distributary.ingest.schemas.inferred_per_entity import EntitySchemas, location_of
from distributary.ingest.schemas.mixed import MixedSchemas
from distributary.ingest.schemas.next_version import WithNext
from distributary.ingest.schemas.opening import open_registry
from distributary.ingest.schemas.pinned import PinsStore
from distributary.ingest.schemas.subjects import inferred_subject, value_subjects
from distributary.ingest.settings.model import Settings
from distributary.ingest.settings.rule_book import RuleBook
from distributary.ingest.storage.opening import open_files, tables_at
from distributary.ingest.storage.place import Place
from distributary.ingest.tables.known import MadeWith, TableBook
from distributary.registry.base import Schema, SchemaRegistry
from distributary.registry.confluent.catalogue import Catalogue
from distributary.registry.confluent.registry import ConfluentRegistry


@dataclass(frozen=True, slots=True)
class Plan:
    """What the newest schemas would do to a pipeline's tables.

    pipeline  the pipeline's name
    root      the folder of its tables
    subjects  those it watches, each with what the registry says of its newest schema
    tables    what is told of the tables: `steps`, and those that nothing could be told of
    notices   what was not looked at, and why, and which tables get no rows
    rules     the rules of `tables` in their order, and `sink` behind them, each with the tables that are there which get it
    """

    pipeline: str
    root: Place
    subjects: tuple[WatchedSubject, ...]
    tables: TablePlan
    notices: tuple[str, ...] = ()
    rules: tuple[RuleInPlan, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """What each schema means for which tables, those of the most tables first."""
        return self.tables.steps

    @property
    def open(self) -> bool:
        """Whether something needs a decision: a change that loses values, a schema that the registry refuses."""
        refused = any(one.accepted is False for one in self.subjects)
        return self.tables.open or refused or any(rule.open for rule in self.rules)


def plan(settings: Settings, offer: Offer | None = None) -> Plan:
    """What the newest schemas would do to each table. Nothing is written, and no record is read.

    settings  the pipeline's
    offer     a schema that is not registered yet, to be taken for the newest one of its subject

    Returns the plan; that something needs a decision is no error, but `Plan.open`. Raises ConfigError for an offer that
    is no schema, BadSchema for a newest version that nobody here can read, RegistryUnavailable.

    >>> plan = distributary.plan(settings)
    >>> plan.open
    False
    >>> [verdict.action for step in plan.steps for verdict in step.verdicts]
    []
    """
    expression, notices = _expression(settings)
    found = plan_knowing(expression, settings, offer)
    return replace(found, notices=(*notices, *found.notices))


def plan_knowing(expression: ReadExpression | None, settings: Settings, offer: Offer | None = None) -> Plan:
    """The same where the routing expression is read already; None where there is none, or nobody could read it."""
    ahead, untold = _ahead(settings)
    with _sources(settings, ahead) as (registry, catalogue):
        candidate = (
            None
            if offer is None
            else offered(offer, value_subjects(settings.source, settings.registry, settings.decode), registry)
        )
        subjects = [
            *value_subjects(settings.source, settings.registry, settings.decode),
            *_inferred_subjects(settings),
        ]
        candidates = Candidates(load_codec(settings.decode.codec), registry, subjects, candidate)
        told = watched_subjects(candidates, catalogue)
        # Told the types of the newest ones: a codec for every format splits records by them.
        codec = load_codec(settings.decode.codec).knowing(
            {one.ref: one.schema.type for one in candidates.newest}
        )
        # Older versions are asked for when a table's records are of a type that the newest is not.
        by_rule = settings.rule_book()
        rules = rules_of(
            settings.decode, settings.policies, settings.route, settings.sink, expression, by_rule
        )
        book = _tables(settings, by_rule)
        known, refused = _known(settings, codec, book)
        tables = Planner(codec, candidates, rules, known).plan()
        schemas = [] if settings.route.by == "record" else list(candidates.columns())
    states, day = book.states(known.tables), settings.sink.columns.kafka_date
    got = rules_in_plan(by_rule, known.tables, states, schemas, day)
    notices = (*untold, *refused, *_landing_nowhere(settings, by_rule, known.tables))
    return Plan(settings.name, settings.sink.root, told, tables, notices, got)


def _landing_nowhere(settings: Settings, rules: RuleBook, tables: Iterable[str]) -> tuple[str, ...]:
    """What is told of tables, there or to come, that are called as what remembers another's deletes: a run gives them no row."""
    route = settings.route
    topics = settings.source.topics if route.by == "topic" else ()
    named = sorted({*tables, *map(route.folder, topics)}) if rules.remembers else ()
    taken = [folder for folder in named if folder.endswith(MEMORY_SUFFIX)]
    return tuple(
        f"records of {folder} will go to quarantine, as `table_limit`: what remembers the deletes of a table is called so, and a rule asks for such. Have "
        "route.table add something behind {entity}, or give the entity another name"
        for folder in taken
    )


def _expression(settings: Settings) -> tuple[ReadExpression | None, tuple[str, ...]]:
    """The routing expression as a run reads it. Without Java, which only a run needs, nobody can."""
    text = settings.route.expression
    if text is None:
        return None, ()
    try:
        return read_ahead(text, native=settings.decode.engine == "arrow"), ()
    except SetupError as error:
        return None, (f"route.expression is not looked at, nor what changes do to it: {error}",)


def _ahead(settings: Settings) -> tuple[WithNext | None, tuple[str, ...]]:
    """The location of the inferred schema with the version that a run would keep next, of a source that says what its records are made of; None where there is none."""
    subject = inferred_subject(settings.name, settings.decode)
    told = None if subject is None or settings.decode.schema_per == "entity" else columns_there(settings)
    if told is None or subject is None:
        return None, ()
    location = location_of(settings.name, settings.decode, settings.storage)
    hints, unread = _hints(settings.decode.schema_hints)
    found = brought(location, subject, settings.decode, told, hints)
    notices: tuple[str, ...] = ()
    if found is not None:
        notices = (
            f"what is read has columns that no version of {subject} has yet: {', '.join(found.columns)}. A run keeps the next one",
        )
    return (None if found is None else WithNext(location, subject, found.text)), (*notices, *unread)


def _hints(ddl: str | None) -> tuple[StructType | None, tuple[str, ...]]:
    """The types that win over inferred ones, if there are any. Without Java, which only a run needs, nobody can read them."""
    try:
        return (None if ddl is None else hints_ahead(ddl)), ()
    except SetupError as error:
        why = f"decode.schema_hints are not looked at, nor what they make of columns that come: {error}"
        return StructType([]), (why,)


@contextmanager
def _sources(settings: Settings, ahead: WithNext | None) -> Iterator[tuple[SchemaRegistry, Catalogue | None]]:
    """The settings' registry, the schemas that the source brings, the location of their inferred schema, or the first and the last; none is written to."""
    if (brought := schemas_there(settings)) is not None:
        yield brought, None
        return
    codec = load_codec(settings.decode.codec)
    if not codec.registered:
        yield ahead or location_of(settings.name, settings.decode, settings.storage), None
        return
    with open_registry(settings.registry.impatient()) as registry:
        # Glue checks a schema only as it registers it.
        catalogue = Catalogue(registry.connection) if isinstance(registry, ConfluentRegistry) else None
        yield (
            (registry, catalogue)
            if codec.capabilities.growing is None
            else (
                MixedSchemas(registry, location_of(settings.name, settings.decode, settings.storage)),
                catalogue,
            )
        )


def _inferred_subjects(settings: Settings) -> list[str]:
    """What the inferred schemas' versions are called by: one for all records, or one an entity."""
    inferred = inferred_subject(settings.name, settings.decode)
    if inferred is None:
        return []
    location = location_of(settings.name, settings.decode, settings.storage)
    return location.subjects() if isinstance(location, EntitySchemas) else [inferred]


def _tables(settings: Settings, rules: RuleBook) -> TableBook:
    root = tables_at(settings.sink.root, settings.storage)
    by_text = settings.decode.key == "auto"
    made_with = MadeWith(spec_of=rules.of, by_text=by_text, named=settings.route.folder)
    return TableBook(root, settings.sink.columns, None, settings.limits.commit_threads, made_with=made_with)


def _known(settings: Settings, codec: Codec, tables: TableBook) -> tuple[Known, tuple[str, ...]]:
    """What checkpoint and tables tell of the past, and what is not told; a checkpoint that is not there tells nothing."""
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    last = ManifestStore(checkpoint).last()
    there, unread = tables.readable(
        last.entities if last else tables.entities_there(settings.name, Records(tables.root).pipelines())
    )
    pinned, refused = _usable(codec, PinsStore(checkpoint).read())
    return Known(there, last.met if last else {}, pinned, unread), refused


def _usable(
    codec: Codec, kept: Iterable[tuple[RecordKey, Schema]]
) -> tuple[dict[RecordKey, Schema], tuple[str, ...]]:
    """The schemas that a run can use, of those that its checkpoint keeps, and a sentence on each that it would refuse.

    Raises BadSchema for an inferred one of those, as the run does.
    """
    usable, refused = {}, []
    for key, schema in kept:
        try:
            codec.reader(schema, key[1])
            usable[key] = schema
        except BadSchema as error:
            if schema.inferred:
                raise
            refused.append(
                f"schema {key[0]} is kept in the checkpoint, and records that name it will go to quarantine: {error}"
            )
    return usable, tuple(refused)
