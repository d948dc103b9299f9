"""What one registry has answered, as files that are there whole or not at all: schemas by id or GUID, versions by subject."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import inf
from pathlib import Path
from typing import Any, Protocol

from distributary.errors import SetupError
from distributary.files import is_temporary, replace
from distributary.registry.base import Guid, Schema, SchemaRef, SubjectVersion, schema_ref
from distributary.registry.disk.schema_file import from_document, sealed, to_document, unsealed

_PLAIN_NAME = re.compile(r"[a-zA-Z0-9.-]{1,60}")

_NAMED_BY_ID = re.compile(r"schema-id-(-?[0-9]+)\.json")


class KeptFiles(Protocol):
    """What a place for files has to answer to keep a registry's answers: a folder, or an object store's."""

    @property
    def url(self) -> str:
        """Where it is."""
        ...

    def read(self, path: str) -> bytes:
        """The file's content. Raises FileNotFoundError, and other OSErrors."""
        ...

    def put(self, path: str, data: bytes) -> None:
        """Put a file here, whole, in the place of what may be there. Raises OSError."""
        ...

    def names(self, folder: str = "") -> Iterable[str]:
        """The names of the files right in a folder, in order."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Delete files; nothing happens to those that are not there."""
        ...


class SchemaFolder:
    """The answers of one registry, in a folder of its own below `root`. Many processes may use it at once.

    `identity` tells registries apart, such as by their address: the same id means another schema in another registry. A file
    that was cut off or edited counts as not there.
    """

    def __init__(self, root: Path | KeptFiles, identity: str) -> None:
        """Raises SetupError where nothing can be written."""
        self._files: KeptFiles = _Folder(root) if isinstance(root, Path) else root
        self._own = _digest(identity)
        try:
            if self._read("registry.json") is None:
                self._write("registry.json", {"registry": identity})
        except OSError as error:
            raise SetupError(
                f"the registry's answers cannot be kept in {self._files.url}: {error.strerror or error}; name a folder, or a place in "
                "a store, that can be written"
            ) from error

    @property
    def url(self) -> str:
        """Where it is: a path or a URL."""
        return f"{self._files.url}/{self._own}"

    def schema(self, ref: SchemaRef, subject: str | None = None) -> Schema | None:
        """The schema kept for an id or GUID, None where there is none."""
        kept = self._read(_schema_name(ref, subject))
        if kept is None or kept.get("ref") != ref or kept.get("subject") != subject:
            return None
        return _schema_in(kept)

    def keep_schema(self, ref: SchemaRef, subject: str | None, schema: Schema) -> None:
        """Keep a schema, in the place of one that was kept for this id or GUID. Raises OSError."""
        self._write(_schema_name(ref, subject), {"ref": ref, "subject": subject, **to_document(schema)})

    def refs(self) -> Iterator[SchemaRef]:
        """The ids and GUIDs that schemas are kept for in the default context, lowest ids first."""
        names = [name for name in self._files.names(self._own) if name.startswith("schema-")]
        # Whoever wants a few reads a few: in a store each is a request, and several pipelines keep thousands here.
        for name in sorted(names, key=_id_in):
            kept = self._read(name)
            if kept is not None and kept.get("subject") is None:
                yield schema_ref(kept["ref"])

    def versions(self, subject: str) -> Sequence[SubjectVersion] | None:
        """All versions kept of a subject, deleted ones too; None where there are none."""
        kept = self._read(_versions_name(subject))
        if kept is None or kept.get("subject") != subject:
            return None
        return [
            SubjectVersion(subject, number, id_ if isinstance(id_, int) else Guid(id_), deleted)
            for number, id_, deleted in kept["versions"]
        ]

    def keep_versions(self, subject: str, versions: Sequence[SubjectVersion]) -> None:
        """Keep the list of a subject's versions, in the place of an older one. Raises OSError."""
        listed = [[one.version, one.id, one.deleted] for one in versions]
        if self.versions(subject) != list(versions):
            self._write(_versions_name(subject), {"subject": subject, "versions": listed})

    def drop_versions(self, subject: str) -> None:
        """Forget a subject's versions; nothing happens where none are kept."""
        self._files.delete([self._path(_versions_name(subject))])

    def _read(self, name: str) -> dict[str, Any] | None:
        try:
            return unsealed(self._files.read(self._path(name)))
        except (OSError, ValueError):
            return None

    def _write(self, name: str, content: Mapping[str, Any]) -> None:
        self._files.put(self._path(name), sealed(content))

    def _path(self, name: str) -> str:
        return f"{self._own}/{name}"


class _Folder:
    """`KeptFiles` in a folder of this machine."""

    def __init__(self, root: Path) -> None:
        self._root = root

    @property
    def url(self) -> str:
        return str(self._root)

    def read(self, path: str) -> bytes:
        return (self._root / path).read_bytes()

    def put(self, path: str, data: bytes) -> None:
        replace(self._root / path, data)

    def names(self, folder: str = "") -> Iterable[str]:
        there = self._root / folder
        return (
            sorted(file.name for file in there.iterdir() if not is_temporary(file.name))
            if there.is_dir()
            else []
        )

    def delete(self, paths: Iterable[str]) -> None:
        for path in paths:
            (self._root / path).unlink(missing_ok=True)


def _schema_in(document: Mapping[str, Any]) -> Schema | None:
    try:
        return from_document(document)
    except (KeyError, TypeError, ValueError):
        return None


def _schema_name(ref: SchemaRef, subject: str | None) -> str:
    name = f"{'id' if isinstance(ref, int) else 'guid'}-{ref}"
    # A GUID comes from a record: whatever is not plain gets no say in a file's name.
    if subject is not None or not _PLAIN_NAME.fullmatch(name):
        name = _digest(json.dumps([ref, subject]))
    return f"schema-{name}.json"


def _id_in(name: str) -> float:
    """The id that a schema's file is named by; one of a GUID or of another context is behind all."""
    found = _NAMED_BY_ID.fullmatch(name)
    return int(found[1]) if found else inf


def _versions_name(subject: str) -> str:
    return f"versions-{_digest(subject)}.json"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
