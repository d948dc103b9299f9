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
# forget which topics came, and begin again with what was left; those up to `TOPICS_IN_EACH` would not know where those stand.
BEFORE_PARKING, FIXED_TOPICS, TOPICS_IN_EACH, FORMAT = 1, 2, 3, 4

# A topic for each hour makes thousands of a year, and what each batch says of them a megabyte: of more than so many a start says it alone.
# One that is read again stays among those that were read, so a log never has fewer: else programs that know no newer format would go on with it.
_MANY_TOPICS = 100

_BEGUN = "begun"
"""In the place of those topics: that the start says it whose run it is; and in what closes a log what the start said, if that goes."""


def to_bytes(value: Mapping[str, Any]) -> bytes:
    """A file of the log, with the oldest version of the format that can tell what it says."""
    so_far = value.get("so_far", {})
    parks = value.get("kind") == "parked" or "parked" in so_far
    found = TOPICS_IN_EACH if "topics" in so_far else FIXED_TOPICS if parks else BEFORE_PARKING
    if _BEGUN in value or _BEGUN in so_far or _are_many(so_far):
        found = FORMAT
    return json.dumps({"format": found, **value}, separators=(",", ":")).encode()


def value_of(data: bytes, path: str) -> dict[str, Any]:
    """What `to_bytes` was given. Raises NewerFormat, naming the path, for a newer one, ValueError for no JSON object."""
    value: dict[str, Any] = dict(json.loads(data))
    found = value.pop("format")
    require_readable(path, found, FORMAT)
    return value


def to_json(entry: Entry, begun: Standing | None = None) -> dict[str, Any]:
    """An entry as JSON values; `begun` is how its start found the log: what that says of many topics, the entry does not say again."""
    name, kind = next((name, kind) for name, kind in _KINDS.items() if isinstance(entry, kind.of))
    return {
        "kind": name,
        "number": entry.number,
        "id": entry.id,
        "at": entry.at,
        "so_far": _standing_to_json(entry.so_far, begun),
        **kind.own(entry),
    }


def start_of(value: Mapping[str, Any]) -> int | None:
    """The number of the start that says in an entry's place which topics were read and left; None of one that says it itself."""
    return int(value["start"]) if _BEGUN in value["so_far"] else None


def from_json(value: Mapping[str, Any], begun: Standing | None = None) -> Entry:
    """What `to_json` was given. Raises ValueError, KeyError, TypeError or AttributeError for anything else."""
    kind = _KINDS[value["kind"]]
    return kind.of(
        number=int(value["number"]),
        id=str(value["id"]),
        at=str(value["at"]),
        so_far=_standing_from_json(value["so_far"], begun),
        **kind.read(value),
    )


def begun_to_json(start: int, so_far: Standing) -> dict[str, Any]:
    """What stays of a start whose entry goes, for the entries behind it; nothing where they say it themselves."""
    told = {"start": start, **_topics_to_json(so_far)}
    # An earlier version counted one that is left and came once as two, and its entries may be behind this start.
    count = len(so_far.left) + len(so_far.topics)
    return {_BEGUN: told} if count > _MANY_TOPICS else {}


def begun_from_json(value: Mapping[str, Any], start: int) -> Standing | None:
    """What `begun_to_json` was given, as far as it tells it; None where it is not about this start."""
    told = value.get(_BEGUN)
    return None if told is None or int(told["start"]) != start else _topics_from_json(told)


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


def _standing_to_json(standing: Standing, begun: Standing | None) -> dict[str, Any]:
    parked, said = _parked_to_json(standing.parked), begun is not None and _is_said(standing, begun)
    return {
        "settled": standing.settled,
        "last": standing.last,
        "rewritten": list(standing.rewritten),
        "ends": positions_to_json(standing.ends),
        **({_BEGUN: True} if said else _topics_to_json(standing)),
        **({"parked": parked} if parked else {}),
        **({"assigned": True} if standing.assigned else {}),
    }


def _is_said(standing: Standing, begun: Standing) -> bool:
    """Whether a start says of which topics were read and left what an entry would say again, and that is much."""
    many = len(standing.left.keys() | standing.topics.keys()) > _MANY_TOPICS
    return many and (standing.left, standing.topics) == (begun.left, begun.topics)


def _topics_to_json(standing: Standing) -> dict[str, Any]:
    topics = {"topics": dict(standing.topics)} if standing.topics else {}
    return {"left": positions_to_json(standing.left), **topics}


def _topics_from_json(told: Mapping[str, Any]) -> Standing:
    topics = {str(name): str(uuid) for name, uuid in told.get("topics", {}).items()}
    # Earlier versions did not write what was left.
    return Standing(left=positions_from_json(told.get("left", {})), topics=topics)


def _are_many(told: Mapping[str, Any]) -> bool:
    return len({*told.get("left", ()), *told.get("topics", ())}) > _MANY_TOPICS


def _standing_from_json(value: Mapping[str, Any], begun: Standing | None) -> Standing:
    last, told = value["last"], begun if _BEGUN in value else _topics_from_json(value)
    if told is None:
        raise ValueError("what its start says is not known")
    return Standing(
        settled=int(value["settled"]),
        last=None if last is None else int(last),
        rewritten=tuple(map(int, value["rewritten"])),
        ends=positions_from_json(value["ends"]),
        left=told.left,
        parked=_parked_from_json(value.get("parked", {})),
        topics=told.topics,
        assigned=bool(value.get("assigned", False)),
    )


def _parked_to_json(parked: Mapping[str, tuple[int, ...]]) -> dict[str, list[int]]:
    return {folder: list(numbers) for folder, numbers in parked.items()}


def _parked_from_json(value: Mapping[str, Any]) -> dict[str, tuple[int, ...]]:
    return {folder: tuple(map(int, numbers)) for folder, numbers in value.items()}
