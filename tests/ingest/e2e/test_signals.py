"""The command line's run, asked to end by the system."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable

import pytest
from pyspark.sql import SparkSession
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit

from distributary import cli
from distributary.ingest.kafka.cluster import TIMEOUT_SECONDS
from distributary.ingest.run import run
from distributary.producer_sim.stack.ports import LOOPBACK, free_port

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def to_the_run(process: int) -> None:
    os.kill(process, signal.SIGTERM)


def to_all_its_processes(process: int) -> None:
    os.killpg(process, signal.SIGTERM)


# A JVM each; lighter: test_a_command_that_is_told_to_end_does_so_in_good_order, and a run that is killed in test_crashes.py.
@pytest.mark.heavy
@pytest.mark.parametrize("send", [to_the_run, to_all_its_processes])
def test_sigterm_ends_a_run_in_good_order_and_the_next_one_goes_on(
    send: Callable[[int], None], kit: PipelineKit
) -> None:
    kit.configured(trigger={"available_now": False}, limits={"batch_rows": 100})
    kit.simulate(events=600)
    run = subprocess.Popen(
        kit.command(),
        env=kit.environment(),
        cwd=kit.folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    said: list[str] = []
    # A run that says nothing would keep the test waiting for its next line.
    watchdog = threading.Timer(PATIENCE_SECONDS, run.kill)
    watchdog.start()
    with run:
        try:
            for line in run.stderr or ():
                said.append(line)
                if "batch 2:" in line:
                    send(run.pid)
            run.wait(PATIENCE_SECONDS)
        finally:
            watchdog.cancel()
            run.kill()
    assert run.returncode == 128 + signal.SIGTERM, "".join(said)
    whole = "".join(said)
    assert "finished:" in whole
    assert "0 failures" in whole
    assert "stopped by SIGTERM" in whole
    assert "Traceback" not in whole
    assert kit.manifests.last_batch() is not None
    assert kit.unnamed_files() == set()

    kit.configured(trigger={"available_now": True})
    outcome = kit.run()
    assert outcome.summary.failures == 0
    assert outcome.summary.rows < kit.truth.records
    kit.assert_clean()


def test_a_command_that_is_told_to_end_does_so_in_good_order(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    # It is of all tests.
    monkeypatch.setattr(SparkSession, "stop", lambda _: None)
    kit.configured(trigger={"available_now": False}, limits={"batch_rows": 100})
    kit.simulate(events=600)

    def tell_amid_it() -> None:
        waited, latest = threading.Event(), time.monotonic() + PATIENCE_SECONDS
        while (kit.manifests.last_batch() or 0) < 2 and time.monotonic() < latest:
            waited.wait(0.02)
        os.kill(os.getpid(), signal.SIGTERM)

    told = threading.Thread(target=tell_amid_it)
    told.start()
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", str(kit.settings_file)])
    told.join()
    whole = capsys.readouterr().err
    assert ended.value.code == 128 + signal.SIGTERM, whole
    assert "finished:" in whole
    assert "0 failures" in whole
    assert "stopped by SIGTERM" in whole
    assert "Traceback" not in whole
    assert kit.unnamed_files() == set()

    kit.configured(trigger={"available_now": True})
    outcome = kit.run()
    assert outcome.summary.failures == 0
    assert 0 < outcome.summary.rows < kit.truth.records
    kit.assert_clean()


def test_a_run_that_is_told_to_stop_while_kafka_is_silent_ends_at_once(kit: PipelineKit) -> None:
    stop = threading.Event()
    with socket.create_server((LOOPBACK, free_port())) as silent:
        kit.configured(
            source={"kafka": {"bootstrap.servers": f"127.0.0.1:{silent.getsockname()[1]}"}},
        )
        told = threading.Timer(0.5, stop.set)
        told.start()
        began = time.monotonic()
        outcome = run(kit.settings, stop=stop, spark=kit.spark)
        assert time.monotonic() - began < TIMEOUT_SECONDS
        told.join()
    assert outcome.summary.batches == 0
