"""The schemas that a pipeline will be given: the newest version of every subject it watches, or one not registered yet."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import lru_cache

import pyarrow as pa

from distributary.codecs.base import Codec, RecordPath
from distributary.codecs.changes.description import RecordDescription
from distributary.errors import BadSchema, SchemaNotFound
from distributary.ingest.evolution.transitions import same_record
from distributary.ingest.pins import PinnedRecord, RecordKey
from distributary.registry.base import Schema, SchemaRef, SchemaRegistry, Unregistered

# In the place of an id, which a schema has once it is registered.
OFFERED = Unregistered.OFFERED

# Each of a thousand entities may have schemas of its own, and each answer is a wait for the network.
_AT_ONCE = 16


@dataclass(frozen=True, slots=True)
class Candidate:
    """A schema that records may come with.

    version  None for one that is not registered
    ref      by which records will name it
    """

    subject: str
    version: int | None
    ref: SchemaRef
    # Told by its reference already, and it holds what has no hash.
    schema: Schema = field(hash=False)

    @property
    def schema_id(self) -> int | None:
        """The schema's id; None while it is not registered."""
        return None if self.version is None else self.schema.id


class Candidates:
    """The watched subjects' schemas, asked for once each. `offered` is taken for the newest of its subject."""

    def __init__(
        self,
        codec: Codec,
        registry: SchemaRegistry,
        subjects: Sequence[str],
        offered: Candidate | None = None,
    ) -> None:
        """Raises RegistryUnavailable, and BadSchema for a newest version that nobody here can read."""
        self._codec, self._registry = codec, registry
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            self._versions = dict(zip(subjects, pool.map(self._ids, subjects), strict=True))
        self._offered = offered
        self._schema = lru_cache(maxsize=None)(self._asked)
        self._descriptions: dict[tuple[SchemaRef, tuple[int, ...]], RecordDescription | None] = {}
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            newest = dict(zip(subjects, pool.map(self._newest, subjects), strict=True))
        self.newest = tuple(one for one in newest.values() if one is not None)
        # Of the newest ones, those that are for one entity alone, by what they say that it is.
        self.of_entities = {one.schema.entity: one for one in self.newest if one.schema.entity is not None}
        self.empty = tuple(subject for subject, one in newest.items() if one is None)

    def successor(self, before: PinnedRecord) -> Candidate | None:
        """The newest schema of the record type that this one is an earlier, or the present, state of; None of none."""
        ref = before.key[0]
        own = [subject for subject, versions in self._versions.items() if ref in dict(versions).values()]
        for subject in [*own, *(name for name in self._versions if name not in own)]:
            for candidate in self._backwards(subject):
                if self._is_one(before, candidate, subject in own):
                    return candidate
        return None

    def _is_one(self, before: PinnedRecord, candidate: Candidate, own: bool) -> bool:
        if candidate.ref == before.key[0]:
            return True
        if candidate.schema.entity != before.schema.entity:
            return False
        old, new = self.description(before.key, before.schema), self._of(candidate, before.key)
        if old is None or new is None:
            # What nobody can decode with still takes the place of what came before in its subject.
            return own
        return same_record(old, new)

    def _of(self, candidate: Candidate, like: RecordKey) -> RecordDescription | None:
        return self.description((candidate.ref, like[1]), candidate.schema)

    def columns(self) -> Iterator[pa.Schema]:
        """Those that records of the newest ones bring, where they can be decoded."""
        path = self._codec.default_path
        for one in self.newest:
            if not self.unusable(one, path):
                yield self._codec.reader(one.schema, path).schema

    def unusable(self, candidate: Candidate, path: RecordPath) -> str:
        """Why no record of this schema can be decoded; empty where they can."""
        if candidate.schema.unusable:
            return candidate.schema.unusable
        try:
            self._codec.reader(candidate.schema, path)
        except BadSchema as error:
            return str(error)
        return ""

    def description(self, key: RecordKey, schema: Schema) -> RecordDescription | None:
        """What a schema says of a record type; None where it cannot be decoded with."""
        if key not in self._descriptions:
            try:
                self._descriptions[key] = self._codec.description(schema, key[1])
            except BadSchema:
                self._descriptions[key] = None
        return self._descriptions[key]

    def _newest(self, subject: str) -> Candidate | None:
        return next(self._backwards(subject), None)

    def _backwards(self, subject: str) -> Iterator[Candidate]:
        """A subject's schemas, the newest first."""
        if self._offered is not None and self._offered.subject == subject:
            yield self._offered
        for version, ref in reversed(self._versions[subject]):
            yield Candidate(subject, version, ref, self._schema(ref, subject))

    def _asked(self, ref: SchemaRef, subject: str) -> Schema:
        answer = self._registry.by_refs((ref,), subject if subject.startswith(":.") else None)[ref]
        if isinstance(answer, Schema):
            return answer
        raise answer

    def _ids(self, subject: str) -> list[tuple[int, SchemaRef]]:
        try:
            return [(version.version, version.id) for version in self._registry.versions(subject)]
        except SchemaNotFound:
            return []
