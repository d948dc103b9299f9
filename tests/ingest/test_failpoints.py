from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from pyspark import TaskContext

from distributary.ingest import failpoints
from distributary.ingest.failpoints import (
    AFTER_MANIFEST,
    AMID_FILE,
    BEFORE_MANIFEST,
    POINTS,
    VARIABLE,
    Failpoint,
    reach,
)


@pytest.fixture(autouse=True)
def unfired(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoints, "_fired", set())
    monkeypatch.delenv(VARIABLE, raising=False)


def test_without_the_variable_nothing_happens() -> None:
    reach(BEFORE_MANIFEST, 0)


def test_a_point_fails_once_a_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"{BEFORE_MANIFEST}=fail")
    reach(AFTER_MANIFEST, 0)
    with pytest.raises(Failpoint, match="before_manifest=fail"):
        reach(BEFORE_MANIFEST, 0)
    reach(BEFORE_MANIFEST, 0)


def test_a_point_can_be_that_of_one_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, f"{AFTER_MANIFEST}:3=fail,{BEFORE_MANIFEST}:4=fail")
    for batch_id in (2, 13, 33):
        reach(AFTER_MANIFEST, batch_id)
    with pytest.raises(Failpoint):
        reach(AFTER_MANIFEST, 3)
    with pytest.raises(Failpoint):
        reach(BEFORE_MANIFEST, 4)


def test_a_task_that_is_repeated_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(VARIABLE, "amid_file=fail")
    for attempt in (1, 2):
        again = SimpleNamespace(attemptNumber=lambda attempt=attempt: attempt)
        monkeypatch.setattr(TaskContext, "get", lambda again=again: again)
        reach(AMID_FILE, 0)
    monkeypatch.setattr(TaskContext, "get", lambda: SimpleNamespace(attemptNumber=lambda: 0))
    with pytest.raises(Failpoint):
        reach(AMID_FILE, 0)


def test_every_point_is_told_on_the_page_that_names_them() -> None:
    page = (Path(__file__).resolve().parents[2] / "docs/how-to/recover.md").read_text(encoding="utf-8")
    assert [point for point in POINTS if f"`{point}`" not in page] == []


def test_kill_ends_the_process_at_once() -> None:
    code = f"import os; os.environ['{VARIABLE}'] = 'before_manifest=kill'\n"
    code += (
        "from distributary.ingest import failpoints; failpoints.reach('before_manifest', 0); print('alive')"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout) == (-signal.SIGKILL, "")
