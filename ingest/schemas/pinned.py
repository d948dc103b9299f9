"""Every schema a checkpoint has ever used, kept so that a restart needs no registry and old records stay readable."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.checkpoint.folder import PINS, Checkpoint
from distributary.ingest.commit_log.formats import require_readable
from distributary.ingest.pins import RecordKey
from distributary.registry.base import Schema, SchemaRef, schema_ref
from distributary.registry.disk.schema_file import from_document, to_document
from distributary.registry.same_schema import same_schema

FORMAT = 1

# Whether two schemas that were given for one reference decode these records alike: pinned, then offered.
Same = Callable[[RecordKey, Schema, Schema], bool]

# Each query reads all of them as it begins; asking a store is waiting for the network.
_AT_ONCE = 16

_PLAIN_NAME = re.compile(r"[a-z0-9.-]{1,100}")


class PinsStore:
    """The pinned record types of a checkpoint, one file each, written once."""

    def __init__(self, checkpoint: Checkpoint, same: Same | None = None, of: str = "") -> None:
        """`same` is asked where texts differ in more than layout: a codec may know that they mean the same.

        `of` is for schemas that are not those of values: they have a folder of their own.
        """
        self._files, self._folder = checkpoint.files, f"{PINS}/{of}".rstrip("/")
        self._same = same or _never
        self._kept: dict[RecordKey, Schema] | None = None
        # By the reference alone, as each schema is held against those of its own.
        self._by_ref: dict[SchemaRef, list[Schema]] = {}

    def read(self) -> list[tuple[RecordKey, Schema]]:
        """All that is pinned. Raises CheckpointMismatch for a file that was edited."""
        return list(self._pinned().items())

    def write(self, key: RecordKey, schema: Schema) -> None:
        """Pin a record type; nothing happens if it is pinned already.

        Raises CheckpointMismatch if another schema is pinned by the same reference: the registry was emptied or
        replaced, and records already written under this reference mean what the pinned one says.
        """
        pinned = self._pinned()
        for known in self._by_ref.get(key[0], ()):
            self._check_same(key, known, schema)
        if key not in pinned:
            self._write_new(key, schema)
            pinned[key] = schema
            self._by_ref.setdefault(key[0], []).append(schema)

    def _write_new(self, key: RecordKey, schema: Schema) -> None:
        path = f"{self._folder}/{_file_name(key)}"
        if not self._files.put_new(path, _to_bytes(key, schema)):
            self._check_same(key, self._read(path)[1], schema)

    def _check_same(self, key: RecordKey, pinned: Schema, offered: Schema) -> None:
        if same_schema(pinned, offered) or self._same(key, pinned, offered):
            return
        if offered.inferred:
            raise CheckpointMismatch(
                f"version {key[0]} of the inferred schema is another one than this checkpoint has used: its versions are looked for elsewhere by now, "
                "as under a pipeline's new name, or below another working folder. Point decode.schema_location to where they were "
                "(`schemas/<name>`, where nothing was said)"
            )
        raise CheckpointMismatch(
            f"the registry now gives another schema for {key[0]!r} than the one this checkpoint has used (SHA-256 "
            f"{_digest(pinned)} pinned, {_digest(offered)} given): it was emptied or replaced, or registry.url leads "
            "to another one. Point registry.url back to the registry the records were written with, or give this "
            "pipeline a new checkpoint with `start: from_tables`"
        )

    def _pinned(self) -> dict[RecordKey, Schema]:
        if self._kept is None:
            there = [name for name in self._files.names(self._folder) if name.endswith(".json")]
            with ThreadPoolExecutor(_AT_ONCE) as pool:
                self._kept = dict(pool.map(self._read, (f"{self._folder}/{name}" for name in there)))
            for key, schema in self._kept.items():
                self._by_ref.setdefault(key[0], []).append(schema)
        return self._kept

    def _read(self, path: str) -> tuple[RecordKey, Schema]:
        remedy = "restore it, or remove it to have the registry asked again"
        where = f"{self._files.url}/{path}"
        with undamaged(where, remedy):
            value = json.loads(self._files.read(path))
            require_readable(where, value["format"], FORMAT)
            return _from_json(value)


def _never(key: RecordKey, pinned: Schema, offered: Schema) -> bool:
    return False


def _digest(schema: Schema) -> str:
    return hashlib.sha256(repr((schema.text, dict(schema.imports))).encode()).hexdigest()[:12]


def _file_name(key: RecordKey) -> str:
    ref, path = key
    name = f"{'id' if isinstance(ref, int) else 'guid'}-{ref}" + "".join(f".{index}" for index in path)
    # A GUID comes from a record: whatever is not plain gets no say in a file's name.
    if not _PLAIN_NAME.fullmatch(name):
        name = f"sha256-{hashlib.sha256(name.encode()).hexdigest()}"
    return f"{name}.json"


def _to_bytes(key: RecordKey, schema: Schema) -> bytes:
    value = {"format": FORMAT, "ref": key[0], "path": list(key[1]), **to_document(schema)}
    return json.dumps(value, indent=1).encode()


def _from_json(value: dict[str, Any]) -> tuple[RecordKey, Schema]:
    if value["format"] != FORMAT:
        raise ValueError(value["format"])
    return (schema_ref(value["ref"]), tuple(int(index) for index in value["path"])), from_document(value)
