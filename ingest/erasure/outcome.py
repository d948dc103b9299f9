"""What became of rows that were to be erased: by table, and of all of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any

import pyarrow as pa

from distributary.errors import ConfigError, PipelineError
from distributary.ingest.columns.safe_names import fold


@dataclass(frozen=True, slots=True)
class TableErasure:
    """What became of a table's rows.

    table     its folder under `sink.root`
    rows      that went, or would
    hidden    of these how many were marked as gone before, so that no reader saw them
    files     that had any, written anew
    version   by which they went; None where none did
    final_at  from when on upkeep deletes the files that had them; None where it has nothing to delete
    left      what was not done, and why
    failed    why something that should have been done was not; None where all went well
    lacks     columns and fields that the condition names and it has not, so that none of its rows went; None where what goes is told otherwise
    """

    table: str
    rows: int = 0
    hidden: int = 0
    files: int = 0
    version: int | None = None
    final_at: datetime | None = None
    left: tuple[str, ...] = ()
    failed: str | None = None
    lacks: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Erasure:
    """What became of a pipeline's rows.

    id         of this erasure, which the commits of tables have
    where      what `digest` makes of the condition, which may name somebody
    tables     in order
    record     where it is kept that this was done; None where nothing was, or that could not be written
    undecided  how many batches may yet bring such rows, as they wait for a parked table; one that is under way is not told
    """

    pipeline: str
    id: str
    where: str
    dry_run: bool
    at: datetime
    tables: tuple[TableErasure, ...] = field(default_factory=tuple)
    record: str | None = None
    undecided: int = 0

    @property
    def name(self) -> str:
        """Of what is kept of it, in order of time."""
        return f"{self.at.strftime('%Y%m%dT%H%M%SZ')}-{self.id}"

    @property
    def rows(self) -> int:
        """That went, or would."""
        return sum(one.rows for one in self.tables)

    @property
    def final_at(self) -> datetime | None:
        """From when on upkeep has nothing of them left to delete."""
        return max((one.final_at for one in self.tables if one.final_at is not None), default=None)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        found: dict[str, Any] = json.loads(json.dumps(asdict(self), default=lambda at: at.isoformat()))
        final = self.final_at
        return {**found, "rows": self.rows, "final_at": None if final is None else final.isoformat()}

    def check(self) -> None:
        """Raises PipelineError where a table's failed, and ConfigError where the condition was held against none, as with a misspelt column."""
        failed = [f"{one.table}: {one.failed}" for one in self.tables if one.failed is not None]
        if failed:
            raise PipelineError(
                f"rows of {len(failed)} of {len(self.tables)} tables were not erased; say it again once that is mended: {'; '.join(failed)}"
            )
        lacking = [set(one.lacks) for one in self.tables if one.lacks is not None]
        if lacking and all(lacking):
            nowhere = set.intersection(*lacking)
            why = (
                f"no table has {', '.join(sorted(nowhere))}, which --where names"
                if nowhere
                else "each table lacks a column that --where names"
            )
            raise ConfigError(
                f"{why}: none of their rows went by it; correct it, or name what is meant by --table, such as quarantine"
            )


def together(found: Sequence[TableErasure]) -> tuple[TableErasure, ...]:
    """One for each table, of all that became of it."""
    tables: dict[str, TableErasure] = {}
    for one in found:
        before = tables.get(one.table, TableErasure(one.table))
        tables[one.table] = replace(
            one,
            rows=before.rows + one.rows,
            hidden=before.hidden + one.hidden,
            files=before.files + one.files,
            version=max((each for each in (before.version, one.version) if each is not None), default=None),
            final_at=max(
                (each for each in (before.final_at, one.final_at) if each is not None), default=None
            ),
            left=(*before.left, *one.left),
            failed=before.failed or one.failed,
            lacks=one.lacks if before.lacks is None else before.lacks,
        )
    return tuple(tables.values())


def fields_missing(layout: pa.Schema, paths: Iterable[Sequence[str]]) -> list[str]:
    """Those of some paths into columns, dotted, that a table has the columns of and not the fields."""
    return sorted({".".join(path) for path in paths if _is_missing(layout, path)})


def _is_missing(layout: pa.Schema, path: Sequence[str]) -> bool:
    inside: Iterable[pa.Field] = layout
    for depth, name in enumerate(path):
        found = next((one for one in inside if fold(one.name) == fold(name)), None)
        if found is None:
            return depth > 0
        if not pa.types.is_struct(found.type):
            return False
        inside = found.type
    return False
