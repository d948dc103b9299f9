"""A registry in this process, for tests, drills and notebooks: the same contract as a real one, and bad days on demand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from threading import RLock
from uuid import NAMESPACE_URL, uuid5

from distributary.errors import BadSchema, RegistryUnavailable, SchemaNotFound
from distributary.registry.base import Answer, Guid, Reference, Schema, SchemaRef, SchemaType, SubjectVersion
from distributary.registry.protobuf.text import compile_text
from distributary.registry.references import resolve


class MemoryRegistry:
    """A registry in this process, for tests, drills and notebooks: the contract of a real one, and bad days on demand.

    Ids count from 1 on, the same text under two subjects has the same id, GUIDs are made from the text; there are no contexts,
    and nothing is checked for compatibility. `down = True` makes every call raise RegistryUnavailable; `asked` lists every
    reference that was asked for, in order.

    >>> registry = distributary.MemoryRegistry()
    >>> registry.register("games-value", '{"type": "string"}', "AVRO")
    1
    >>> registry.by_ref(1).text
    '{"type": "string"}'
    >>> registry.down = True
    >>> registry.by_ref(1)
    Traceback (most recent call last):
    distributary.errors.RegistryUnavailable: the registry in memory is down; set `down = False`
    """

    def __init__(self) -> None:
        self.down = False
        self.asked: list[SchemaRef] = []
        self._lock = RLock()
        self._schemas: dict[int, Schema] = {}
        self._guids: dict[Guid, int] = {}
        self._subjects: dict[str, list[int]] = {}
        self._deleted: set[tuple[str, int]] = set()
        self._denials: dict[SchemaRef, int] = {}

    def answer_late(self, ref: SchemaRef, denials: int) -> None:
        """Deny this id or GUID for the next `denials` times it is asked for, as registries do after a restart."""
        with self._lock:
            self._denials[ref] = denials

    def delete(self, subject: str, version: int) -> None:
        """Soft-delete a version: it is listed no more, unless asked for, and its schema can still be read."""
        with self._lock:
            self._check_up()
            if version not in {known.version for known in self.versions(subject)}:
                raise SchemaNotFound(
                    f"the registry in memory has no version {version} of subject {subject!r}"
                )
            self._deleted.add((subject, version))

    def by_ref(self, ref: SchemaRef, subject: str | None = None) -> Schema:
        """The schema with this id or GUID, references resolved; there is one context. Raises SchemaNotFound."""
        with self._lock:
            self._check_up()
            self.asked.append(ref)
            left = self._denials.get(ref, 0)
            self._denials[ref] = max(0, left - 1)
            found = self._guids.get(ref) if isinstance(ref, Guid) else ref
            if left or found not in self._schemas:
                raise SchemaNotFound(f"the registry in memory does not know schema {ref}; register it first")
            return self._schemas[found]

    def by_refs(self, refs: Iterable[SchemaRef], subject: str | None = None) -> dict[SchemaRef, Answer]:
        """What each of these came to; nothing is waited for."""
        answers: dict[SchemaRef, Answer] = {}
        for ref in dict.fromkeys(refs):
            try:
                answers[ref] = self.by_ref(ref)
            except SchemaNotFound as unknown:
                answers[ref] = unknown
        return answers

    def versions(self, subject: str, deleted: bool = False) -> Sequence[SubjectVersion]:
        """All versions of a subject, oldest first; with `deleted` the soft-deleted ones too. Raises SchemaNotFound."""
        with self._lock:
            self._check_up()
            known = tuple(
                SubjectVersion(subject, number, held, (subject, number) in self._deleted)
                for number, held in enumerate(self._subjects.get(subject, ()), start=1)
            )
            found = tuple(version for version in known if deleted or not version.deleted)
            if not found:
                raise SchemaNotFound(
                    f"the registry in memory has no subject {subject!r}; register a schema first"
                )
            return found

    def register(
        self, subject: str, text: str, schema_type: SchemaType, references: Sequence[Reference] = ()
    ) -> int:
        """The id of this schema under this subject, registering it if it is new. Raises BadSchema."""
        with self._lock:
            self._check_up()
            guid = _guid(text, schema_type, references)
            if guid not in self._guids:
                self._add(guid, text, schema_type, tuple(references))
            schema_id = self._guids[guid]
            versions = self._subjects.setdefault(subject, [])
            living = {
                held
                for number, held in enumerate(versions, start=1)
                if (subject, number) not in self._deleted
            }
            if schema_id not in living:
                versions.append(schema_id)
            return schema_id

    def _add(self, guid: Guid, text: str, schema_type: SchemaType, references: tuple[Reference, ...]) -> None:
        imports = resolve(references, self._referenced)
        schema_id = len(self._schemas) + 1
        schema = Schema(schema_id, schema_type, text, references, imports, guid)
        _check(schema)
        self._schemas[schema_id] = schema
        self._guids[guid] = schema_id

    def _referenced(self, reference: Reference) -> tuple[str, Sequence[Reference]]:
        ids = self._subjects.get(reference.subject, [])
        if not 1 <= reference.version <= len(ids):
            raise BadSchema(
                f"the import {reference.name!r} refers to version {reference.version} of subject "
                f"{reference.subject!r}, which the registry in memory does not have; register it first"
            )
        held = self._schemas[ids[reference.version - 1]]
        return held.text, held.references

    def _check_up(self) -> None:
        if self.down:
            raise RegistryUnavailable("the registry in memory is down; set `down = False`")


def _guid(text: str, schema_type: SchemaType, references: Sequence[Reference]) -> Guid:
    whole = [schema_type, text, *([item.name, item.subject, item.version] for item in references)]
    return Guid(uuid5(NAMESPACE_URL, json.dumps(whole)))


def _check(schema: Schema) -> None:
    if schema.type == "PROTOBUF":
        compile_text(schema.text, schema.imports)
        return
    try:
        json.loads(schema.text)
    except (ValueError, RecursionError) as error:
        raise BadSchema(f"the {schema.type} schema is not JSON: {error}") from None
