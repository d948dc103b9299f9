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
        return self._next if ref == self._next.id else self.kept.by_ref(ref, subject)

    def by_refs(self, refs: Iterable[SchemaRef], subject: str | None = None) -> Mapping[SchemaRef, Answer]:
        """What each of these versions came to."""
        wanted = list(refs)
        found = dict(self.kept.by_refs([ref for ref in wanted if ref != self._next.id], subject))
        return {**found, **({self._next.id: self._next} if self._next.id in wanted else {})}

    def versions(self, subject: str, deleted: bool = False) -> Sequence[SubjectVersion]:
        """Those that are kept, and the next. Raises SchemaNotFound for any other subject."""
        if subject != self.subject:
            return self.kept.versions(subject, deleted)
        return [*self._kept_versions(), SubjectVersion(subject, self._next.id, self._next.id)]

    def register(
        self, subject: str, text: str, schema_type: SchemaType, references: Sequence[Reference] = ()
    ) -> int:
        """Raises BadSchema: it is only looked at."""
        raise BadSchema("what will be inferred is only looked at here, and nothing is kept")

    @property
    def _next(self) -> Schema:
        newest = max((version.version for version in self._kept_versions()), default=0)
        return Schema(newest + 1, "STRUCT", self.text)

    def _kept_versions(self) -> Sequence[SubjectVersion]:
        try:
            return self.kept.versions(self.subject)
        except SchemaNotFound:
            return []
