"""What the driver does when a record type brings something new: restart, take it in, stop, or leave it out."""

from __future__ import annotations

from collections.abc import Sequence

from distributary.ingest.pins import PinnedRecord
from distributary.ingest.setting_groups import Policies
from distributary.ingest.settings import Settings


class RestartToEvolve(Exception):
    """The attempt is given up, nothing of it visible, so that the next one starts with the new schemas pinned."""

    def __init__(self, changes: Sequence[str]) -> None:
        super().__init__("; ".join(changes))
        self.changes = tuple(changes)


def tables_grow(settings: Settings) -> bool:
    """Whether known tables get columns that records bring."""
    return settings.decode.evolution != "ignore" and settings.policies.new_field in ("add", "fail")


def tables_widen(settings: Settings) -> bool:
    """Whether columns become wider where a record's type is."""
    return settings.decode.evolution != "ignore" and settings.policies.wider_type == "widen"


def worker_policies(settings: Settings) -> Policies:
    """The policies as workers apply them: with `evolution: ignore` what has no column is rescued."""
    if settings.decode.evolution != "ignore" or settings.policies.new_field != "add":
        return settings.policies
    return settings.policies.model_copy(update={"new_field": "rescue"})


def describe(record: PinnedRecord) -> str:
    """A record type by its schema's reference, and its place in the schema where it is not the first."""
    ref, path = record.key
    whose = "" if record.schema.entity is None else f" of {record.schema.entity}"
    return f"{ref}{whose}" + (f" (message {'.'.join(map(str, path))})" if any(path) else "")
