"""Manifests as JSON, in which each table layout is kept once, however many tables share it."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any, get_args

from distributary.ingest.checkpoint import histories
from distributary.ingest.checkpoint.manifest import (
    ROLES,
    BatchPins,
    Counts,
    Manifest,
    Merging,
    Remembering,
    SpanRead,
    TableFiles,
)
from distributary.ingest.columns.layout import Layout
from distributary.ingest.kafka.offsets import offsets_from_json, offsets_to_json
from distributary.ingest.merge.rule import Validity
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.settings.upserts import Moved, Update
from distributary.registry.base import schema_ref

# Those that read `ADDED` alone would add rows that are to take the place of others; those that read up to `WHOLE` would have rows set
# columns that their schema does not have, and would pass over deletes. Those that read up to `DELETED` would put files into no partition,
# those that read up to `PARTITIONED` such of rows that take the place of others, and those that read up to `MOVED` would have rows take the
# place of others that are to stay. Those that read up to `KEPT` would write files again with what a rule keeps from its tables,
# those that read up to `SHAPED` with records that do not meet what their table expects, those that read up to `EXPECTING` know no
# table of records as they came, and those that read up to `AS_THEY_CAME` would write files again with records that were erased by their keys.
ADDED, WHOLE, DELETED, PARTITIONED, MOVED, KEPT, SHAPED, EXPECTING, AS_THEY_CAME, FORMAT = range(1, 11)

# Per table's folder, files that take the place of lost ones.
RewrittenFiles = Mapping[str, tuple[DataFile, ...]]


def to_json(manifest: Manifest) -> dict[str, Any]:
    """The manifest as JSON values."""
    layouts = dict.fromkeys(table.layout for table in manifest.tables)
    keys = {layout: _layout_key(layout) for layout in layouts}
    return {
        # The programs that came before read what has nothing that they do not know.
        "format": _format(manifest.tables, manifest.pins),
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
        **({} if manifest.late_row is None else {"late_row": dict(manifest.late_row)}),
    }


def from_json(value: Mapping[str, Any]) -> Manifest:
    """What `to_json` gave. Raises ValueError, KeyError or TypeError for anything else."""
    layouts = {key: _layout_from_text(text) for key, text in value["layouts"].items()}
    tables = tuple(_table_from_json(table, layouts) for table in value["tables"])
    pins = _pins_from_json(value["pins"])
    if value["format"] != _format(tables, pins):
        raise ValueError(f"its format is {value['format']}, this version reads {_format(tables, pins)}")
    return Manifest(
        batch_id=value["batch_id"],
        generation=value["generation"],
        created_at=value["created_at"],
        code_version=value["code_version"],
        offsets=offsets_from_json(value["offsets"]),
        pins=pins,
        entities=value["entities"],
        tables=tables,
        counts=_counts_from_json(value["counts"]),
        # Earlier versions did not write it.
        met=histories.from_json(value.get("met")),
        late_row=value.get("late_row"),
    )


def of_table(value: Mapping[str, Any], folder: str) -> Manifest:
    """The same of one table alone, by its folder, and without what the batch was decided by: a thousand others take fifty milliseconds.

    Raises ValueError, KeyError or TypeError for anything else.
    """
    (table,) = (one for one in value["tables"] if one["folder"] == folder)
    key = table["layout"]
    return from_json(
        {
            **value,
            # That of the whole manifest may be another one's.
            "format": _format(
                (_table_from_json(table, {key: _layout_from_text(value["layouts"][key])}),), BatchPins()
            ),
            "tables": [table],
            "layouts": {key: value["layouts"][key]},
            "pins": {"schemas": [], "settings": value["pins"]["settings"], "decisions": {}},
            "entities": {entity: of for entity, of in value["entities"].items() if of == folder},
            "counts": {**value["counts"], "rows": {}, "expected": {}},
            "met": None,
        }
    )


def _format(tables: Sequence[TableFiles], pins: BatchPins) -> int:
    rules = pins.decisions.get("rules", {})
    newest = (
        ("erased_keys", FORMAT),
        ("bronze", AS_THEY_CAME),
        ("expects", EXPECTING),
        ("columns", SHAPED),
    )
    if (found := next((number for name, number in newest if rules.get(name)), None)) is not None:
        return found
    if any(table.merging is not None and table.merging.history is not None for table in tables):
        return KEPT
    if any(table.partitions and table.merging is not None for table in tables):
        return MOVED
    if any(table.partitions for table in tables):
        return PARTITIONED
    merging = [table.merging for table in tables if table.merging is not None]
    if any(one.update != "all" or one.deletes is not None for one in merging):
        return DELETED
    return WHOLE if merging else ADDED


def _layout_key(layout: Layout) -> str:
    """What the manifest calls a layout: a hash of what it holds."""
    return hashlib.sha256(layout.serialized).hexdigest()[:16]


def _layout_to_text(layout: Layout) -> str:
    return base64.b64encode(layout.serialized).decode()


def _layout_from_text(text: str) -> Layout:
    return Layout.read(base64.b64decode(text, validate=True))


def rewritten_to_json(files: RewrittenFiles) -> dict[str, Any]:
    """Files of a batch that were lost and written again, by their tables' folders, as JSON values."""
    return {folder: [_file_to_json(file) for file in found] for folder, found in files.items()}


def rewritten_from_json(value: Mapping[str, Any]) -> RewrittenFiles:
    """What `rewritten_to_json` gave. Raises ValueError, KeyError or TypeError for anything else."""
    return {folder: tuple(map(_file_from_json, files)) for folder, files in value.items()}


def _file_to_json(file: DataFile) -> list[Any]:
    # Of a table that is whole there is nothing to say, and a version from before has it so.
    partition = [[list(one) for one in file.partition]] if file.partition else []
    return [file.table, file.name, file.rows, file.bytes, file.statistics, *partition]


def _file_from_json(value: Sequence[Any]) -> DataFile:
    table, name, rows, size, statistics, *more = value
    (partition,) = more or ((),)
    return DataFile(table, name, rows, size, statistics, tuple((of, told) for of, told in partition))


def _table_to_json(table: TableFiles, keys: Mapping[Layout, str]) -> dict[str, Any]:
    return {
        "folder": table.folder,
        "role": table.role,
        "app_id": table.app_id,
        "layout": keys[table.layout],
        "native": table.native,
        "files": [_file_to_json(file) for file in table.files],
        **({} if table.merging is None else {"merging": _merging_to_json(table.merging)}),
        **({"deletes": [_file_to_json(file) for file in table.deletes]} if table.deletes else {}),
    }


def _merging_to_json(merging: Merging) -> dict[str, Any]:
    update = {} if merging.update == "all" else {"update": merging.update}
    deletes = {} if merging.deletes is None else {"deletes": asdict(merging.deletes)}
    history = {} if merging.history is None else {"history": asdict(merging.history)}
    return {
        "keys": list(merging.keys),
        "sequence": list(merging.sequence),
        "moved": merging.moved,
        **update,
        **deletes,
        **history,
    }


def _merging_from_json(value: Mapping[str, Any] | None) -> Merging | None:
    if value is None:
        return None
    if value["moved"] not in get_args(Moved):
        raise ValueError(f"a table's keys that moved are to {value['moved']!r}")
    update = value.get("update", "all")
    if update not in get_args(Update):
        raise ValueError(f"a table's rows are to update {update!r}")
    deletes = None if value.get("deletes") is None else Remembering(**value["deletes"])
    told = value.get("history")
    history = None if told is None else Validity(**{**told, "apart": tuple(told["apart"])})
    return Merging(tuple(value["keys"]), tuple(value["sequence"]), value["moved"], update, deletes, history)


def _table_from_json(value: dict[str, Any], layouts: Mapping[str, Layout]) -> TableFiles:
    if value["role"] not in ROLES:
        raise ValueError(f"it has a table of the unknown role {value['role']!r}")
    files = tuple(map(_file_from_json, value["files"]))
    return TableFiles(
        folder=value["folder"],
        role=value["role"],
        app_id=value["app_id"],
        layout=layouts[value["layout"]],
        native=value["native"],
        files=files,
        merging=_merging_from_json(value.get("merging")),
        deletes=tuple(map(_file_from_json, value.get("deletes", ()))),
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
        **({"expected": {of: dict(told) for of, told in counts.expected.items()}} if counts.expected else {}),
        **({"kept": dict(counts.kept)} if counts.kept else {}),
    }


def _counts_from_json(value: dict[str, Any]) -> Counts:
    read = {
        topic: {int(number): SpanRead(*span) for number, span in spans.items()}
        for topic, spans in value["read"].items()
    }
    expected = {
        table: {name: tuple(counts) for name, counts in told.items()}
        for table, told in value.get("expected", {}).items()
    }
    return Counts(
        read,
        value["rows"],
        value["quarantined"],
        value["dropped"],
        value["already"],
        expected=expected,
        kept=value.get("kept", {}),
    )
