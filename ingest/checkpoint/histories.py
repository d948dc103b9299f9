"""Which record types each table has met, in the order in which it met them: what the manifests remember of schemas."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from distributary.ingest.pins import Coordinates, RecordKey, by_age
from distributary.registry.base import schema_ref

# The newest last.
History = tuple[RecordKey, ...]

Histories = Mapping[str, History]

# Per record type, the folders of tables that met it, and the first record of it that was on its way there.
Met = Mapping[RecordKey, Mapping[str, Coordinates]]


def newly_met(met: Met, known: Histories) -> dict[str, list[tuple[RecordKey, Coordinates]]]:
    """Per table the record types it had not met before, in the order in which they were registered."""
    found: dict[str, list[tuple[RecordKey, Coordinates]]] = {}
    for key in sorted(met, key=by_age):
        for folder, first in met[key].items():
            if key not in known.get(folder, ()):
                found.setdefault(folder, []).append((key, first))
    return found


def carried_on(known: Histories, met: Met, tables: Container[str]) -> dict[str, History]:
    """The histories with what was met since; only of these tables."""
    histories = {folder: history for folder, history in known.items() if folder in tables}
    # A thousand tables share a few histories.
    shared: dict[History, History] = {}
    for folder, new in newly_met(met, known).items():
        if folder in tables:
            history = (*histories.get(folder, ()), *(key for key, _ in new))
            histories[folder] = shared.setdefault(history, history)
    return histories


def join_met(into: dict[RecordKey, dict[str, Coordinates]], more: Met) -> None:
    """Take in what another task met."""
    for key, folders in more.items():
        mine = into.setdefault(key, {})
        for folder, first in folders.items():
            mine[folder] = min(first, mine.get(folder, first))


def to_json(histories: Histories) -> dict[str, Any]:
    """Histories as plain JSON values, each kept once, however many tables share it."""
    numbers: dict[History, int] = {}
    tables = {folder: numbers.setdefault(history, len(numbers)) for folder, history in histories.items()}
    return {
        "histories": [[[ref, list(path)] for ref, path in history] for history in numbers],
        "tables": tables,
    }


def from_json(value: Mapping[str, Any] | None) -> dict[str, History]:
    """The other way round. None, as manifests of earlier versions have it: nothing is known of any table."""
    if value is None:
        return {}
    histories = [
        tuple((schema_ref(ref), tuple(path)) for ref, path in history) for history in value["histories"]
    ]
    return {folder: histories[number] for folder, number in value["tables"].items()}
