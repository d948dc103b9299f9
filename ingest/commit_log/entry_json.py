"""Entries as JSON text, and back. The format has a version; of a newer one nothing is read but that it is newer."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, NamedTuple

from distributary.ingest.commit_log.entries import (
    Batch,
    Decision,
    Entry,
    HandedOver,
    Owner,
    Parked,
    Process,
    Rewritten,
    Standing,
    Start,
)
from distributary.ingest.commit_log.formats import require_readable
from distributary.ingest.kafka.offsets import (
    offsets_from_json,
    offsets_to_json,
    positions_from_json,
    positions_to_json,
)

# Those that read `BEFORE_PARKING` alone would pass over files that wait, and lose them; those that read up to `FIXED_TOPICS` would
# forget which topics came, and begin again with what was left.
BEFORE_PARKING, FIXED_TOPICS, FORMAT = 1, 2, 3


def to_bytes(value: Mapping[str, Any]) -> bytes:
    """A file of the log, with the oldest version of the format that can tell what it says."""
    so_far = value.get("so_far", ())
    parks = value.get("kind") == "parked" or "parked" in so_far
    found = FORMAT if "topics" in so_far else FIXED_TOPICS if parks else BEFORE_PARKING
    return json.dumps({"format": found, **value}, separators=(",", ":")).encode()


def value_of(data: bytes, path: str) -> dict[str, Any]:
    """What `to_bytes` was given. Raises NewerFormat, naming the path, for a newer one, ValueError for no JSON object."""
    value: dict[str, Any] = dict(json.loads(data))
    found = value.pop("format")
    require_readable(path, found, FORMAT)
    return value


def to_json(entry: Entry) -> dict[str, Any]:
    """An entry as JSON values."""
    name, kind = next((name, kind) for name, kind in _KINDS.items() if isinstance(entry, kind.of))
    return {
        "kind": name,
        "number": entry.number,
        "id": entry.id,
        "at": entry.at,
        "so_far": _standing_to_json(entry.so_far),
        **kind.own(entry),
    }


def from_json(value: Mapping[str, Any]) -> Entry:
    """What `to_json` was given. Raises ValueError, KeyError, TypeError or AttributeError for anything else."""
    kind = _KINDS[value["kind"]]
    return kind.of(
        number=int(value["number"]),
        id=str(value["id"]),
        at=str(value["at"]),
        so_far=_standing_from_json(value["so_far"]),
        **kind.read(value),
    )


class _Kind(NamedTuple):
    """A kind of entry, and what it has beyond every other: as JSON values, and read from them."""

    of: type[Entry]
    own: Callable[[Any], dict[str, Any]]
    read: Callable[[Mapping[str, Any]], dict[str, Any]]


def _batch(batch: Batch) -> dict[str, Any]:
    waits = {"waits": list(batch.waits)} if batch.waits else {}
    return {**_decision(batch), "offsets": offsets_to_json(batch.offsets), **waits}


def _read_batch(value: Mapping[str, Any]) -> dict[str, Any]:
    waits = tuple(map(str, value.get("waits", ())))
    return {"offsets": offsets_from_json(value["offsets"]), "waits": waits, **_read_decision(value)}


def _decision(entry: Decision) -> dict[str, Any]:
    return {"start": entry.start, "decided": dict(entry.decided)}


def _read_decision(value: Mapping[str, Any]) -> dict[str, Any]:
    return {"start": int(value["start"]), "decided": dict(value["decided"])}


_KINDS: Mapping[str, _Kind] = {
    "start": _Kind(
        Start, lambda start: {"by": asdict(start.by)}, lambda value: {"by": Process(**value["by"])}
    ),
    "batch": _Kind(Batch, _batch, _read_batch),
    "rewritten": _Kind(Rewritten, _decision, _read_decision),
    "parked": _Kind(
        Parked,
        lambda entry: {**_decision(entry), "parked": _parked_to_json(entry.parked)},
        lambda value: {**_read_decision(value), "parked": _parked_from_json(value["parked"])},
    ),
    "handed over": _Kind(
        HandedOver, lambda entry: {"to": asdict(entry.to)}, lambda value: {"to": Owner(**value["to"])}
    ),
}


def _standing_to_json(standing: Standing) -> dict[str, Any]:
    parked = _parked_to_json(standing.parked)
    return {
        "settled": standing.settled,
        "last": standing.last,
        "rewritten": list(standing.rewritten),
        "ends": positions_to_json(standing.ends),
        "left": positions_to_json(standing.left),
        **({"parked": parked} if parked else {}),
        **({"topics": dict(standing.topics)} if standing.topics else {}),
        **({"assigned": True} if standing.assigned else {}),
    }


def _standing_from_json(value: Mapping[str, Any]) -> Standing:
    last = value["last"]
    return Standing(
        settled=int(value["settled"]),
        last=None if last is None else int(last),
        rewritten=tuple(map(int, value["rewritten"])),
        ends=positions_from_json(value["ends"]),
        # Earlier versions did not write it.
        left=positions_from_json(value.get("left", {})),
        parked=_parked_from_json(value.get("parked", {})),
        topics={str(name): str(uuid) for name, uuid in value.get("topics", {}).items()},
        assigned=bool(value.get("assigned", False)),
    )


def _parked_to_json(parked: Mapping[str, tuple[int, ...]]) -> dict[str, list[int]]:
    return {folder: list(numbers) for folder, numbers in parked.items()}


def _parked_from_json(value: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {folder: tuple(map(int, numbers)) for folder, numbers in value.items()}
