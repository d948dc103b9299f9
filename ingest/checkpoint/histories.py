"""Which record types each table has met, in the order in which it met them: what the manifests remember of schemas."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from typing import Any

from distributary.ingest.pins import Coordinates, PinnedRecord, RecordKey, by_age
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


def carried_on(
    known: Histories, met: Met, tables: Container[str], records: Iterable[PinnedRecord] = ()
) -> dict[str, History]:
    """The histories with what was met since; only of these tables.

    Of the versions of an inferred schema, which `records` tell, a table that meets another one keeps the last that it had met: no record
    comes with those before it any more.
    """
    inferred = {record.key: record.schema.entity for record in records if record.schema.inferred}
    histories = {folder: history for folder, history in known.items() if folder in tables}
    # A thousand tables share a few histories.
    shared: dict[History, History] = {}
    for folder, new in newly_met(met, known).items():
        if folder in tables:
            before = _with_last_inferred(histories.get(folder, ()), inferred)
            history = (*before, *(key for key, _ in new))
            histories[folder] = shared.setdefault(history, history)
    return histories


def _with_last_inferred(history: History, inferred: Mapping[RecordKey, str | None]) -> History:
    last = {inferred[key]: key for key in history if key in inferred}
    return tuple(key for key in history if key not in inferred or last[inferred[key]] == key)


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
