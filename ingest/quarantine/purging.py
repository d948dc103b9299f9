"""Records deleted from quarantine: those that were brought back, or whichever are chosen. It is kept where they were from, so that nobody misses them."""

from __future__ import annotations

import math
import uuid
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta, timezone
from itertools import count
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake.exceptions import DeltaError

from distributary.errors import ConfigError, PipelineError
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.erasure.file_anew import Mask
from distributary.ingest.erasure.quarantined import TOLD
from distributary.ingest.erasure.record import PURGED, Gone, keep
from distributary.ingest.erasure.rewriting import Rows, without_rows
from distributary.ingest.lease.upkeep_lock import upkeep_under_way
from distributary.ingest.quarantine.chosen import LOOKED_AT, Chosen
from distributary.ingest.quarantine.resolved import IDENTITY
from distributary.ingest.quarantine.rows import identities, is_of, resolved_identities
from distributary.ingest.quarantine.whose import whose_are
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.opening import tables_at
from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA
from distributary.ingest.tables.log import has_log
from distributary.values import without_logins

MOST_DAYS = 36_500
"""A hundred years: beyond some thousand there is no such time."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What is to go.

    chosen           of which records
    open_too         whether also such that were not brought back
    older_than_days  only those that are older, by their time in Kafka; None: of any age
    dry_run          whether to change nothing
    """

    chosen: Chosen = field(default_factory=Chosen)
    open_too: bool = False
    older_than_days: float | None = None
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class Purged:
    """What became of a pipeline's records in quarantine.

    rows     that went, or would
    files    that had any, written anew
    version  by which they went; None where none did
    left     why nothing was done; empty where there is no such reason
    """

    pipeline: str
    dry_run: bool
    rows: int = 0
    files: int = 0
    version: int | None = None
    left: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return asdict(self)

    def check(self) -> None:
        """Raises PipelineError where something should have been done and was not."""
        if self.left:
            raise PipelineError(f"nothing was deleted from {QUARANTINE_TABLE}: {self.left}")


def purge(settings: Settings, wish: Wish) -> Purged:
    """Delete records from quarantine; runs may go on meanwhile.

    Upkeep deletes what had them once it is old enough, and where they were from is kept under `.distributary/erasures`, without anything that
    they said. Raises ConfigError where all that is open would go and for days that are none, and PipelineError where nothing can be read or written.
    """
    days = wish.older_than_days
    if days is not None and not (math.isfinite(days) and 0 <= days <= MOST_DAYS):
        raise ConfigError("write how old records have to be, at the least, in days, such as 30")
    if wish.open_too and wish.chosen.is_all and wish.older_than_days is None:
        raise ConfigError(
            "that would delete all records in quarantine, those that wait for a replay too: say which, such as by --reason, --topic or --older-than"
        )
    root = tables_at(settings.sink.root, settings.storage)
    place = root.below(QUARANTINE_TABLE)
    none = Purged(settings.name, wish.dry_run)
    if not has_log(place):
        return none
    whose = whose_are(settings, root)
    mine = _Mine(whose, _aged(wish), None if wish.open_too else resolved_identities(root, whose))
    now, this = datetime.now(timezone.utc), uuid.uuid4().hex
    name = f"{now.strftime('%Y%m%dT%H%M%SZ')}-{this}"

    numbers = count()

    def told(rows: pa.Table) -> None:
        what = {**whose.said, "id": this, "table": QUARANTINE_TABLE, PURGED: True}
        keep(root, f"{name}-{next(numbers):05}", {**what, "gone": Gone(Gone.of(rows).parts).to_json()})

    try:
        with nullcontext() if wish.dry_run else upkeep_under_way(root):
            done = without_rows(place, mine.rows(told), this, dry_run=wish.dry_run)
    except (DeltaError, OSError, ValueError) as error:
        raise PipelineError(
            f"table {place}: {without_logins(str(error))}; nothing was deleted, say it again"
        ) from error
    return replace(none, rows=done.rows, files=done.files, version=done.version, left=done.left)


def _aged(wish: Wish) -> Chosen:
    """What is chosen, as old as is wished."""
    if wish.older_than_days is None:
        return wish.chosen
    until = datetime.now(timezone.utc) - timedelta(days=wish.older_than_days)
    known = wish.chosen.until
    return replace(wish.chosen, until=until if known is None else min(known, until))


@dataclass(frozen=True, slots=True)
class _Mine:
    """Which rows go: a pipeline's that are chosen, and stand in `resolved`, where that is asked."""

    whose: Whose
    chosen: Chosen
    resolved: pa.Array | None

    def rows(self, told: Callable[[pa.Table], None]) -> Rows:
        """As a table's rows; `told` is told where those were from that are about to go."""
        return Rows(frozenset({*IDENTITY, *LOOKED_AT, "pipeline"}), self._met, TOLD, told)

    def _met(self, batch: pa.RecordBatch) -> Mask:
        rows = _whole(batch)
        found = pc.and_(is_of(rows, self.whose), self.chosen.of(rows))
        if self.resolved is not None:
            found = pc.and_(found, pc.is_in(identities(rows), self.resolved))
        return np.asarray(found, dtype=bool)


def _whole(batch: pa.RecordBatch) -> pa.Table:
    """With the columns that a quarantine of an earlier version lacks."""
    names = [*IDENTITY, *LOOKED_AT, "pipeline"]
    columns = {
        name: batch.column(name)
        if name in batch.schema.names
        else pa.nulls(batch.num_rows, QUARANTINE_SCHEMA.field(name).type)
        for name in dict.fromkeys(names)
    }
    return pa.table(columns)
