"""What a batch was decided by, as JSON: with it and the pinned schemas its files can be written again just the same."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.pins import PinnedKeys, PinnedTable, Pins, RecordKey, Verdict


def to_json(pins: Pins) -> dict[str, Any]:
    """The decisions beside schemas and tables: who was refused, admitted, denied and rejected."""
    return {
        "records": [_key_to_json(pinned.key) for pinned in pins.records],
        "refused": [[_key_to_json(key), [v.reason, v.detail]] for key, v in sorted_refused(pins.refused)],
        "rejected": [[list(where), [v.reason, v.detail]] for where, v in sorted(pins.rejected.items())],
        "already": {table: {t: dict(ps) for t, ps in ends.items()} for table, ends in pins.already.items()},
        "key_records": [_key_to_json(pinned.key) for pinned in (pins.keys.records if pins.keys else ())],
        "grow": pins.grow,
        "guarded": pins.guarded,
    }


def sorted_refused(refused: Mapping[RecordKey, Verdict]) -> list[tuple[RecordKey, Verdict]]:
    """Refused record types in an order that depends on nothing but themselves."""
    return sorted(refused.items(), key=lambda item: (str(item[0][0]), item[0][1]))


def from_manifest(manifest: Manifest, pins: Pins) -> Pins:
    """Pins that give every record of the batch the place it has in the manifest; nothing is left open."""
    decided = manifest.pins.decisions
    keys = {_key_from_json(key) for key in decided["records"]}
    of_keys = {_key_from_json(key) for key in decided.get("key_records", ())}
    entities = {folder: entity for entity, folder in manifest.entities.items()}
    return replace(
        pins,
        batch_id=manifest.batch_id,
        generation=manifest.generation,
        records=tuple(pinned for pinned in pins.records if pinned.key in keys),
        refused={_key_from_json(key): Verdict(*verdict) for key, verdict in decided["refused"]},
        rejected={(t, p, o): Verdict(*verdict) for (t, p, o), verdict in decided["rejected"]},
        already={
            table: {topic: {int(p): end for p, end in ps.items()} for topic, ps in ends.items()}
            for table, ends in decided["already"].items()
        },
        tables={
            table.folder: PinnedTable(entities.get(table.folder, table.folder), table.layout)
            for table in manifest.tables
            if table.role == "events"
        },
        grow=decided["grow"],
        # The columns are as wide as they became: what did not fit was rescued.
        widen=False,
        guarded=decided["guarded"],
        admitted=frozenset(),
        new_tables=0,
        schemas_final=True,
        inferred_final=True,
        keys=None if pins.keys is None else _of_keys(pins.keys, of_keys),
        tables_final=True,
    )


def _of_keys(pinned: PinnedKeys, known: set[RecordKey]) -> PinnedKeys:
    return replace(pinned, records=tuple(one for one in pinned.records if one.key in known), final=True)


def _key_to_json(key: RecordKey) -> list[Any]:
    return [key[0], list(key[1])]


def _key_from_json(value: list[Any]) -> RecordKey:
    return value[0], tuple(value[1])
