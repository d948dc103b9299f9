"""What the driver knows of schemas: those that are pinned, those nobody knows, and how to learn of others."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from distributary.codecs.base import INFERRED, Codec, Growing
from distributary.codecs.types.fields import fields_in
from distributary.codecs.types.spark_struct import arrow_schema, struct_json
from distributary.errors import BadSchema, RegistryFault, SchemaNotFound
from distributary.ingest import pins as reasons
from distributary.ingest.columns.growth import GrowthRules, changes, grown
from distributary.ingest.columns.layout import NO_COLUMNS
from distributary.ingest.pins import PinnedRecord, RecordKey, Verdict, by_age, describe, newest_of_entities
from distributary.ingest.reshaping.rule import Reshape
from distributary.ingest.reshaping.shape import columns_of
from distributary.ingest.schemas.inferred_per_entity import NO_FIELDS, EntityVersions
from distributary.ingest.schemas.pinned import PinsStore
from distributary.ingest.schemas.registry_wait import RegistryWait
from distributary.registry.base import Answer, Schema, SchemaRef, SchemaRegistry

_log = logging.getLogger(__name__)

_UNUSABLE = (
    "schema %s is kept in the checkpoint, and this version of distributary cannot use it: %s. Records that name it go to "
    "quarantine (unusable_schema), keys that name it have no text. Register a schema that can be used and write with "
    "that, or stop this run and go on with the version of distributary that ran before"
)


Fits = Callable[[str | None, pa.Schema, pa.Schema], bool]
"""Whether an inferred schema, of which entity (None: of all), may grow from these columns to those."""


def any_fits(entity: str | None, before: pa.Schema, after: pa.Schema) -> bool:
    """Nothing speaks against it."""
    return True


@dataclass(frozen=True, slots=True)
class Learned:
    """Answers to questions: record types that can be decoded now, and those that never can, with the reason."""

    records: tuple[PinnedRecord, ...]
    refused: Mapping[RecordKey, Verdict]


class SchemaBook:
    """The record types this checkpoint may decode. Only here is the registry asked; an outage makes it wait."""

    def __init__(
        self,
        codec: Codec,
        registry: SchemaRegistry,
        store: PinsStore,
        wait: RegistryWait,
        refusal_seconds: float,
    ) -> None:
        """`refusal_seconds` is for how long a record type that nobody knows is not asked for again."""
        self._codec, self._registry, self._store, self._wait = codec, registry, store, wait
        self._refusal_seconds = refusal_seconds
        self._inferred_subject: str | None = None
        self._refused: dict[RecordKey, tuple[Verdict, float]] = {}
        self._unusable: dict[RecordKey, Verdict] = {}
        self._records: dict[RecordKey, PinnedRecord] = {}
        # Where each of a thousand entities has schemas of its own there are tens of thousands.
        self._in_order: tuple[PinnedRecord, ...] | None = None
        self._of_entities: dict[str | None, set[RecordKey]] = {}
        self._layouts: dict[RecordKey, pa.Schema] = {}

    @property
    def records(self) -> tuple[PinnedRecord, ...]:
        """All pinned record types, in an order that depends on nothing but themselves."""
        if self._in_order is None:
            self._in_order = self._ordered(self._records)
        return self._in_order

    def met_before(self, ref: SchemaRef) -> bool:
        """Whether a record type of this schema is pinned, whichever."""
        return any(of == ref for of, _ in self._records)

    def layout(self, key: RecordKey) -> pa.Schema:
        """The columns that a pinned record type brings."""
        if key not in self._layouts:
            self._layouts[key] = self._codec.reader(self._records[key].schema, key[1]).schema
        return self._layouts[key]

    def open(self, subjects: Iterable[str], inferred: str | None = None, *, waiting: bool = True) -> None:
        """Pin all that this checkpoint has ever used, and every version of the subjects.

        `inferred` is the one whose versions are inferred, not registered: those grow.
        The registry is waited for only where nothing is known yet: a pipeline whose schemas are all pinned starts
        without it. With `waiting` off it is not waited for even then, and neither is one that is there and fails: what is met
        later is asked for by itself.
        What an earlier version could decode and this one cannot is refused, like a schema that never could be used.
        Raises BadSchema for an inferred one of those that is the newest: no record names it that could be refused.
        """
        kept = [PinnedRecord(key, schema) for key, schema in self._store.read()]
        newest = set(newest_of_entities(kept).values())
        for number, record in enumerate(kept):
            if record.schema.inferred and number not in newest:
                # No record comes with it any more, and to make what decodes it takes milliseconds.
                self._hold(record.key, record.schema)
            else:
                self._pin_kept(record)
        for subject in subjects:
            self._pin_subject(subject, waiting)
        self._inferred_subject = inferred
        if inferred is not None:
            self._pin_subject(inferred, waiting)

    def learn(self, questions: Sequence[RecordKey]) -> Learned:
        """Ask the registry what these record types are; waits while it does not answer."""
        refs = tuple(dict.fromkeys(ref for ref, _ in questions))
        answers = self._wait.until_answered(lambda: self._ask(refs))
        records, refused = [], {}
        for key in questions:
            answer = self._record(key, answers[key[0]])
            if isinstance(answer, Verdict):
                refused[key] = answer
            else:
                records.append(answer)
        until = time.monotonic() + self._refusal_seconds
        self._refused |= {key: (verdict, until) for key, verdict in refused.items()}
        return Learned(tuple(records), refused)

    def grown(
        self, proposals: Mapping[RecordKey, Iterable[str]], max_fields: int, fits: Fits = any_fits
    ) -> list[PinnedRecord]:
        """The next version of an inferred schema, which takes what it may of what was proposed; none where that is nothing.

        A field by which it would not fit any more is left out.
        """
        known = self.records
        newest = {entity: known[number].schema for entity, number in newest_of_entities(known).items()}
        wanted: dict[str | None, set[str]] = {}
        for key, texts in proposals.items():
            entity = self._records[key].schema.entity if key in self._records else None
            wanted.setdefault(entity, set()).update(texts)
        grown = {
            entity: merged
            for entity, texts in wanted.items()
            if entity in newest
            and (merged := self._merged(newest[entity], texts, max_fields, fits)) is not None
        }
        return self._registered(grown)

    def met(
        self,
        unmet: Mapping[str, Iterable[str]],
        name_of: Callable[[str], str],
        max_fields: int,
        fits: Fits = any_fits,
    ) -> list[PinnedRecord]:
        """The newest schema of each of these entities, or a first one that takes what it may of what was proposed.

        `name_of` gives the name that their schemas are kept by.
        """
        if not unmet or not isinstance(self._registry, EntityVersions):
            return []
        entities: dict[str, str] = {}
        proposed: dict[str, set[str]] = {}
        for entity, texts in sorted(unmet.items()):
            name = name_of(entity)
            entities.setdefault(name, entity)
            proposed.setdefault(name, set()).update(texts)
        there = self._registry.newest(entities)
        firsts = {
            name: self._registry.hinted(self._first(name, texts, max_fields, fits).text)
            for name, texts in proposed.items()
            if name not in there
        }
        made = self._registry.register_each(firsts, entities) if firsts else {}
        return [PinnedRecord((schema.id, ()), schema) for schema in {**there, **made}.values()]

    def _first(self, entity: str, texts: Iterable[str], max_fields: int, fits: Fits) -> Schema:
        nothing = Schema(0, "STRUCT", NO_FIELDS, entity=entity)
        return self._merged(nothing, texts, max_fields, fits) or nothing

    def _merged(self, newest: Schema, texts: Iterable[str], max_fields: int, fits: Fits) -> Schema | None:
        """A schema that takes of this what it may, the smallest first; None where that is nothing new."""
        growing = self._codec.capabilities.growing
        if growing is None:
            return None

        before, refused = self._columns(newest), set[str]()

        def may_be(schema: Schema) -> bool:
            return fits(newest.entity, before, self._columns(schema))

        proposed = [replace(newest, text=text) for text in sorted(set(texts))]
        merged = growing.merged([newest, *proposed])
        if not (self._within(growing, merged, max_fields) and may_be(merged)):
            merged = newest
            for one in sorted(proposed, key=self._fields):
                whole = growing.merged([merged, one])
                room = max_fields - self._fields(merged)
                # What one record brings that does not fit shall keep no other record's field out. All of the schema is read again
                # for each field that is tried, so none is tried in vain twice.
                for some in [whole] if may_be(whole) else _fields_beyond(one, merged, room):
                    if some.text in refused:
                        continue
                    more = growing.merged([merged, some])
                    if self._within(growing, more, max_fields) and may_be(more):
                        merged = more
                    else:
                        refused.add(some.text)
        return None if merged.text == newest.text else merged

    def _columns(self, schema: Schema) -> pa.Schema:
        return self._codec.reader(schema, ()).schema

    def _within(self, growing: Growing, schema: Schema, max_fields: int) -> bool:
        """Whether a schema is within what the settings allow, and its format."""
        return self._fields(schema) <= max_fields and (growing.fits is None or growing.fits(schema))

    def _fields(self, schema: Schema) -> int:
        return fields_in(self._columns(schema))

    def _registered(self, grown: Mapping[str | None, Schema]) -> list[PinnedRecord]:
        """The next versions of these schemas, by the entities they are for."""
        of_entities = {entity: schema.text for entity, schema in grown.items() if entity is not None}
        found: list[Schema] = []
        if of_entities and isinstance(self._registry, EntityVersions):
            found += self._registry.register_each(of_entities).values()
        if None in grown and self._inferred_subject is not None:
            version = self._registry.register(self._inferred_subject, grown[None].text, grown[None].type)
            found.append(self._registry.by_ref(version))
        return [PinnedRecord((schema.id, ()), schema) for schema in found]

    def refused(self) -> dict[RecordKey, Verdict]:
        """Record types that nobody knew when they were last asked for, not long ago, and kept ones that cannot be used."""
        now = time.monotonic()
        self._refused = {key: kept for key, kept in self._refused.items() if kept[1] > now}
        return {**self._unusable, **{key: verdict for key, (verdict, _) in self._refused.items()}}

    def pin(self, records: Iterable[PinnedRecord]) -> None:
        """Make these decodable from now on, after every restart too."""
        for record in records:
            self._store.write(record.key, record.schema)
            if not self._has(record.key, record.schema):
                self._pin(record.key, record.schema)

    def brings(
        self, record: PinnedRecord, rules: GrowthRules, shapes: Iterable[Reshape | None] = (None,)
    ) -> tuple[str, ...]:
        """The columns of a record type that no pinned one has, or not as wide; none where it changes no layout.

        `shapes` are what rules of tables make of the columns of records.
        """
        found: dict[str, None] = {}
        brought = self._codec.reader(record.schema, record.key[1]).schema
        for shape in shapes:
            whole = NO_COLUMNS
            for known in self._beside(record):
                whole = grown(whole, columns_of(shape, self.layout(known.key)), rules)
            after = grown(whole, columns_of(shape, brought), rules)
            found |= dict.fromkeys(change.column for change in changes(whole.columns, after.columns))
        return tuple(found)

    def _beside(self, record: PinnedRecord) -> list[PinnedRecord]:
        """The pinned record types, without those of other entities' schemas."""
        mine = (self._of_entities.get(entity, set()) for entity in {None, record.schema.entity})
        return list(self._ordered(set[RecordKey]().union(*mine)))

    def _ordered(self, keys: Iterable[RecordKey]) -> tuple[PinnedRecord, ...]:
        return tuple(self._records[key] for key in sorted(keys, key=by_age))

    def _ask(self, refs: Sequence[SchemaRef]) -> Mapping[SchemaRef, Answer]:
        return self._registry.by_refs(refs)

    def _record(self, key: RecordKey, answer: Answer) -> PinnedRecord | Verdict:
        if isinstance(answer, SchemaNotFound):
            return reasons.unknown_schema(key[0])
        if isinstance(answer, RegistryFault):
            _log.warning("%s. Records that name it go to quarantine (registry_error)", answer)
            return reasons.registry_error(key[0])
        if isinstance(answer, Schema) and answer.unusable:
            return reasons.unusable_schema(key[0], answer.unusable)
        try:
            schema = answer if isinstance(answer, Schema) else _raise(answer)
            if not self._has(key, schema):
                self._codec.reader(schema, key[1])
        except BadSchema as error:
            return reasons.unusable_schema(key[0], str(error))
        # What records without a schema ask for is not one of its versions, but whichever is the newest.
        return PinnedRecord((schema.id, ()) if key[0] == INFERRED else key, schema)

    def _pin_subject(self, subject: str, waiting: bool) -> None:
        wait = waiting and not (self._records or self._unusable)

        def ask() -> list[PinnedRecord]:
            try:
                listed = self._registry.versions(subject)
            except RegistryFault as fault:
                # It may fail at one version for ever, of which no record need be; what records name is asked for then.
                if not wait:
                    raise
                _log.warning("%s. The schemas of %s are asked for as records name them", fault, subject)
                return []
            keys = [(version.id, self._codec.default_path) for version in listed]
            answers = self._ask([ref for ref, _ in keys])
            found = [self._record(key, answers[key[0]]) for key in keys]
            return [record for record in found if isinstance(record, PinnedRecord)]

        try:
            self.pin(self._wait.until_answered(ask) if wait else self._wait.once(ask, []))
        except SchemaNotFound:
            return  # nothing registered yet: the first record will ask

    def _pin_kept(self, record: PinnedRecord) -> None:
        try:
            self._pin(record.key, record.schema)
        except BadSchema as error:
            if record.schema.inferred:
                raise
            self._unusable[record.key] = reasons.unusable_schema(record.key[0], str(error))
            _log.warning(_UNUSABLE, describe(record), error)

    def _has(self, key: RecordKey, schema: Schema) -> bool:
        """Whether this very schema is pinned: a thousand entities have tens of thousands of versions."""
        known = self._records.get(key)
        return known is not None and known.schema == schema

    def _pin(self, key: RecordKey, schema: Schema) -> None:
        self._layouts[key] = self._codec.reader(schema, key[1]).schema
        self._hold(key, schema)

    def _hold(self, key: RecordKey, schema: Schema) -> None:
        self._records[key], self._in_order = PinnedRecord(key, schema), None
        self._of_entities.setdefault(schema.entity, set()).add(key)


def _fields_beyond(schema: Schema, known: Schema, room: int) -> Iterator[Schema]:
    """What a schema has beyond a known one, as schemas of one field each; none of a new one that has no room."""
    types = {field.name: field.type for field in arrow_schema(known.text)}
    for field in arrow_schema(schema.text):
        before = types.get(field.name)
        if 1 + fields_in(field.type) <= room if before is None else field.type != before:
            yield replace(schema, text=struct_json(pa.schema([field])))


def same_columns(codec: Codec) -> Callable[[RecordKey, Schema, Schema], bool]:
    """Whether two texts of one schema decode to the same columns and values: registries rewrite what they are given."""

    def same(key: RecordKey, pinned: Schema, offered: Schema) -> bool:
        try:
            readers = [codec.reader(schema, key[1]) for schema in (pinned, offered)]
        except BadSchema:
            return False
        return pinned.type == offered.type and readers[0].decodes_like(readers[1])

    return same


def _raise(error: BadSchema) -> Schema:
    raise error
