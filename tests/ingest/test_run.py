"""What a run says before it has begun."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.pipelines import settings

from distributary.ingest import run
from distributary.ingest.interruptible import Stopped
from distributary.ingest.lease.folder_lock import FolderLock
from distributary.ingest.progress import Silent


class Hearing(Silent):
    """Keeps what is told."""

    def __init__(self) -> None:
        self.told, self.heard = list[str](), threading.Event()

    def waiting(self, reason: str, seconds: float) -> None:
        """Nothing goes on."""
        self.told.append(reason)
        self.heard.set()


@pytest.mark.parametrize(
    ("root", "told"),
    [
        (
            "s3://lake/games",
            [
                "not begun yet: if what is at s3://lake/games does not answer, it is asked again for 60 s (storage.http.retry_seconds)"
            ],
        ),
        ("lake", []),
    ],
)
def test_stores_that_a_run_waits_for_before_it_begins_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, root: str, told: list[str]
) -> None:
    watch = Hearing()

    @contextmanager
    def silent(*_: Any) -> Iterator[None]:
        watch.heard.wait(5.0 if told else 0.2)
        raise Stopped
        yield

    monkeypatch.setattr(run, "open_source", silent)
    monkeypatch.setattr(run, "_LATE_SECONDS", 0.05)
    session: Any = None
    given = settings(tmp_path, sink={"root": root})
    run.run_in(session, FolderLock(tmp_path / "lease"), given, watch, threading.Event())
    assert watch.told == told
