"""Drivers whose clock is wrong, as that of another machine may be."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, tzinfo

import pytest

from distributary.ingest.batch import attempt, decide
from distributary.ingest.checkpoint import change_log
from distributary.ingest.commit_log import writing
from distributary.ingest.evolution import change_rows

HOUR = 3600.0

# Whatever asks for the date on the driver's way from a start to a batch in its tables.
_ASKING = (writing, decide, attempt, change_log, change_rows)


@contextmanager
def clock_off(seconds: float) -> Iterator[None]:
    """Within the block this process's clock is ahead by so many seconds; one that is behind by fewer than none."""
    right, behind = time.time, timedelta(seconds=seconds)

    class Wrong(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + behind

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(time, "time", lambda: right() + seconds)
        for module in _ASKING:
            patch.setattr(module, "datetime", Wrong)
        yield
