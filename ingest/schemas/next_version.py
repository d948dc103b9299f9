"""Inferred schemas as they will be: those that are kept, and behind them one that nobody has kept yet."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from distributary.errors import BadSchema, SchemaNotFound
from distributary.registry.base import (
    Answer,
    Reference,
    Schema,
    SchemaRef,
    SchemaRegistry,
    SchemaType,
    SubjectVersion,
)


@dataclass(frozen=True, slots=True)
class WithNext:
    """A place of inferred schemas whose newest version is one that only `text` has, a StructType's JSON. Nothing is written."""

    kept: SchemaRegistry
    subject: str
    text: str

    def by_ref(self, ref: SchemaRef, subject: str | None = None) -> Schema:
        """The schema of this version. Raises SchemaNotFound."""
        own = self._next
        return own if ref == own.id else self.kept.by_ref(ref, subject)

    def by_refs(self, refs: Iterable[SchemaRef], subject: str | None = None) -> Mapping[SchemaRef, Answer]:
        """What each of these versions came to."""
        wanted, own = list(refs), self._next
        found = dict(self.kept.by_refs([ref for ref in wanted if ref != own.id], subject))
        return {**found, **({own.id: own} if own.id in wanted else {})}

    def versions(self, subject: str, deleted: bool = False) -> Sequence[SubjectVersion]:
        """Those that are kept, and the next. Raises SchemaNotFound for any other subject."""
        if subject != self.subject:
            return self.kept.versions(subject, deleted)
        kept = self._kept_versions()
        own = self._behind(kept)
        return [*kept, SubjectVersion(subject, own.id, own.id)]

    def register(
        self, subject: str, text: str, schema_type: SchemaType, references: Sequence[Reference] = ()
    ) -> int:
        """Raises BadSchema: it is only looked at."""
        raise BadSchema("what will be inferred is only looked at here, and nothing is kept")

    @property
    def _next(self) -> Schema:
        return self._behind(self._kept_versions())

    def _behind(self, kept: Sequence[SubjectVersion]) -> Schema:
        newest = max((version.version for version in kept), default=0)
        return Schema(newest + 1, "STRUCT", self.text)

    def _kept_versions(self) -> Sequence[SubjectVersion]:
        try:
            return self.kept.versions(self.subject)
        except SchemaNotFound:
            return []
