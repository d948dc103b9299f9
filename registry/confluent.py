"""A registry that speaks Confluent's HTTP API: Confluent's own, Karapace, Apicurio, Redpanda."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast, get_args
from uuid import UUID

from confluent_kafka.schema_registry import Schema as ClientSchema
from confluent_kafka.schema_registry import SchemaReference, SchemaRegistryClient

from distributary.errors import BadSchema, ConfigError, RegistryUnavailable, SchemaNotFound
from distributary.registry.base import Answer, Reference, Schema, SchemaRef, SchemaType, SubjectVersion
from distributary.registry.bounded_cache import BoundedCache
from distributary.registry.client_errors import is_uncoded_404, translated
from distributary.registry.options import RegistryOptions
from distributary.registry.patience import Patience
from distributary.registry.references import resolve

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

V = TypeVar("V")

# Ids travel as four signed bytes, so no registry hands out others.
_LARGEST_ID = 2**31 - 1


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
    kept until others push them out; lists of versions and every "no" are kept for the times in the options.
    """

    def __init__(self, options: RegistryOptions) -> None:
        self.options = options
        self._where = ", ".join(options.urls)
        self._client = _client(options)
        self._patience = Patience(options.retry_seconds, options.unknown_id_wait_seconds)
        room = options.cached_schemas
        self._schemas: BoundedCache[SchemaRef, Schema | BadSchema] = BoundedCache(room)
        self._held: BoundedCache[tuple[str, int], _Held] = BoundedCache(room)
        self._unknown: BoundedCache[SchemaRef, str] = BoundedCache(room, options.unknown_id_cache_seconds)
        self._versions: BoundedCache[str, tuple[SubjectVersion, ...] | str] = BoundedCache(
            room, options.latest_cache_seconds
        )
        self._speaks: BoundedCache[str, bool] = BoundedCache(1, options.latest_cache_seconds)

    def by_ref(self, ref: SchemaRef) -> Schema:
        """The schema with this id or GUID, references resolved. Raises SchemaNotFound or BadSchema."""
        return _or_raise(self.by_refs((ref,))[ref])

    def by_refs(self, refs: Iterable[SchemaRef]) -> dict[SchemaRef, Answer]:
        """What each of these came to, all within one bounded wait; how many are asked is the caller's to cap."""
        wanted = tuple(dict.fromkeys(refs))
        known = {ref: answer for ref in wanted if (answer := self._kept(ref)) is not None}
        asked = self._patience.ask((ref for ref in wanted if ref not in known), self._fetch)
        for ref, answer in asked.items():
            self._keep(ref, answer)
        found = {**known, **asked}
        return {ref: found[ref] for ref in wanted}

    def versions(self, subject: str) -> Sequence[SubjectVersion]:
        """All versions of a subject, oldest first. Raises SchemaNotFound for an unknown subject."""
        kept = self._versions.get(subject)
        if isinstance(kept, str):
            raise SchemaNotFound(kept)
        if kept is not None:
            return kept
        answer = self._patience.ask((subject,), self._fetch_versions)[subject]
        self._versions.put(subject, str(answer) if isinstance(answer, SchemaNotFound) else _or_raise(answer))
        return _or_raise(answer)

    def register(
        self, subject: str, text: str, schema_type: SchemaType, references: Sequence[Reference] = ()
    ) -> int:
        """The id of this schema under this subject, registering it if it is new. Raises BadSchema."""
        schema = ClientSchema(
            text, schema_type, [SchemaReference(item.name, item.subject, item.version) for item in references]
        )

        def send(name: str) -> int:
            return self._call(
                f"a {schema_type} schema for subject {name!r}",
                lambda client: _number(client.register_schema(name, schema), "id"),
                registering=True,
            )

        schema_id = _or_raise(self._patience.ask((subject,), send)[subject])
        self._versions.drop(subject)
        self._unknown.drop(schema_id)
        return schema_id

    def close(self) -> None:
        """Close the connections; the registry cannot be asked afterwards."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _kept(self, ref: SchemaRef) -> Answer | None:
        why_not = _impossible(ref) or self._unknown.get(ref)
        return self._schemas.get(ref) if why_not is None else SchemaNotFound(why_not)

    def _keep(self, ref: SchemaRef, answer: Answer) -> None:
        if isinstance(answer, SchemaNotFound):
            self._unknown.put(ref, str(answer))
        elif isinstance(answer, BadSchema):
            # A fresh one: a kept error would keep the frames it came through.
            self._schemas.put(ref, BadSchema(str(answer)))
        else:
            self._schemas.put(ref, answer)

    def _fetch(self, ref: SchemaRef) -> Schema:
        if isinstance(ref, int):
            what = f"schema id {ref}"
            held = self._call(what, lambda client: _held(ref, client.get_schema(ref)))
        else:
            what = f"schema GUID {ref}"
            held = self._call(what, lambda client: _held(0, client.get_schema_by_guid(ref)))
        if held.type not in get_args(SchemaType):
            kinds = ", ".join(get_args(SchemaType))
            raise BadSchema(f"{what} at {self._where} is of type {held.type}; only {kinds} can be read")
        try:
            imports = resolve(held.references, self._fetch_reference)
        except (BadSchema, SchemaNotFound) as error:
            raise type(error)(f"{what} cannot be used: {error}") from error
        guid = None if isinstance(ref, int) else ref
        kind = cast("SchemaType", held.type)
        return Schema(held.id, kind, held.text, held.references, imports, guid, held.rules)

    def _fetch_reference(self, reference: Reference) -> tuple[str, Sequence[Reference]]:
        held = self._version(reference.subject, reference.version)
        return held.text, held.references

    def _version(self, subject: str, version: int) -> _Held:
        kept = self._held.get((subject, version))
        if kept is not None:
            return kept

        def read(client: Any) -> _Held:
            # Deleted ones too: a schema that is still in records may need what was soft-deleted since.
            answer = client.get_version(subject, version, deleted=True)
            return _held(_number(answer.schema_id, "id"), answer.schema)

        held = self._call(f"version {version} of subject {subject!r}", read)
        if version > 0:  # -1 stands for the latest, which changes
            self._held.put((subject, version), held)
        return held

    def _fetch_versions(self, subject: str) -> tuple[SubjectVersion, ...]:
        def read(client: Any) -> list[int]:
            answer = client.get_versions(subject)
            if not isinstance(answer, list):
                raise TypeError("the list of versions is missing from the answer")
            return sorted(_number(item, "version") for item in answer)

        numbers = self._call(f"the versions of subject {subject!r}", read)
        if not numbers:
            raise SchemaNotFound(
                f"subject {subject!r} at {self._where} has no versions; register a schema first"
            )
        return tuple(SubjectVersion(subject, number, self._version(subject, number).id) for number in numbers)

    def _call(self, what: str, question: Callable[[Any], V], *, registering: bool = False) -> V:
        """One question to the registry, without any patience; every failure as one of our errors."""
        try:
            return question(self._client)
        except Exception as error:  # noqa: BLE001 - a client fed odd answers fails in ways nobody lists
            if is_uncoded_404(error):
                raise self._meaning_of_404(what) from None
            meaning = translated(error, what, self._where, registering=registering)
            raise type(meaning)(self.options.masked(str(meaning))) from None
        finally:
            # The client's own caches have neither bound nor end; ours above do.
            self._client.clear_caches()

    def _meaning_of_404(self, what: str) -> SchemaNotFound | RegistryUnavailable:
        """What a 404 without a registry's error code means: a call that is not offered, or no registry at all."""
        if self._is_a_registry():
            return SchemaNotFound(f"the registry at {self._where} does not offer to look up {what}")
        return RegistryUnavailable(
            f"{self._where} answers 404 as if there were no registry, asked for {what}; check registry.url"
        )

    def _is_a_registry(self) -> bool:
        """Whether the address lists schema types, which everything that speaks this API does."""
        if self._speaks.get(self._where) is None:
            try:
                listed = isinstance(self._client.get_schema_types(), list)
            except Exception:  # noqa: BLE001 - as above; the question that led here is the one to report
                listed = False
            if not listed:
                return False
            self._speaks.put(self._where, True)
        return True


def _impossible(ref: SchemaRef) -> str | None:
    """Why no registry can know this, so that nobody is asked; a GUID becomes part of an address."""
    if isinstance(ref, int):
        return None if 0 <= ref <= _LARGEST_ID else f"schema id {ref} is none: ids go from 0 to {_LARGEST_ID}"
    try:
        UUID(ref)
    except ValueError:
        return f"schema GUID {ref[:50]!r} is none; it must be a UUID"
    return None


def _client(options: RegistryOptions) -> Any:
    try:
        return SchemaRegistryClient(options.client_settings())
    except (OSError, ValueError, TypeError) as error:
        # Certificates and keys are read here: not PEM, not belonging together, a wrong password.
        raise ConfigError(
            f"registry: the client cannot be set up ({options.masked(str(error))}); "
            "check registry.ca_file, certificate_file, key_file and key_password"
        ) from None


def _or_raise(answer: V | SchemaNotFound | BadSchema) -> V:
    if isinstance(answer, SchemaNotFound | BadSchema):
        # A fresh one: kept errors would gather the tracebacks of everybody who met them.
        raise type(answer)(str(answer))
    return answer


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


def _rules(schema: Any) -> tuple[str, ...]:
    rule_set = schema.rule_set
    if rule_set is None:
        return ()
    rules = [*(rule_set.domain_rules or ()), *(rule_set.encoding_rules or ())]
    return tuple(dict.fromkeys(str(rule.type) for rule in rules if not rule.disabled))
