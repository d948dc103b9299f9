"""A run that stands still while another one takes over: woken, it decides nothing, and every record is in its table once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit

from distributary.ingest.checkpoint.folder import GENERATION, LEASE
from distributary.ingest.checkpoint.manifest_json import to_json

pytestmark = [pytest.mark.spark, pytest.mark.stack]


@contextmanager
def stopped(kit: PipelineKit, failpoint: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    """A run in a process of its own, with these variables, that has stopped itself there, and holds no lease that anybody sees."""
    command, environment = kit.command("--available-now"), kit.environment(f"{failpoint}=stop")
    run = subprocess.Popen(
        command, env={**environment, **variables}, cwd=kit.folder, stderr=subprocess.PIPE, text=True
    )
    with run:
        try:
            _, status = os.waitpid(run.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status), "it did not come to where it is to stop"
            if not kit.checkpoint.files.remote:
                # As where locks do not reach: on another machine, or in an object store.
                shutil.rmtree(kit.checkpoint_folder / LEASE)
            yield run
        finally:
            run.kill()


# `make test` has a run that wakes in test_owners.py; what wakes in tests/ingest/commit_log/test_paused.py is a log alone.
@pytest.mark.heavy
@pytest.mark.parametrize("point", ["before_manifest", "after_manifest", "between_commits"])
def test_a_run_that_wakes_after_another_took_over_stops_and_nothing_is_lost_or_twice(
    kit: PipelineKit, point: str
) -> None:
    kit.configured(limits={"commit_threads": 1, "batch_rows": 200})
    kit.simulate(events=600, corrupt=0.05)
    with stopped(kit, f"{point}:1") as zombie:
        kit.run()
        kit.assert_clean()
        versions = kit.versions()
        os.kill(zombie.pid, signal.SIGCONT)
        _, said = zombie.communicate(timeout=PATIENCE_SECONDS)
    assert zombie.returncode == 1, said
    assert "another run (pid" in said and "it ends here, and nothing is lost or twice" in said
    assert "Traceback" not in said
    assert kit.versions() == versions
    kit.assert_clean()
    kit.simulate(events=200)
    kit.run()
    kit.assert_clean()
    assert kit.unnamed_files() == set()


# Python imports a module of this name as it begins, in the driver and in its workers.
CLOCK_BACK = """
import importlib.machinery
import sys
import time
from datetime import datetime, timedelta

BACK, right = timedelta(hours=1), time.time
time.time = lambda: right() - BACK.total_seconds()
time.time_ns = lambda: int(time.time() * 1_000_000_000)


class Likewise(type):
    def __instancecheck__(cls, one):
        return isinstance(one, datetime)


class Wrong(datetime, metaclass=Likewise):
    def __new__(cls, *given, **named):
        return datetime(*given, **named)

    @classmethod
    def now(cls, tz=None):
        return datetime.now(tz) - BACK


class Finder:
    # Whoever asks for the date by this name, of all that the pipeline is made of: in the standard library it cannot be replaced.
    @staticmethod
    def find_spec(name, path, target=None):
        if not name.startswith("distributary.ingest."):
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.origin is not None:
            run = spec.loader.exec_module

            def exec_module(module):
                run(module)
                if vars(module).get("datetime") is datetime:
                    module.datetime = Wrong

            spec.loader.exec_module = exec_module
        return spec


sys.meta_path.insert(0, Finder)
"""


# Both kinds of wrong clock, at more places, are in tests/ingest/batch/test_standing_still.py.
@pytest.mark.heavy
@pytest.mark.parametrize("point", ["before_manifest", "between_commits"])
def test_a_run_whose_clock_is_an_hour_back_takes_over_from_one_that_stood_still(
    kit: PipelineKit, point: str
) -> None:
    kit.configured(limits={"commit_threads": 1, "batch_rows": 200})
    kit.simulate(events=600, corrupt=0.05)
    (kit.folder / "clock").mkdir()
    (kit.folder / "clock" / "sitecustomize.py").write_text(CLOCK_BACK)
    with stopped(kit, f"{point}:1") as zombie:
        before = kit.checkpoint.log.state().newest
        done = kit.run_apart(PYTHONPATH=str(kit.folder / "clock"))
        assert done.returncode == 0, done.stderr
        after = kit.checkpoint.log.state().newest
        assert before is not None and after is not None
        assert after.number > before.number and after.at < before.at
        kit.assert_clean()
        versions = kit.versions()
        os.kill(zombie.pid, signal.SIGCONT)
        _, said = zombie.communicate(timeout=PATIENCE_SECONDS)
    assert zombie.returncode == 1, said
    assert "another run (pid" in said and "it ends here, and nothing is lost or twice" in said
    assert "Traceback" not in said
    assert kit.versions() == versions
    # Its clock is right, so it comes an hour after the one before.
    kit.simulate(events=200)
    kit.run()
    kit.assert_clean()
    assert kit.unnamed_files() == set()


def to_old_layout(kit: PipelineKit) -> None:
    """The checkpoint as versions before the log would have left it, but for Spark's own files, which nobody reads any more."""
    manifest = kit.manifests.last()
    assert manifest is not None
    folder = kit.checkpoint_folder
    for name in ("log", "closed"):
        shutil.rmtree(folder / name, ignore_errors=True)
    manifests = folder / "manifests"
    manifests.mkdir()
    (manifests / f"{manifest.batch_id}.json").write_text(json.dumps(to_json(manifest)))
    generation = kit.checkpoint_folder / GENERATION
    generation.write_text(json.dumps({**json.loads(generation.read_text()), "format": 1}))


# How it is read, and closed, is in tests/ingest/checkpoint/test_old_layout.py.
@pytest.mark.heavy
@pytest.mark.checkpoint_folder
@pytest.mark.parametrize("point", ["", "between_commits"])
def test_a_checkpoint_of_the_layout_before_the_log_goes_on(kit: PipelineKit, point: str) -> None:
    kit.configured(limits={"commit_threads": 1})
    kit.simulate(corrupt=0.05)
    if point:
        assert kit.run_apart(f"{point}=kill").returncode == -signal.SIGKILL
    else:
        kit.run()
    to_old_layout(kit)
    kit.simulate(2, games=4, corrupt=0.05)
    kit.run()
    kit.assert_clean()
    assert kit.unnamed_files() == set()
    assert sorted(row["batch_id"] for row in kit.rows("ledger_batches").to_pylist()) == [1, 3]
    # Closed to the programs of that time: the next manifest that they would write is there, in a format that they refuse.
    blocking = json.loads((kit.checkpoint_folder / "manifests" / "2.json").read_text())
    assert blocking["format"] == 2
