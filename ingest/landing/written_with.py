"""The schemas that files were written with, kept beside the register of files, in a registry's place.

`schemas/00000000000000000001.json` has one, and so on, in the order in which they were met. A record names its schema by a GUID that is made
of the schema itself: whatever becomes of this folder, no record is ever taken for another schema's. Workers put schemas here as they
open files, before they hand on any record; the driver finds them when it is asked what a GUID means. `guids/<guid>` has the number of one
that is kept, so that a worker that meets it again looks at that one alone, however many there are by then.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from threading import Lock
from uuid import UUID

from distributary.errors import BadSchema, CheckpointMismatch, NewerFormat, SchemaNotFound
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.numbered import numbered
from distributary.registry.base import (
    Answer,
    Guid,
    Reference,
    Schema,
    SchemaRef,
    SchemaType,
    SubjectVersion,
)

SCHEMAS, _GUIDS = "schemas", "guids"

FORMAT = 1

_SUFFIX = ".json"


class WrittenWith:
    """The schemas of one folder's files, as the versions of one subject. A schema's number is its id and its version."""

    def __init__(self, files: Files, subject: str, ahead: Sequence[str] = ()) -> None:
        """`files` is where the register is; `ahead` are texts of schemas that count as the next versions, and are not kept."""
        self._files, self.subject = files, subject
        self._lock = Lock()
        self._known: dict[Guid, Schema] = {}
        # Those that are kept, whatever else is.
        self._named = set[Guid]()
        self._listed = 0
        self._ahead = tuple(ahead)

    def named(self, text: str) -> Guid:
        """The GUID of a schema of files, which is kept from now on."""
        guid = guid_of(text)
        with self._lock:
            if guid not in self._named and not self._is_kept(guid):
                while guid not in self._known:
                    data = _content(guid, text)
                    if not self._files.put_new(_path(self._listed + 1), data):
                        self._read_on()
                    else:
                        self._learn(self._listed + 1, data)
                self._files.put_new(f"{_GUIDS}/{guid}", str(self._known[guid].id).encode())
            self._named.add(guid)
            return guid

    def _is_kept(self, guid: Guid) -> bool:
        """Whether it is said of a schema which number it has, and that is so: a copy that was made meanwhile may have the one without the other."""
        try:
            number = int(self._files.read(f"{_GUIDS}/{guid}"))
            return bool(json.loads(self._files.read(_path(number)))["guid"] == guid)
        except (FileNotFoundError, ValueError, TypeError, KeyError):
            return False

    def by_ref(self, ref: SchemaRef, subject: str | None = None) -> Schema:
        """The schema with this GUID, whatever the subject. Raises SchemaNotFound."""
        with self._lock:
            found = self._found(ref)
            if found is None:
                self._read_on()
                found = self._found(ref)
        if found is None:
            raise SchemaNotFound(f"no file that was read in {self._files} was written with schema {ref}")
        return found

    def by_refs(self, refs: Iterable[SchemaRef], subject: str | None = None) -> Mapping[SchemaRef, Answer]:
        """What each of these came to."""
        return {ref: self._answer(ref) for ref in refs}

    def versions(self, subject: str, deleted: bool = False) -> Sequence[SubjectVersion]:
        """All schemas, in the order in which they were met. Raises SchemaNotFound while there is none, and for any other subject."""
        with self._lock:
            self._read_on()
            known = sorted(self._known.items(), key=lambda one: one[1].id)
        if subject != self.subject or not known:
            raise SchemaNotFound(f"no file that was read in {self._files} has a schema of {subject}")
        return [SubjectVersion(subject, schema.id, guid) for guid, schema in known]

    def register(
        self, subject: str, text: str, schema_type: SchemaType, references: Sequence[Reference] = ()
    ) -> int | Guid:
        """Raises BadSchema: files bring their schemas."""
        raise BadSchema(
            f"schemas of the files in {self._files} come with the files, and nobody registers them"
        )

    def _answer(self, ref: SchemaRef) -> Answer:
        try:
            return self.by_ref(ref)
        except SchemaNotFound as error:
            return error

    def _found(self, ref: SchemaRef) -> Schema | None:
        return self._known.get(ref) if isinstance(ref, Guid) else None

    def _read_on(self) -> None:
        """Learn those that were kept since, and behind them those that are ahead."""
        for number in numbered(self._files, SCHEMAS, _SUFFIX):
            if number > self._listed:
                self._learn(number, self._files.read(_path(number)))
        for text in self._ahead:
            if (guid := guid_of(text)) not in self._known:
                self._know(len(self._known) + 1, guid, text)

    def _learn(self, number: int, data: bytes) -> None:
        path = f"{self._files}/{_path(number)}"
        try:
            told = json.loads(data)
            if told["format"] > FORMAT:
                raise NewerFormat(
                    f"{path} has format {told['format']}, and this version of distributary reads up to {FORMAT}: a newer version wrote it. "
                    "Use the version that made it, or a later one"
                )
            self._know(number, Guid(told["guid"]), json.dumps(told["schema"]))
        except NewerFormat:
            raise
        except (ValueError, KeyError, TypeError):
            raise CheckpointMismatch(
                f"{path} was cut off or edited: it is no schema of a file; restore it from a copy, with the tables"
            ) from None
        self._listed = max(self._listed, number)

    def _know(self, number: int, guid: Guid, text: str) -> None:
        self._known.setdefault(guid, Schema(number, "AVRO", text, guid=guid))


def guid_of(text: str) -> Guid:
    """The GUID of a schema, whatever spaces its text has and in whatever order it names what it says."""
    plain = json.dumps(json.loads(text), sort_keys=True, separators=(",", ":"))
    return Guid(UUID(bytes=blake2b(plain.encode(), digest_size=16).digest()))


def _content(guid: Guid, text: str) -> bytes:
    return json.dumps({"format": FORMAT, "guid": guid, "schema": json.loads(text)}, indent=1).encode()


def _path(number: int) -> str:
    return f"{SCHEMAS}/{number:020d}{_SUFFIX}"
