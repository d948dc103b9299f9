"""What a schema registry is to the rest of distributary: schema ids, subjects, versions and references, as text."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Literal, Protocol

from distributary.errors import BadSchema, RegistryFault, SchemaNotFound

# STRUCT is a Spark StructType as JSON, which no registry holds: schemas that were inferred are of it.
SchemaType = Literal["AVRO", "PROTOBUF", "JSON", "STRUCT"]

# Confluent's rules after which a decoder here would take ciphertext for values: of single fields, and of the whole payload.
_ENCRYPTING = frozenset({"ENCRYPT", "ENCRYPT_PAYLOAD"})

REGISTERED: tuple[SchemaType, ...] = ("AVRO", "PROTOBUF", "JSON")


class Guid(str):
    """A schema's GUID, by which a record may name it instead of by an id; registries write it with dashes."""

    __slots__ = ()


class Unregistered(str, Enum):
    """What stands for a schema in the place of a registry's id or GUID, which it has none of."""

    INFERRED = "inferred"
    """Of records that name no schema: the newest version of the one that was inferred for them."""

    OFFERED = "offered"
    """A schema that somebody thinks of registering."""

    def __str__(self) -> str:
        return str(self.value)

    # It is equal to its text, as a file holds it.
    __hash__ = str.__hash__


# A record names its schema by the registry's id (header 0x00) or by a GUID (header 0x01). Versions of an inferred schema
# are numbered too; where they stand beside a registry's ids, from -1 downwards. Pins and manifests hold numbers and texts.
#
# Such a version has no type of its own, since no file could give it back: manifests and histories hold the bare number, and
# where no record is of a registered schema that is a positive one, as a registry's id is. `Schema.id`, the tables' column of
# ids and the ledger hold the same number. Whether a schema was inferred is asked of the schema itself (`Schema.inferred`).
SchemaRef = int | Guid | Unregistered


def schema_ref(kept: object) -> SchemaRef:
    """What a file calls a schema by. Raises ValueError for what is no number and no text."""
    if isinstance(kept, str):
        return next((one for one in Unregistered if one.value == kept), Guid(kept))
    if isinstance(kept, int):
        return kept
    raise ValueError(f"a schema is named by a {type(kept).__name__}")


@dataclass(frozen=True, slots=True)
class Reference:
    """One import of a schema: the name it is imported by, and the subject and version it stands for."""

    name: str
    subject: str
    version: int


@dataclass(frozen=True, slots=True)
class Schema:
    """A registered schema with everything it needs to be compiled without asking the registry again.

    id          the registry's; 0 where the schema was asked for by GUID and the registry did not say which id that is
    type        AVRO, PROTOBUF, JSON, or STRUCT for one that was inferred
    text        the schema itself; a Protobuf schema and its imports may be base64 FileDescriptorProtos, since some
                registries hand back what a serializer registered
    references  its direct imports
    imports     each import's name, transitive ones too, with its text, dependencies before dependants
    guid        the schema's GUID, where the registry tells it
    rules       the data rules that the registry keeps beside it, such as `ENCRYPT`: fields that such a rule touches arrive
                transformed, and no decoder here undoes that
    entity      of an inferred schema, the one entity whose records it is for, by the name that is made from it; None: all
    """

    id: int
    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()
    imports: Mapping[str, str] = field(default_factory=dict)
    guid: Guid | None = None
    rules: tuple[str, ...] = ()
    entity: str | None = None

    @property
    def inferred(self) -> bool:
        """Whether nobody registered it: it was made from the records that it is for."""
        return self.type == "STRUCT"

    @property
    def unusable(self) -> str:
        """Why no record of it can be decoded here, whatever its text; empty where nothing speaks against it."""
        encrypted = not _ENCRYPTING.isdisjoint(self.rules)
        return "its records are encrypted in the client, which is not supported" if encrypted else ""


@dataclass(frozen=True, slots=True)
class SubjectVersion:
    """One version of a subject and the id of the schema it holds, or its GUID in a registry that has no ids.

    A (soft-)deleted one's id can still be read.
    """

    subject: str
    version: int
    id: int | Guid
    deleted: bool = False


# What one of several references came to: BadSchema is a schema of a kind that nobody here can read, RegistryFault one that the registry
# fails to give for long, while it answers other questions.
Answer = Schema | SchemaNotFound | BadSchema | RegistryFault


class SchemaRegistry(Protocol):
    """A registry of schemas. Every call may raise `RegistryUnavailable`; none decodes a record.

    "Not found" is told apart from "does not answer": the former may turn a record into a quarantined one,
    the latter never does. A registry with contexts has ids of its own in each: `subject`, such as
    `:.games:a-value`, says in whose context an id is meant. Registries without contexts ignore it.
    """

    def by_ref(self, ref: SchemaRef, subject: str | None = None) -> Schema:
        """The schema with this id or GUID, references resolved. Raises SchemaNotFound or BadSchema."""
        ...

    def by_refs(self, refs: Iterable[SchemaRef], subject: str | None = None) -> Mapping[SchemaRef, Answer]:
        """What each of these came to, all within one bounded wait; how many are asked is the caller's to cap."""
        ...

    def versions(self, subject: str, deleted: bool = False) -> Sequence[SubjectVersion]:
        """All versions of a subject, oldest first; with `deleted` the soft-deleted ones too, so marked.

        Raises SchemaNotFound for an unknown subject, and for a deleted one unless its deleted versions are asked for.
        """
        ...

    def register(
        self, subject: str, text: str, schema_type: SchemaType, references: Sequence[Reference] = ()
    ) -> int | Guid:
        """The id of this schema (or its GUID) under this subject, registering it if it is new. Raises BadSchema."""
        ...
