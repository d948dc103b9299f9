"""Kafka or the store goes away while a pipeline runs, or before it starts; a credential is not accepted for a while."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.registry_proxy import registry_proxy
from tests.ingest.storage.relay import relayed
from tests.ingest.storage.stores import Store

from distributary.errors import BudgetSpent
from distributary.ingest.progress import Silent
from distributary.producer_sim.stack.local import LocalStack

pytestmark = [pytest.mark.spark, pytest.mark.stack]

# Spark's own client waits for a minute, thrice, before its query fails.
IMPATIENT = {"default.api.timeout.ms": "1500", "request.timeout.ms": "1000", "retries": "1"}

PATIENCE = 120.0


class Watching(Silent):
    """Notes what is waited for, and what failed."""

    def __init__(self) -> None:
        self.waits: list[str] = []
        self.failures: list[str] = []
        self.waited, self.failed = threading.Event(), threading.Event()

    def waiting(self, reason: str, seconds: float) -> None:
        self.waits.append(reason)
        self.waited.set()

    def failure(self, error: str, wait: float) -> None:
        self.failures.append(error)
        self.failed.set()


# Lighter: tests/ingest/kafka/test_cluster.py waits for one that is away.
@pytest.mark.heavy
def test_a_broker_that_goes_away_is_waited_for_and_costs_no_failure(
    kit: PipelineKit, stack: LocalStack
) -> None:
    kit.configured(source={"kafka": IMPATIENT})
    kit.simulate(games=1, events=50)
    watching = Watching()
    with kit.running(watching) as run:
        run.wait_for(kit.truth.records)
        stack.broker.stop()
        try:
            assert watching.waited.wait(PATIENCE)
        finally:
            stack.broker.start()
        kit.simulate(games=1, events=50)
        run.wait_for(kit.truth.records)
    assert f"Kafka at {kit.bootstrap_servers} does not answer" in watching.waits[0]
    assert (run.outcome().summary.failures, watching.failures) == (0, [])
    kit.assert_clean()


# That a store is waited for is in tests/ingest/storage/test_probe.py.
@pytest.mark.heavy
def test_a_store_that_goes_away_is_waited_for_and_costs_no_failure(kit: PipelineKit, s3_store: Store) -> None:
    with relayed(s3_store.port) as relay:
        by_relay = replace(s3_store, port=relay.port)
        kit.in_store(by_relay).configured(
            storage={"http": {"retry_seconds": 0}},
            supervisor={"failures": {"max": 0}},
        )
        kit.simulate(games=1, events=50)
        watching = Watching()
        with kit.running(watching) as run:
            run.wait_for(kit.truth.records)
            relay.away = "503"
            kit.simulate(games=1, events=50)
            assert watching.waited.wait(PATIENCE)
            relay.away = None
            run.wait_for(kit.truth.records)
        assert "does not answer" in watching.waits[0]
        assert (run.outcome().summary.failures, watching.failures) == (0, [])
        kit.assert_clean()


# That a question to Kafka waits where somebody is told is in tests/ingest/kafka/test_cluster.py.
@pytest.mark.heavy
def test_a_broker_that_is_down_at_the_start_is_waited_for(kit: PipelineKit, stack: LocalStack) -> None:
    kit.simulate(games=1, events=50)
    watching = Watching()
    stack.broker.stop()
    try:
        with kit.running(watching) as run:
            assert watching.waited.wait(PATIENCE)
            stack.broker.start()
            run.wait_for(kit.truth.records)
    finally:
        stack.broker.start()
    assert f"Kafka at {kit.bootstrap_servers} does not answer" in watching.waits[0]
    assert run.outcome().summary.failures == 0
    kit.assert_clean()


@pytest.mark.parametrize("again", [True, False], ids=["let in again", "kept out"])
def test_a_credential_that_is_refused_amid_a_run_is_tried_again_within_the_budget(
    kit: PipelineKit, stack: LocalStack, again: bool
) -> None:
    with registry_proxy(stack.registry_url) as proxy:
        failures = {"max": 100 if again else 2, "first_wait_seconds": 0.05, "longest_wait_seconds": 0.2}
        kit.configured(registry={"url": proxy.url}, supervisor={"failures": failures})
        kit.simulate(1, games=1, events=50)
        watching = Watching()
        running = kit.running(watching)
        try:
            with running as run:
                run.wait_for(kit.truth.records)
                proxy.refusing = True
                kit.simulate(2, games=1, events=50)
                assert watching.failed.wait(PATIENCE)
                if again:
                    proxy.refusing = False
                run.wait_for(kit.truth.records)
        except BudgetSpent as spent:
            assert not again
            assert "check registry.user and registry.password" in str(spent)
        else:
            assert again
            kit.assert_clean()
    assert all("the registry refuses these credentials" in failure for failure in watching.failures)
