"""The manifests of a checkpoint as files of JSON, in which each table layout is kept once, however many tables share it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint import histories
from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.checkpoint.folder import MANIFESTS, Checkpoint
from distributary.ingest.checkpoint.manifest import (
    ROLES,
    BatchPins,
    Counts,
    Manifest,
    SpanRead,
    TableFiles,
)
from distributary.ingest.checkpoint.sums import check_sums
from distributary.ingest.columns.layout import Layout
from distributary.ingest.kafka.offsets import offsets_from_json, offsets_to_json
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.storage.numbered import numbered
from distributary.registry.base import schema_ref

FORMAT = 1


def to_bytes(manifest: Manifest) -> bytes:
    """The manifest as JSON text."""
    layouts = dict.fromkeys(table.layout for table in manifest.tables)
    keys = {layout: _layout_key(layout) for layout in layouts}
    value = {
        "format": FORMAT,
        "batch_id": manifest.batch_id,
        "generation": manifest.generation,
        "created_at": manifest.created_at,
        "code_version": manifest.code_version,
        "offsets": offsets_to_json(manifest.offsets),
        "gaps": manifest.gaps,
        "counts": _counts_to_json(manifest.counts),
        "pins": _pins_to_json(manifest.pins),
        "entities": dict(manifest.entities),
        "met": histories.to_json(manifest.met),
        "layouts": {key: _layout_to_text(layout) for layout, key in keys.items()},
        "tables": [_table_to_json(table, keys) for table in manifest.tables],
    }
    return json.dumps(value, separators=(",", ":")).encode()


def from_bytes(data: bytes) -> Manifest:
    """What `to_bytes` gave. Raises ValueError, KeyError or TypeError for anything else."""
    value = json.loads(data)
    if value["format"] != FORMAT:
        raise ValueError(f"its format is {value['format']}, this version reads {FORMAT}")
    layouts = {key: _layout_from_text(text) for key, text in value["layouts"].items()}
    return Manifest(
        batch_id=value["batch_id"],
        generation=value["generation"],
        created_at=value["created_at"],
        code_version=value["code_version"],
        offsets=offsets_from_json(value["offsets"]),
        pins=_pins_from_json(value["pins"]),
        entities=value["entities"],
        tables=tuple(_table_from_json(table, layouts) for table in value["tables"]),
        counts=_counts_from_json(value["counts"]),
        # Earlier versions did not write it.
        met=histories.from_json(value.get("met")),
    )


def _layout_key(layout: Layout) -> str:
    """What the manifest calls a layout: a hash of what it holds."""
    return hashlib.sha256(layout.serialized).hexdigest()[:16]


def _layout_to_text(layout: Layout) -> str:
    return base64.b64encode(layout.serialized).decode()


def _layout_from_text(text: str) -> Layout:
    return Layout.read(base64.b64decode(text, validate=True))


def _table_to_json(table: TableFiles, keys: Mapping[Layout, str]) -> dict[str, Any]:
    return {
        "folder": table.folder,
        "role": table.role,
        "app_id": table.app_id,
        "layout": keys[table.layout],
        "native": table.native,
        "files": [[file.table, file.name, file.rows, file.bytes, file.statistics] for file in table.files],
    }


def _table_from_json(value: dict[str, Any], layouts: Mapping[str, Layout]) -> TableFiles:
    if value["role"] not in ROLES:
        raise ValueError(f"it has a table of the unknown role {value['role']!r}")
    files = tuple(DataFile(*file) for file in value["files"])
    return TableFiles(
        value["folder"], value["role"], value["app_id"], layouts[value["layout"]], value["native"], files
    )


def _pins_to_json(pins: BatchPins) -> dict[str, Any]:
    # A list of pairs: as keys of an object the id 7 and the GUID "7" would be one.
    schemas = [[ref, fingerprint] for ref, fingerprint in pins.schemas.items()]
    return {"schemas": schemas, "settings": pins.settings, "decisions": dict(pins.decisions)}


def _pins_from_json(value: dict[str, Any]) -> BatchPins:
    schemas = {schema_ref(ref): str(fingerprint) for ref, fingerprint in value["schemas"]}
    return BatchPins(schemas, value["settings"], value["decisions"])


def _counts_to_json(counts: Counts) -> dict[str, Any]:
    read = {
        topic: {str(number): [span.count, span.first, span.last] for number, span in spans.items()}
        for topic, spans in counts.read.items()
    }
    return {
        "read": read,
        "rows": dict(counts.rows),
        "quarantined": dict(counts.quarantined),
        "dropped": dict(counts.dropped),
        "already": counts.already,
    }


def _counts_from_json(value: dict[str, Any]) -> Counts:
    read = {
        topic: {int(number): SpanRead(*span) for number, span in spans.items()}
        for topic, spans in value["read"].items()
    }
    return Counts(read, value["rows"], value["quarantined"], value["dropped"], value["already"])


# As many batches as Spark keeps of its own log by default; each manifest is complete by itself.
KEPT = 100

_SUFFIX = ".json"


class ManifestStore:
    """The manifests of a checkpoint."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._files = checkpoint.files

    def path(self, batch_id: int) -> str:
        """Where a batch's manifest is, or would be."""
        return f"{self._files.url}/{_path(batch_id)}"

    def write(self, manifest: Manifest) -> None:
        """Pass the point of no return. Old manifests go.

        Raises SumsDisagree before anything is written, and CheckpointMismatch if the batch has a manifest already.
        """
        check_sums(manifest)
        if not self._files.put_new(_path(manifest.batch_id), to_bytes(manifest)):
            raise CheckpointMismatch(
                f"{self.path(manifest.batch_id)} is there already: another run decided this batch; stop that run, then "
                "start this one again"
            )
        self._prune(manifest.batch_id)

    def read(self, batch_id: int) -> Manifest | None:
        """The manifest of a batch; None if there is none. Raises CheckpointMismatch for a file that was edited."""
        path = self.path(batch_id)
        try:
            with undamaged(path):
                manifest = from_bytes(self._files.read(_path(batch_id)))
        except FileNotFoundError:
            return None
        if manifest.batch_id != batch_id:
            raise CheckpointMismatch(
                f"{path} is the manifest of batch {manifest.batch_id}; restore the right file"
            )
        return manifest

    def last(self) -> Manifest | None:
        """The newest manifest; None in a new checkpoint."""
        newest = self.last_batch()
        return None if newest is None else self.read(newest)

    def last_batch(self) -> int | None:
        """The newest batch that has a manifest; None in a new checkpoint."""
        return max(numbered(self._files, MANIFESTS, _SUFFIX), default=None)

    def _prune(self, newest: int) -> None:
        # Oldest first, so that a crash in between leaves no hole. What cannot be removed now goes next time:
        # the batch is decided and must not fail for it.
        for batch_id in numbered(self._files, MANIFESTS, _SUFFIX):
            if batch_id <= newest - KEPT:
                with suppress(OSError):
                    self._files.delete([_path(batch_id)])


def _path(batch_id: int) -> str:
    return f"{MANIFESTS}/{batch_id}{_SUFFIX}"
