"""What a run says before it has begun."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.pipelines import settings

from distributary.ingest import run
from distributary.ingest.interruptible import Stopped
from distributary.ingest.lease.folder_lock import FolderLock
from distributary.ingest.progress import Silent, Summary
from distributary.ingest.storage.place import Place
from distributary.producer_sim.stack.ports import LOOPBACK


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

    def silent(*_: Any) -> None:
        watch.heard.wait(5.0 if told else 0.2)
        raise Stopped

    monkeypatch.setattr(run, "require_answers", silent)
    monkeypatch.setattr(run, "_LATE_SECONDS", 0.05)
    session: Any = None
    given = settings(tmp_path, sink={"root": root})
    run.run_in(session, FolderLock(tmp_path / "lease"), given, watch, threading.Event())
    assert watch.told == told


@pytest.mark.parametrize("at", ["root", "checkpoint", "schemas"])
def test_a_run_that_is_told_to_stop_while_a_store_is_silent_does_not_wait_for_it(
    tmp_path: Path, at: str
) -> None:
    """Ctrl-C waited for the end of the request, for a minute and more: the thread that would have seen it was in the store's client."""
    stop = threading.Event()
    with socket.create_server((LOOPBACK, 0), backlog=20) as silent:
        endpoint = f"http://{LOOPBACK}:{silent.getsockname()[1]}"
        login = {"access_key_id": "anybody", "secret_access_key": "anything"}
        places = {
            "root": str(tmp_path / "lake"),
            "checkpoint": str(tmp_path / "checkpoint"),
            "schemas": str(tmp_path),
        }
        places[at] = "s3://lake/games"
        given = settings(
            tmp_path,
            sink={"root": places["root"]},
            decode={"format": "json", "schema_location": places["schemas"]},
            storage={
                "s3": {"endpoint": endpoint, "region": "us-east-1", "login": login},
                "http": {"timeout_seconds": 30, "retry_seconds": 0},
            },
        ).model_copy(update={"checkpoint": Place.parse(places["checkpoint"])})
        told = threading.Timer(0.1, stop.set)
        told.start()
        began = time.monotonic()
        session: Any = None
        outcome = run.run_in(session, FolderLock(tmp_path / "lease"), given, Silent(), stop)
        assert time.monotonic() - began < given.storage.http.timeout_seconds / 2
        told.join()
    assert outcome.summary == Summary()
