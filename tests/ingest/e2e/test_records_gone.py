"""Records that Kafka has no more, before or after they were read: the run stops by name, and there is a way on."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from pyspark.sql import SparkSession
from tests.ingest.e2e.handmade import column, registered
from tests.ingest.e2e.keyed import rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.errors import BudgetSpent, CheckpointMismatch
from distributary.ingest.checkpoint.generation import read_generation
from distributary.ingest.kafka.source import Lost
from distributary.ingest.progress import Silent
from distributary.producer_sim.stack.kafka_broker import KafkaBroker
from distributary.producer_sim.stack.local import LocalStack
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]


def delete_records(admin: AdminClient, topic: str, before: int) -> None:
    place = TopicPartition(topic, 0, before)
    admin.delete_records([place])[place].result(30)


def lose_unread(kit: PipelineKit, admin: AdminClient, unread: str) -> None:
    """Have a run read player a, and Kafka delete the first two of those that are sent behind it."""
    schema = registered(kit)
    kit.send([schema.value(game="chess", player="a")])
    kit.run()
    kit.send([schema.value(game="chess", player=player) for player in unread])
    delete_records(admin, kit.topic, 3)


def players(kit: PipelineKit) -> list[str]:
    return sorted(column(kit, "chess", "player"))


def test_records_deleted_before_they_were_read_are_named_and_a_new_checkpoint_goes_on(
    kit: PipelineKit, admin: AdminClient
) -> None:
    lose_unread(kit, admin, "bcd")
    gone = rf"Kafka has no more of {kit.topic}/0 from offset 1 to before 3"
    with pytest.raises(CheckpointMismatch, match=gone):
        kit.run()
    kit.configured(checkpoint="./other", start="from_tables")
    kit.run()
    assert players(kit) == ["a", "d"]


# Where the run that records what is lost dies, if it does.
POINTS = (
    "after_manifest",
    *(pytest.param(point, marks=pytest.mark.heavy) for point in (None, "before_manifest", "before_ledger")),
)


@pytest.mark.parametrize("dies", POINTS)
def test_records_deleted_before_they_were_read_are_recorded_once_where_the_settings_say_so(
    kit: PipelineKit, admin: AdminClient, fail_at: Callable[..., None], dies: str | None
) -> None:
    lose_unread(kit, admin, "bcd")
    kit.configured(source={"on_data_loss": "record"})
    lost = (Lost(kit.topic, 0, 1, 3),)
    if dies is not None:
        fail_at(dies)
        with pytest.raises(BudgetSpent):
            kit.run()
    outcome = kit.run()
    assert outcome.lost == (() if dies in ("after_manifest", "before_ledger") else lost)
    assert players(kit) == ["a", "d"]
    rows = [row for row in kit.rows("ledger_batches").to_pylist() if not row["rows_read"]]
    assert [(json.loads(row["offsets"])[kit.topic]["0"], row["rows_by_reason"]) for row in rows] == [
        ([1, 3], '{"data_lost": 2}')
    ]
    assert not verify(kit.settings).differences
    # Whoever takes the setting out again is not stopped by what is recorded.
    kit.configured(source={"on_data_loss": "stop"})
    assert kit.run().lost == ()


# Lighter: a loss that is recorded, and a new checkpoint that goes on behind one, are each above.
@pytest.mark.heavy
def test_a_new_checkpoint_that_goes_on_from_the_tables_records_what_was_lost_as_well(
    kit: PipelineKit, admin: AdminClient
) -> None:
    lose_unread(kit, admin, "bcd")
    kit.configured(checkpoint="./other", start="from_tables", source={"on_data_loss": "record"})
    assert kit.run().lost == (Lost(kit.topic, 0, 1, 3),)
    assert players(kit) == ["a", "d"]
    assert not verify(kit.settings).differences


def without_its_checkpoint(kit: PipelineKit, fail_at: Callable[..., None]) -> str:
    """Have tables hold a batch, offsets 1 and 2, that no ledger tells of and whose manifest is gone; its generation's id."""
    schema = registered(kit)
    kit.send([schema.value(game="chess", player="a")])
    kit.run()
    kit.send([schema.value(game="chess", player="b"), b"unreadable"])
    fail_at("before_ledger")
    with pytest.raises(BudgetSpent):
        kit.run()
    fail_at()
    generation = read_generation(kit.checkpoint)
    assert generation is not None
    kit.checkpoint.files.clear()
    return generation.id


@pytest.mark.heavy
def test_records_that_tables_have_without_their_checkpoint_are_not_lost_though_kafka_has_them_no_more(
    kit: PipelineKit, admin: AdminClient, fail_at: Callable[..., None]
) -> None:
    dead = without_its_checkpoint(kit, fail_at)
    schema = registered(kit)
    kit.send([schema.value(game="chess", player=player) for player in "cd"])
    delete_records(admin, kit.topic, 4)
    kit.configured(
        checkpoint="./other",
        start="from_tables",
        confirm_dead=[dead],
        source={"on_data_loss": "record"},
    )
    assert kit.run().lost == (Lost(kit.topic, 0, 3, 4),)
    assert players(kit) == ["a", "b", "d"]
    assert not verify(kit.settings).differences


class Forgetful(Silent):
    """Has Kafka delete further records each time that a loss was told of."""

    def __init__(self, delete: Callable[[int], None], *before: int) -> None:
        self._delete, self._before = delete, list(before)

    def waiting(self, reason: str, seconds: float) -> None:
        if self._before and "the ledger tells of it" in reason:
            self._delete(self._before.pop(0))


def test_records_that_go_while_a_loss_is_recorded_are_recorded_as_well(
    kit: PipelineKit, admin: AdminClient
) -> None:
    """Whoever wants losses recorded has a topic that forgets at any moment."""
    lose_unread(kit, admin, "bcdefg")
    kit.configured(source={"on_data_loss": "record"})
    progress = Forgetful(lambda before: delete_records(admin, kit.topic, before), 5)
    assert kit.run(progress).lost == (Lost(kit.topic, 0, 1, 3), Lost(kit.topic, 0, 3, 5))
    assert players(kit) == ["a", "f", "g"]
    assert not verify(kit.settings).differences


def test_records_deleted_after_they_were_read_are_not_missed(kit: PipelineKit, admin: AdminClient) -> None:
    schema = registered(kit)
    kit.send([schema.value(game="chess", player=player) for player in "abc"])
    kit.run()
    delete_records(admin, kit.topic, 2)
    kit.send([schema.value(game="chess", player="d")])
    kit.run()
    assert players(kit) == list("abcd")


@pytest.fixture
def own_broker(tmp_path: Path) -> Iterator[KafkaBroker]:
    """A broker of the test's own, whose files it may harm."""
    broker = KafkaBroker(tmp_path / "broker", 0)
    broker.start()
    yield broker
    broker.kill()


@pytest.fixture
def own_kit(own_broker: KafkaBroker, stack: LocalStack, spark: SparkSession, tmp_path: Path) -> PipelineKit:
    """A pipeline that reads from it."""
    kit = PipelineKit(tmp_path, "went-back", stack, spark)
    kit.bootstrap_servers = own_broker.bootstrap_servers
    kit.configured(source={"kafka": {"bootstrap.servers": own_broker.bootstrap_servers}})
    with AdminClient({"bootstrap.servers": own_broker.bootstrap_servers, "log_level": 0}) as admin:
        admin.create_topics([NewTopic(kit.topic, num_partitions=1)])[kit.topic].result(30)
    return kit


def lose_all(broker: KafkaBroker, topic: str) -> None:
    """Have the broker begin the topic at offset 0 again, as the same topic."""
    broker.stop()
    for file in (broker.folder / "data" / f"{topic}-0").iterdir():
        if file.name != "partition.metadata":
            file.unlink()
    broker.start()


def test_offsets_that_went_back_stop_the_run_before_other_records_pass_for_read(
    own_broker: KafkaBroker, own_kit: PipelineKit
) -> None:
    kit = own_kit
    schema = registered(kit)
    kit.send([schema.value(game="chess", player=player) for player in "abc"])
    kit.run()
    lose_all(own_broker, kit.topic)
    kit.send([schema.value(game="chess", player="d")])
    back = rf"Kafka has {kit.topic}/0 up to before offset 1, and it was read up to before 3: the broker lost records"
    with pytest.raises(CheckpointMismatch, match=back):
        kit.run()
    kit.configured(checkpoint="./other", start="from_tables")
    kit.run()
    kit.send([schema.value(game="chess", player="e")])
    kit.run()
    assert players(kit) == list("abce"), "the new records that were there already are told as not read"


# Lighter: test_offsets_that_went_back_stop_the_run_before_other_records_pass_for_read has offsets go back.
@pytest.mark.heavy
@pytest.mark.parametrize("records", ["stop", "record"])
def test_offsets_that_went_back_below_what_a_new_checkpoint_counts_as_committed_stop_its_run(
    own_broker: KafkaBroker,
    own_kit: PipelineKit,
    fail_at: Callable[..., None],
    caplog: pytest.LogCaptureFixture,
    records: str,
) -> None:
    kit = own_kit
    dead = without_its_checkpoint(kit, fail_at)
    schema = registered(kit)
    kit.configured(
        checkpoint="./other", start="from_tables", confirm_dead=[dead], source={"on_data_loss": records}
    )
    # It is born, and dies before its first batch is decided.
    fail_at("before_manifest")
    with pytest.raises(BudgetSpent):
        kit.run()
    fail_at()
    lose_all(own_broker, kit.topic)
    kit.send([schema.value(game="chess", player=player) for player in "xy"])
    back = rf"Kafka has {kit.topic}/0 up to before offset 2, and it was read up to before 3: the broker lost records"
    with pytest.raises(CheckpointMismatch, match=back):
        kit.run()
    kit.configured(checkpoint="./third")
    kit.run()
    assert f"{kit.topic}/0 up to before offset 2, and it was read up to before 3" in caplog.text
    kit.send([schema.value(game="chess", player="z")])
    kit.run()
    assert players(kit) == list("abz"), "the new records that were there already are told as not read"


# Lighter: test_offsets_that_went_back_stop_the_run_before_other_records_pass_for_read has offsets go back.
@pytest.mark.heavy
def test_reading_again_into_a_table_that_positions_order_stops_where_offsets_went_back(
    own_broker: KafkaBroker, own_kit: PipelineKit
) -> None:
    """Its rows would win against records that came in the place of theirs, and that count as older."""
    kit = own_kit.configured(
        decode={"format": "json", "evolution": "inline"},
        route={"field": "game", "table": "{entity}"},
        tables=[{"match": "*", "mode": "upsert", "keys": "kafka_key"}],
    )
    kit.send([b'{"game": "chess", "score": %d}' % score for score in range(3)], key=b"a")
    kit.run()
    lose_all(own_broker, kit.topic)
    kit.send([b'{"game": "chess", "score": 7}'], key=b"a")
    kit.configured(checkpoint="./other", start="again")
    back = rf"Kafka has {kit.topic}/0 up to before offset 1, and it was read up to before 3: .*table chess"
    with pytest.raises(CheckpointMismatch, match=back):
        kit.run()
    # Whoever says it once more is told it once more.
    with pytest.raises(CheckpointMismatch, match=back):
        kit.run()
    kit.configured(route={"table": "new_{entity}"})
    kit.run()
    assert [row["score"] for row in rows_of(kit, "new_chess")] == [7]
