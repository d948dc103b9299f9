"""A manifest as JSON: each table layout is kept once, however many tables share it."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping
from typing import Any, cast

import pyarrow as pa

from distributary.ingest import histories
from distributary.ingest.data_file import DataFile
from distributary.ingest.manifest import ROLES, BatchPins, Counts, Manifest, SpanRead, TableFiles
from distributary.ingest.offset_log import offsets_from_json, offsets_to_json
from distributary.registry.base import SchemaRef

FORMAT = 1


def to_bytes(manifest: Manifest) -> bytes:
    """The manifest as JSON text."""
    layouts = _Layouts()
    tables = [_table_to_json(table, layouts) for table in manifest.tables]
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
        "layouts": layouts.texts,
        "tables": tables,
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


class _Layouts:
    """Layouts met so far, by a hash of what they hold."""

    def __init__(self) -> None:
        self.texts: dict[str, str] = {}
        # Tables that share a layout mostly share the object, and serialising it is what costs.
        self._known: dict[int, tuple[pa.Schema, str]] = {}

    def key(self, layout: pa.Schema) -> str:
        if id(layout) not in self._known:
            self._known[id(layout)] = (layout, self._add(layout))
        return self._known[id(layout)][1]

    def _add(self, layout: pa.Schema) -> str:
        data = layout.serialize().to_pybytes()
        key = hashlib.sha256(data).hexdigest()[:16]
        self.texts[key] = base64.b64encode(data).decode()
        return key


def _layout_from_text(text: str) -> pa.Schema:
    return pa.ipc.read_schema(pa.py_buffer(base64.b64decode(text, validate=True)))


def _table_to_json(table: TableFiles, layouts: _Layouts) -> dict[str, Any]:
    return {
        "folder": table.folder,
        "role": table.role,
        "app_id": table.app_id,
        "layout": layouts.key(table.layout),
        "native": table.native,
        "files": [[file.table, file.name, file.rows, file.bytes, file.statistics] for file in table.files],
    }


def _table_from_json(value: dict[str, Any], layouts: Mapping[str, pa.Schema]) -> TableFiles:
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
    schemas = {cast("SchemaRef", ref): str(fingerprint) for ref, fingerprint in value["schemas"]}
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
