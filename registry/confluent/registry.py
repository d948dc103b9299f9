"""A registry that speaks Confluent's HTTP API: Confluent's own, Karapace, Apicurio, Redpanda."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from confluent_kafka.schema_registry import Schema as ClientSchema
from confluent_kafka.schema_registry import SchemaReference

from distributary.errors import BadSchema, SchemaNotFound
from distributary.registry.answers import Answers, or_raise
from distributary.registry.base import (
    REGISTERED,
    Answer,
    Guid,
    Reference,
    Schema,
    SchemaRef,
    SchemaType,
    SubjectVersion,
)
from distributary.registry.bounded_cache import BoundedCache
from distributary.registry.confluent.connection import Connection
from distributary.registry.confluent.options import RegistryAccess
from distributary.registry.patience import THREADS, Others
from distributary.registry.protobuf.text import with_named_entries
from distributary.registry.references import resolve
from distributary.registry.subjects import beside

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

# Ids travel as four signed bytes, so no registry hands out others.
_LARGEST_ID = 2**31 - 1

# An id or GUID, and the subject in whose context it is meant.
_Asked = tuple[SchemaRef, str | None]


class _Held(NamedTuple):
    """What the registry answered for an id, a GUID, or a version of a subject."""

    id: int
    type: str
    text: str
    references: tuple[Reference, ...]
    rules: tuple[str, ...]


class ConfluentRegistry:
    """Schemas of a registry over HTTP, kept in bounded caches; safe to use from many threads.

    Errors name what was asked for and the address, never a secret. Ids and versions are immutable and so are
    kept until others push them out; lists of versions and every "no" are kept for the times in the options. A `with` block
    closes its connections.
    """

    def __init__(self, options: RegistryAccess) -> None:
        self.options = options
        self.connection = Connection(options)
        self._answers: Answers[_Asked, tuple[str, bool]] = Answers(options, _impossible)
        self._held: BoundedCache[tuple[str, int], _Held] = BoundedCache(options.cached_schemas)

    def by_ref(self, ref: SchemaRef, subject: str | None = None) -> Schema:
        """The schema with this id or GUID, references resolved. Raises SchemaNotFound or BadSchema."""
        return or_raise(self.by_refs((ref,), subject)[ref])

    def by_refs(self, refs: Iterable[SchemaRef], subject: str | None = None) -> dict[SchemaRef, Answer]:
        """What each of these came to, all within one bounded wait; how many are asked is the caller's to cap."""
        asked = {ref: (ref, subject) for ref in refs}
        others = Others(self.connection.answers, self.connection.shows_any)
        answers = self._answers.schemas(asked.values(), self._fetch, others)
        return {ref: answers[key] for ref, key in asked.items()}

    def versions(self, subject: str, deleted: bool = False) -> Sequence[SubjectVersion]:
        """All versions of a subject, oldest first; with `deleted` the soft-deleted ones too, so marked.

        Raises SchemaNotFound for an unknown subject, and for a deleted one unless its deleted versions are asked for.
        """
        return self._answers.versions((subject, deleted), self._fetch_versions)

    def register(
        self, subject: str, text: str, schema_type: SchemaType, references: Sequence[Reference] = ()
    ) -> int:
        """The id of this schema under this subject, registering it if it is new. Raises BadSchema."""
        schema = ClientSchema(
            text, schema_type, [SchemaReference(item.name, item.subject, item.version) for item in references]
        )

        def send(name: str) -> int:
            return self.connection.call(
                f"a {schema_type} schema for subject {name!r}",
                lambda client: _number(client.register_schema(name, schema), "id"),
                registering=True,
            )

        schema_id = self._answers.registered(subject, send)
        self._answers.forget(
            [(schema_id, context) for context in (None, subject)],
            [(subject, deleted) for deleted in (False, True)],
        )
        return schema_id

    def close(self) -> None:
        """Close the connections; the registry cannot be asked afterwards."""
        self.connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _fetch(self, key: _Asked) -> Schema:
        ref, subject = key
        if isinstance(ref, int):
            what = f"schema id {ref}" + (f" in the context of subject {subject!r}" if subject else "")
            held = self.connection.call(what, lambda client: _held(ref, client.get_schema(ref, subject)))
        else:
            what = f"schema GUID {ref}"
            held = self.connection.call(what, lambda client: _held(0, client.get_schema_by_guid(ref)))
        if held.type not in REGISTERED:
            kinds = ", ".join(REGISTERED)
            raise BadSchema(
                f"{what} at {self.connection.where} is of type {held.type}; only {kinds} can be read"
            )
        try:
            imports = resolve(_in_context(held.references, subject), self._fetch_reference)
        except (BadSchema, SchemaNotFound) as error:
            raise type(error)(f"{what} cannot be used: {error}") from error
        guid = ref if isinstance(ref, Guid) else None
        text = held.text
        if held.type == "PROTOBUF" and self.options.map_entries == "named":
            text = with_named_entries(text, imports)
            imports = {name: with_named_entries(of, imports) for name, of in imports.items()}
        return Schema(held.id, held.type, text, held.references, imports, guid, held.rules)

    def _fetch_reference(self, reference: Reference) -> tuple[str, Sequence[Reference]]:
        held = self._version(reference.subject, reference.version)
        return held.text, _in_context(held.references, reference.subject)

    def _version(self, subject: str, version: int) -> _Held:
        kept = self._held.get((subject, version))
        if kept is not None:
            return kept

        def read(client: Any) -> _Held:
            # Deleted ones too: a schema that is still in records may need what was soft-deleted since.
            answer = client.get_version(subject, version, deleted=True)
            return _held(_number(answer.schema_id, "id"), answer.schema)

        held = self.connection.call(f"version {version} of subject {subject!r}", read)
        if version > 0:  # -1 stands for the latest, which changes
            self._held.put((subject, version), held)
        return held

    def _fetch_versions(self, key: tuple[str, bool]) -> tuple[SubjectVersion, ...]:
        subject, deleted = key
        living = self._numbers(subject, deleted=False, none_is_fine=deleted)
        numbers = living | self._numbers(subject, deleted=True) if deleted else living
        if not numbers:
            raise SchemaNotFound(
                f"subject {subject!r} at {self.connection.where} has no versions; register a schema first"
            )
        # Each is a question of its own, and there are more with every year.
        with ThreadPoolExecutor(THREADS, "versions") as pool:
            found = pool.map(
                lambda number: self._listed(subject, number, number not in living), sorted(numbers)
            )
            readable = tuple(version for version in found if version is not None)
        if not readable:
            raise SchemaNotFound(
                f"subject {subject!r} is deleted, and {self.connection.where} no longer tells what its versions held"
            )
        return readable

    def _listed(self, subject: str, number: int, deleted: bool) -> SubjectVersion | None:
        try:
            return SubjectVersion(subject, number, self._version(subject, number).id, deleted)
        except SchemaNotFound:
            # Apicurio lists the versions of a deleted subject, and then denies them.
            if deleted:
                return None
            raise

    def _numbers(self, subject: str, *, deleted: bool, none_is_fine: bool = False) -> set[int]:
        def read(client: Any) -> set[int]:
            answer = client.get_versions(subject, deleted=deleted)
            if not isinstance(answer, list):
                raise TypeError("the list of versions is missing from the answer")
            return {_number(item, "version") for item in answer}

        try:
            return self.connection.call(f"the versions of subject {subject!r}", read)
        except SchemaNotFound:
            if none_is_fine:
                return set()
            raise


def _impossible(asked: _Asked) -> str | None:
    """Why no registry can know this, so that nobody is asked; a GUID becomes part of an address."""
    ref, _ = asked
    if isinstance(ref, int):
        return None if 0 <= ref <= _LARGEST_ID else f"schema id {ref} is none: ids go from 0 to {_LARGEST_ID}"
    try:
        UUID(ref)
    except ValueError:
        return f"schema GUID {ref[:50]!r} is none; it must be a UUID"
    return None


def _held(schema_id: int, schema: Any) -> _Held:
    """An answer, checked: raises TypeError for what lacks a part or has one of a wrong type."""
    if not isinstance(schema.schema_str, str):
        raise TypeError("the schema's text is missing from the answer")
    kind = str(schema.schema_type or "AVRO").upper()
    return _Held(schema_id, kind, schema.schema_str, _references(schema), _rules(schema))


def _number(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(f"the {name} is missing from the answer")
    return int(value)


def _references(schema: Any) -> tuple[Reference, ...]:
    return tuple(
        Reference(str(item.name), str(item.subject), _number(item.version, "reference's version"))
        for item in schema.references or ()
    )


def _in_context(references: Iterable[Reference], parent: str | None) -> list[Reference]:
    return [replace(item, subject=beside(item.subject, parent)) for item in references]


def _rules(schema: Any) -> tuple[str, ...]:
    rule_set = schema.rule_set
    if rule_set is None:
        return ()
    rules = [*(rule_set.domain_rules or ()), *(rule_set.encoding_rules or ())]
    return tuple(dict.fromkeys(str(rule.type) for rule in rules if not rule.disabled))
