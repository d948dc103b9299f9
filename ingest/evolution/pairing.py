"""Which schemas are for which tables: those that a table's records have come with, and those they will come with."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from distributary.ingest.checkpoint.histories import Histories, History
from distributary.ingest.evolution.candidates import Candidate, Candidates
from distributary.ingest.evolution.transitions import Transitions, same_name
from distributary.ingest.pins import PinnedRecord, PinnedTable, RecordKey
from distributary.ingest.schemas.inferred_per_entity import entity_name
from distributary.registry.base import Schema


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of the past: tables as they are, what each met, and the schemas that were pinned.

    unread  tables that cannot be looked at without Spark, and why
    """

    tables: Mapping[str, PinnedTable]
    met: Histories
    schemas: Mapping[RecordKey, Schema]
    unread: Mapping[str, str] = field(default_factory=dict)

    def records(self) -> list[PinnedRecord]:
        """The record types that were pinned."""
        return [PinnedRecord(key, schema) for key, schema in self.schemas.items()]


class Pairing:
    """Pairs tables with schemas, by what each table has met and by the entity it is for."""

    def __init__(
        self, candidates: Candidates, known: Known, transitions: Transitions, fold_case: bool
    ) -> None:
        self._candidates, self._known, self._transitions = candidates, known, transitions
        self._fold_case = fold_case

    def history(self, folder: str) -> History:
        """The record types that a table met, of those that are known."""
        return tuple(key for key in self._known.met.get(folder, ()) if self._transitions.knows(key))

    def own(self, table: PinnedTable) -> str | None:
        """What schemas of this table's entity alone say that they are for; None where there is no such schema."""
        name = entity_name(table.entity, self._fold_case)
        return name if name in self._candidates.of_entities else None

    def successors(self, history: History, own: str | None) -> Iterator[tuple[PinnedRecord, Candidate]]:
        """What a table with this history met last, type by type, and the schema that is the newest state of it."""
        for last in self._last_of_each_type(history):
            before = PinnedRecord(last, self._known.schemas[last])
            candidate = self._candidates.successor(before)
            if own is not None and before.schema.inferred:
                candidate = self._candidates.of_entities[own]
            if candidate is not None:
                yield before, candidate

    def may_come(self, own: str | None) -> list[Candidate]:
        """The schemas that records of a table may come with of which nobody knows what it met."""
        return [one for one in self._candidates.newest if one.schema.entity in (None, own)]

    def tables_for(self, candidate: Candidate) -> dict[str, History]:
        """The tables that met anything and may get records of this schema, each with what it met."""
        return {
            folder: history
            for folder, table in sorted(self._known.tables.items())
            if self._is_for(candidate, table) and (history := self.history(folder))
        }

    def met_as(self, candidate: Candidate, history: History) -> PinnedRecord | None:
        """The last in a history that has the name of the candidate's record type, whatever came after it."""
        for key in reversed(history):
            schema = self._known.schemas[key]
            if schema.entity != candidate.schema.entity:
                continue
            was = self._candidates.description(key, schema)
            now = self._candidates.description((candidate.ref, key[1]), candidate.schema)
            if was and now and same_name(was, now):
                return PinnedRecord(key, schema)
        return None

    def _is_for(self, candidate: Candidate, table: PinnedTable) -> bool:
        """Whether a table may get records of this schema: those without one come by that of their entity, if it has one."""
        own, schema = self.own(table), candidate.schema
        return schema.entity == own if schema.inferred else schema.entity in (None, own)

    def _last_of_each_type(self, history: History) -> list[RecordKey]:
        lasts: list[RecordKey] = []
        for key in reversed(history):
            if all(self._transitions.before(last, (key,)) is None for last in lasts):
                lasts.append(key)
        return lasts
