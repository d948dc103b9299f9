"""The AWS Glue Schema Registry. What others call a subject is the name of a schema there, and a version's UUID is its GUID."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any
from uuid import UUID

from distributary.errors import (
    BadSchema,
    DistributaryError,
    RegistryFault,
    SchemaNotFound,
)
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
from distributary.registry.glue.client import GlueClient, Questions, boto3_client, refused
from distributary.registry.glue.options import GlueAccess
from distributary.registry.patience import Others
from distributary.registry.waits import Waits

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self

# As Glue's serializers register, unless told otherwise.
_COMPATIBILITY = "BACKWARD"


class GlueRegistry:
    """Schemas of the AWS Glue Schema Registry, kept in bounded caches; safe to use from many threads.

    A schema there is known by the UUID of its version alone: it has no id (`Schema.id` is 0), no references and no deleted
    versions that could still be listed. A `with` block closes its connections.
    """

    def __init__(self, access: GlueAccess, waits: Waits, client: GlueClient | None = None) -> None:
        """`client` is asked instead of boto3's. Raises ConfigError where that is not there or cannot be set up."""
        self.access = access
        self._asked = Questions(client or boto3_client(access, waits.timeout_seconds), access.where)
        self._answers: Answers[SchemaRef, str] = Answers(waits, _impossible)

    def by_ref(self, ref: SchemaRef, subject: str | None = None) -> Schema:
        """The schema version with this UUID. Raises SchemaNotFound or BadSchema."""
        return or_raise(self.by_refs((ref,))[ref])

    def by_refs(self, refs: Iterable[SchemaRef], subject: str | None = None) -> dict[SchemaRef, Answer]:
        """What each of these came to, all within one bounded wait; a UUID is the same in every registry of an account."""
        return self._answers.schemas(refs, self._fetch, Others(self._any_answer, self._any_answer))

    def versions(self, subject: str, deleted: bool = False) -> Sequence[SubjectVersion]:
        """The versions of the schema of this name, oldest first; deleted ones are not told. Raises SchemaNotFound."""
        return self._answers.versions(subject, self._fetch_versions)

    def register(
        self, subject: str, text: str, schema_type: SchemaType, references: Sequence[Reference] = ()
    ) -> Guid:
        """The UUID of this definition's version under this name, registering it if it is new. Raises BadSchema."""
        if references:
            raise BadSchema("a schema in Glue has no references; put what it imports into its own text")
        guid = self._answers.registered(subject, lambda name: self._send(name, text, schema_type))
        self._answers.forget((guid,), (subject,))
        return guid

    def subjects(self) -> list[str]:
        """The names of the registry's schemas."""
        pages = self._asked.pages(
            "its schemas",
            lambda client, more: client.list_schemas(
                RegistryId={"RegistryName": self.access.registry}, **more
            ),
        )
        return sorted(str(one["SchemaName"]) for one in pages)

    def close(self) -> None:
        """Close the connections; the registry cannot be asked afterwards."""
        self._asked.client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _any_answer(self) -> bool:
        """Whether a question about what it holds is answered, whichever."""
        try:
            self._asked.call(
                "a schema",
                lambda client: client.list_schemas(
                    RegistryId={"RegistryName": self.access.registry}, MaxResults=1
                ),
            )
        except DistributaryError:
            return False
        return True

    def _fetch(self, ref: SchemaRef) -> Schema:
        what = f"schema version {ref}"
        held = self._asked.call(what, lambda client: client.get_schema_version(SchemaVersionId=str(ref)))
        status = held.get("Status", "AVAILABLE")
        if status != "AVAILABLE":
            # One that is still being checked may be had a moment later.
            raise SchemaNotFound(f"{what} at the {self.access.where} is not available ({status})")
        text, type_ = held.get("SchemaDefinition"), held.get("DataFormat")
        if not isinstance(text, str) or not isinstance(type_, str):
            # Of this version only: others are waited for in vain otherwise, for as long as it is so.
            raise RegistryFault(f"the {self.access.where} answers without a definition, asked for {what}")
        if type_ not in REGISTERED:
            raise BadSchema(
                f"{what} at the {self.access.where} is of format {type_}; only {', '.join(REGISTERED)} can be read"
            )
        return Schema(0, type_, text, guid=Guid(ref))

    def _fetch_versions(self, subject: str) -> tuple[SubjectVersion, ...]:
        listed = self._asked.pages(
            f"the versions of schema {subject!r}",
            lambda client, more: client.list_schema_versions(SchemaId=self._named(subject), **more),
        )
        found = sorted(
            (int(one["VersionNumber"]), Guid(one["SchemaVersionId"]))
            for one in listed
            if one.get("Status") == "AVAILABLE"
        )
        if not found:
            raise SchemaNotFound(
                f"schema {subject!r} at the {self.access.where} has no version; register one first"
            )
        return tuple(SubjectVersion(subject, number, guid) for number, guid in found)

    def _named(self, subject: str) -> dict[str, str]:
        return {"RegistryName": self.access.registry, "SchemaName": subject}

    def _send(self, subject: str, text: str, schema_type: SchemaType) -> Guid:
        what = f"a {schema_type} schema of the name {subject!r}"

        def send(client: GlueClient) -> dict[str, Any]:
            try:
                return self._sent(client, subject, text, schema_type)
            except Exception as error:
                if (why := refused(error, what)) is not None:
                    raise why from None
                raise

        held = self._asked.call(what, send)
        if held.get("Status", held.get("SchemaVersionStatus")) == "FAILURE":
            raise BadSchema(f"Glue refuses {what}: it does not go with the versions that are there")
        return Guid(held["SchemaVersionId"])

    def _sent(self, client: GlueClient, subject: str, text: str, schema_type: SchemaType) -> dict[str, Any]:
        """The version with this definition, that there was, that was added, or the first of a schema that was made."""
        named = self._named(subject)
        try:
            there = client.get_schema_by_definition(SchemaId=named, SchemaDefinition=text)
            if there.get("Status", "AVAILABLE") == "AVAILABLE":
                return there
        except Exception as error:
            if not _is_unknown(error):
                raise
        try:
            return client.register_schema_version(SchemaId=named, SchemaDefinition=text)
        except Exception as error:
            if not _is_unknown(error):
                raise
        return client.create_schema(
            RegistryId={"RegistryName": self.access.registry},
            SchemaName=subject,
            DataFormat=schema_type,
            Compatibility=_COMPATIBILITY,
            SchemaDefinition=text,
        )


def _is_unknown(error: Exception) -> bool:
    response = getattr(error, "response", None)
    return isinstance(response, dict) and response.get("Error", {}).get("Code") == "EntityNotFoundException"


def _impossible(ref: SchemaRef) -> str | None:
    """Why Glue cannot know this, so that it is not asked."""
    if not isinstance(ref, Guid):
        return f"schema {ref} is none of Glue's: its schema versions have UUIDs and no ids"
    try:
        UUID(ref)
    except ValueError:
        return f"schema version {ref[:50]!r} is none; it must be a UUID"
    return None
