"""Records whose schema the registry does not know, does not know yet, or cannot tell because it is down."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests.ingest.e2e.handmade import (
    EVENT,
    UNKNOWN_ID,
    assert_each_record_in_one_place,
    column,
    header,
    quarantined,
    reasons,
    registered,
    registered_beside,
)
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit
from tests.ingest.e2e.registry_proxy import registry_proxy

from distributary.ingest.progress import Silent
from distributary.producer_sim.stack.local import LocalStack

pytestmark = [pytest.mark.spark, pytest.mark.stack]

WITH_MOOD = EVENT.replace("int32 level = 3;", "int32 level = 3;\n  string mood = 4;")


class Waits(Silent):
    """Remembers what a run waited for."""

    def __init__(self) -> None:
        self.reasons: list[str] = []
        self.waits = threading.Event()

    def waiting(self, reason: str, seconds: float) -> None:
        self.reasons.append(reason)
        self.waits.set()


@pytest.fixture
def registry_down(stack: LocalStack) -> Iterator[LocalStack]:
    """The stack, for tests that stop its registry: it runs again afterwards, whatever happens."""
    yield stack
    stack.registry.start()


def test_an_unknown_id_goes_to_quarantine_with_its_place_and_its_bytes_and_takes_nobody_along(
    kit: PipelineKit,
) -> None:
    schema = registered(kit)
    stranger = header(UNKNOWN_ID) + schema.body(game="chess", player="nobody", level=1)
    kit.send(
        [schema.value(game="chess", player="a"), stranger, schema.value(game="chess", player="b")], b"k", 1
    )

    kit.run()

    assert column(kit, "chess", "player") == ["a", "b"]
    (row,) = quarantined(kit)
    assert (row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]) == (kit.topic, 1, 1)
    assert (row["kafka_key"], row["value"], row["schema_id"]) == (b"k", stranger, UNKNOWN_ID)
    assert row["reason"] == "unknown_schema"
    assert str(UNKNOWN_ID) in row["detail"]
    assert_each_record_in_one_place(kit)


def test_an_id_that_the_registry_knows_only_a_little_later_is_delivered(
    kit: PipelineKit, stack: LocalStack
) -> None:
    old = registered(kit)
    kit.send([old.value(game="chess", player="a")])
    kit.run()
    with registry_proxy(stack.registry_url) as proxy:
        kit.configured(registry={"url": proxy.url, "unknown_id_wait_seconds": 60.0})
        new = registered_beside(kit, WITH_MOOD)
        proxy.deny(new.id, times=3)
        kit.send([new.value(game="chess", player="b", mood="glad")])
        outcome = kit.run()

    assert proxy.asked[str(new.id)] == 4
    assert outcome.summary.quarantined == 0
    assert column(kit, "chess", "mood") == [None, "glad"]
    assert_each_record_in_one_place(kit)


# Lighter: test_what_nobody_knows_is_remembered_for_a_while_only (tests/ingest/schemas/test_known.py), and an id that is known later above.
@pytest.mark.heavy
def test_an_id_found_unknown_is_delivered_once_a_later_run_knows_it(
    kit: PipelineKit, stack: LocalStack
) -> None:
    schema = registered(kit)
    new = registered_beside(kit, WITH_MOOD)
    with registry_proxy(stack.registry_url) as proxy:
        kit.configured(registry={"url": proxy.url, "unknown_id_wait_seconds": 0.0})
        proxy.deny(new.id, times=1)
        kit.send([schema.value(game="chess", player="a"), new.value(game="chess", player="b")])
        kit.run()
        assert reasons(kit) == {"unknown_schema": 1}
        kit.send([new.value(game="chess", player="c", mood="calm")])
        kit.run()

    assert column(kit, "chess", "player") == ["a", "c"]
    assert reasons(kit) == {"unknown_schema": 1}
    assert_each_record_in_one_place(kit)


def test_an_id_that_the_registry_fails_at_holds_up_nothing_behind_it_for_long(
    kit: PipelineKit, stack: LocalStack
) -> None:
    schema = registered(kit)
    broken, fine = registered_beside(kit, WITH_MOOD), registered_beside(kit, EVENT)
    with registry_proxy(stack.registry_url) as proxy:
        quickly = {"retry_seconds": 0.2, "failing_id_wait_seconds": 1.0, "unknown_id_cache_seconds": 0.0}
        kit.configured(registry={"url": proxy.url, **quickly}, limits={"batch_rows": 3})
        proxy.failing.add(broken.id)
        sent = [schema.value(game="chess", player="a"), fine.value(game="chess", player="b")]
        sent += [broken.value(game="chess", player=player) for player in "cd"]
        kit.send([*sent, schema.value(game="chess", player="e")])
        outcome = kit.run()
        asked = proxy.asked[str(broken.id)]
        # The registry is repaired: what comes now lands, and what is in quarantine has its bytes.
        proxy.failing.clear()
        kit.send([broken.value(game="chess", player="f", mood="glad")])
        kit.run()

    assert not outcome.summary.failures
    # Waited for once: in the next batch one failure more was enough.
    assert asked > 3
    assert column(kit, "chess", "player") == ["a", "b", "e", "f"]
    assert [(row["reason"], row["schema_id"], row["value"]) for row in quarantined(kit)] == [
        ("registry_error", broken.id, value) for value in sent[2:]
    ]
    assert_each_record_in_one_place(kit)


# Lighter: test_a_start_does_not_wait_for_a_version_that_the_registry_fails_at (tests/ingest/schemas/test_known.py).
@pytest.mark.heavy
def test_a_version_of_its_subject_that_the_registry_fails_at_keeps_no_pipeline_from_its_start(
    kit: PipelineKit, stack: LocalStack
) -> None:
    schema = registered(kit)
    registered(kit, WITH_MOOD)
    kit.send([schema.value(game="chess", player="a")])
    waits = Waits()
    with registry_proxy(stack.registry_url) as proxy:
        kit.configured(registry={"url": proxy.url, "retry_seconds": 0.2})
        # Records name ids, and those are answered.
        proxy.failing.add("/versions/2")
        with kit.running(waits) as running:
            running.wait_for(1)
    assert column(kit, "chess", "player") == ["a"]
    assert not quarantined(kit)


# Lighter: test_an_id_that_the_registry_fails_at_holds_up_nothing_behind_it_for_long and test_a_registry_that_is_down_makes_the_pipeline_wait_and_then_go_on.
@pytest.mark.heavy
def test_a_registry_that_fails_at_every_question_is_waited_for(kit: PipelineKit, stack: LocalStack) -> None:
    schema = registered(kit)
    kit.send([schema.value(game="chess", player="a")])
    waits = Waits()
    with registry_proxy(stack.registry_url) as proxy:
        quickly = {"retry_seconds": 0.1, "failing_id_wait_seconds": 0.1}
        kit.configured(registry={"url": proxy.url, **quickly})
        with kit.running(waits) as running:
            running.wait_for(1)
            new = registered_beside(kit, WITH_MOOD)
            proxy.failing.add(None)
            kit.send([new.value(game="chess", player="b")])
            assert waits.waits.wait(PATIENCE_SECONDS)
            proxy.failing.clear()
            running.wait_for(2)
    assert column(kit, "chess", "player") == ["a", "b"]
    assert not quarantined(kit)


def test_a_registry_that_is_down_makes_the_pipeline_wait_and_then_go_on(
    kit: PipelineKit, registry_down: LocalStack
) -> None:
    kit.configured(registry={"retry_seconds": 0.2, "latest_cache_seconds": 0.0})
    old = registered(kit)
    kit.send([old.value(game="chess", player="a")])
    waits = Waits()
    with kit.running(waits) as running:
        running.wait_for(1)
        new = registered(kit, WITH_MOOD)
        address = registry_down.registry.url
        registry_down.registry.stop()
        kit.send([new.value(game="chess", player="b", mood="glad"), old.value(game="chess", player="c")])
        assert waits.waits.wait(PATIENCE_SECONDS)
        registry_down.registry.start()
        assert registry_down.registry.url == address
        running.wait_for(3)

    assert "registry" in waits.reasons[0]
    assert column(kit, "chess", "player") == ["a", "b", "c"]
    assert column(kit, "chess", "mood") == [None, "glad", None]
    assert quarantined(kit) == []
    assert running.outcome().summary.failures == 0
    assert_each_record_in_one_place(kit)


def test_a_pipeline_whose_schemas_are_all_pinned_starts_without_the_registry(
    kit: PipelineKit, stack: LocalStack
) -> None:
    schema = registered(kit)
    with registry_proxy(stack.registry_url) as proxy:
        kit.configured(registry={"url": proxy.url, "retry_seconds": 0.2})
        kit.send([schema.value(game="chess", player="a")])
        kit.run()
    kit.send([schema.value(game="chess", player="b")])
    waits = Waits()

    kit.run(waits)  # where nothing listens any more

    assert any("going on with the schemas that are pinned" in reason for reason in waits.reasons)
    assert column(kit, "chess", "player") == ["a", "b"]
    assert quarantined(kit) == []
