"""A new checkpoint over tables that another one filled."""

from __future__ import annotations

import shutil
import signal

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.ingest.e2e.handmade import (
    EVENT,
    assert_each_record_in_one_place,
    column,
    quarantined,
    registered,
    registered_beside,
)
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.registry_proxy import registry_proxy

from distributary.errors import CheckpointMismatch, TablesOfAnotherRun
from distributary.ingest.checkpoint.generation import read_generation
from distributary.producer_sim.stack.local import LocalStack

pytestmark = [pytest.mark.spark, pytest.mark.stack]

ONE = "only one game"
QUARANTINE = "only the quarantine"
ALL_BUT_LEDGER = "all but the ledger"


def send(kit: PipelineKit, version: int = 1) -> None:
    kit.simulate(version, corrupt=0.05, tombstones=0.02)


def lose_checkpoint(kit: PipelineKit) -> None:
    """The checkpoint is gone, and the user says that nobody runs it any more."""
    generation = read_generation(kit.checkpoint)
    assert generation is not None
    if kit.checkpoint.files.remote:
        assert not kit.checkpoint.files.clear()
    else:
        shutil.rmtree(kit.checkpoint_folder)
    kit.configured(confirm_dead=[generation.id])


def take_back_newest_commit(kit: PipelineKit, table: str) -> None:
    """The table as it was before its newest commit, as if the run had died before that."""
    log, newest = f"{table}/_delta_log", f"{kit.delta(table).version():020}."
    # A checkpoint of the log would still have it; where tables take turns, one may be due by now.
    names = [name for name in kit.lake.root.names(log) if name.startswith((newest, "_last_checkpoint"))]
    kit.lake.root.delete(f"{log}/{name}" for name in names)


def not_committed(kit: PipelineKit, committed: str) -> list[str]:
    manifest = kit.manifests.last()
    assert manifest is not None
    kept = {ONE: {kit.folder_of(1)}, QUARANTINE: {"quarantine"}}.get(
        committed, {table.folder for table in manifest.tables if table.role != "batches"}
    )
    return [table.folder for table in manifest.tables if table.folder not in kept]


@pytest.mark.heavy
def test_it_is_refused_until_the_user_has_said_what_he_wants(kit: PipelineKit) -> None:
    send(kit)
    kit.run()
    before = kit.versions()
    kit.configured(checkpoint="./checkpoints/second")
    with pytest.raises(TablesOfAnotherRun) as refused:
        kit.run()
    message = str(refused.value)
    assert kit.lake.root.url in message
    assert all(
        way in message for way in ("Point `checkpoint` back", "`start: from_tables`", "`start: again`")
    )
    assert kit.versions() == before
    # The refusal leaves no half-born checkpoint behind: it is refused again.
    with pytest.raises(TablesOfAnotherRun):
        kit.run()

    kit.configured(start="from_tables")
    send(kit, 2)
    outcome = kit.run()
    assert outcome.summary.rows == kit.truth.records - 300
    kit.assert_clean()
    # `start` speaks to new checkpoints only.
    send(kit, 2)
    kit.run()
    kit.assert_clean()


@pytest.mark.heavy
def test_again_ingests_everything_once_more(kit: PipelineKit) -> None:
    send(kit)
    kit.run()
    once = {table.name: table.rows for table in kit.assert_clean().tables}
    quarantined = kit.rows("quarantine").num_rows
    kit.configured(checkpoint="./checkpoints/second", start="again")
    assert kit.run().summary.rows == kit.truth.records
    assert {table.name: table.rows for table in kit.verify().tables} == {
        name: 2 * rows for name, rows in once.items()
    }
    assert kit.rows("quarantine").num_rows == 2 * quarantined
    assert kit.run().summary.rows == 0


@pytest.mark.heavy
def test_from_tables_after_death_between_two_commits(kit: PipelineKit) -> None:
    kit.configured(limits={"commit_threads": 1})
    send(kit)
    kit.run()
    send(kit, 2)
    killed = kit.run_apart("between_commits:3=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    lose_checkpoint(kit)

    kit.configured(start="from_tables")
    send(kit, 2)
    outcome = kit.run()
    assert outcome.summary.rows == kit.truth.records - 300
    kit.assert_clean()


# Of a new checkpoint `make test` has the case in which all kinds of tables go separate ways.
@pytest.mark.parametrize(
    ("batch", "committed"),
    [
        (1, QUARANTINE),
        *(
            pytest.param(batch, committed, marks=pytest.mark.heavy)
            for batch, committed in [(0, ONE), (0, ALL_BUT_LEDGER), (1, ALL_BUT_LEDGER)]
        ),
    ],
)
def test_from_tables_leaves_out_what_each_table_has(kit: PipelineKit, batch: int, committed: str) -> None:
    for number in range(batch + 1):
        send(kit, number + 1)
        kit.run()
    complete = kit.truth.records
    for table in not_committed(kit, committed):
        take_back_newest_commit(kit, table)
    lose_checkpoint(kit)

    kit.configured(start="from_tables", limits={"batch_rows": 200})
    send(kit, 2)
    outcome = kit.run()
    assert outcome.summary.rows == kit.truth.records - (complete - 300)
    kit.assert_clean()
    generation = read_generation(kit.checkpoint)
    assert generation is not None
    assert generation.start.placed
    assert sum(kit.rows("ledger_batches")["rows_already"].to_pylist()) > 0


# The records that a table has decide, whatever the table: what was refused and can be read now is neither lost nor doubled.
# Nothing lands twice where it does not land now, either, which is the lighter half.
@pytest.mark.parametrize("lands", [True, pytest.param(False, marks=pytest.mark.heavy)])
def test_from_tables_with_another_reading(kit: PipelineKit, stack: LocalStack, lands: bool) -> None:
    schema = registered(kit)
    later = registered_beside(kit, EVENT.replace("level", "rank"))
    with registry_proxy(stack.registry_url) as proxy:
        kit.configured(registry={"url": proxy.url, "unknown_id_wait_seconds": 0.0})
        proxy.deny(later.id, times=1)
        kit.send([schema.value(game="chess", player=str(n)) for n in range(3)])
        kit.send([later.value(game="chess", player="later")])
        kit.send([schema.value(game="chess", player=str(n)) for n in range(3, 6)])
        kit.run()
        assert column(kit, "chess", "player") == ["0", "1", "2", "3", "4", "5"]
        # Died amid its commits; the registry knows the schema by now.
        lost = "quarantine" if lands else kit.folder_of("chess")
        for table in (lost, "ledger_batches"):
            take_back_newest_commit(kit, table)
        lose_checkpoint(kit)
        kit.configured(start="from_tables")
        kit.run()

    players = ["0", "1", "2", "later", "3", "4", "5"]
    assert column(kit, "chess", "player") == [one for one in players if lands or one != "later"]
    assert [row["kafka_offset"] for row in quarantined(kit)] == ([] if lands else [3])
    assert_each_record_in_one_place(kit)


@pytest.mark.heavy
def test_from_tables_twice(kit: PipelineKit) -> None:
    """The second checkpoint dies between two commits as well, and a third one takes over from both."""
    for version, name in enumerate(["first", "second"], start=1):
        kit.configured(checkpoint=f"./checkpoints/{name}", start="from_tables")
        send(kit, version)
        kit.run()
        for table in not_committed(kit, ONE):
            take_back_newest_commit(kit, table)
    kit.configured(checkpoint="./checkpoints/third")
    send(kit, 2)
    kit.run()
    kit.assert_clean()


# That it is told, and where a new log begins then, is in `make test` too: test_source.py, handover/test_heritage.py.
@pytest.mark.heavy
def test_records_that_retention_took_stop_the_run_by_name_and_a_new_checkpoint_reads_the_rest(
    kit: PipelineKit, admin: AdminClient
) -> None:
    schema = registered(kit)
    for levels in ((1, 2), (3, 4, 5)):
        kit.send([schema.value(game="golf", level=level) for level in levels])
        if 1 in levels:
            kit.run()
    (deleted,) = admin.delete_records([TopicPartition(kit.topic, 0, 3)]).values()
    deleted.result(30)
    with pytest.raises(CheckpointMismatch, match=rf"no more of {kit.topic}/0 from offset 2 to before 3"):
        kit.run()
    kit.configured(checkpoint="./checkpoints/second", start="from_tables")
    kit.run()
    assert column(kit, "golf", "level") == [1, 2, 4, 5]


# How far each topic was read is in `make test` too: handover/test_heritage.py.
@pytest.mark.heavy
def test_a_topic_that_is_put_back_goes_on_where_it_was_left(kit: PipelineKit, admin: AdminClient) -> None:
    schema, more = registered(kit), f"{kit.topic}-more"
    admin.create_topics([NewTopic(more, num_partitions=1)])[more].result(30)
    for place, topics in (
        ("first", [kit.topic, more]),
        ("second", [kit.topic]),
        ("third", [kit.topic, more]),
    ):
        producer = Producer({"bootstrap.servers": kit.bootstrap_servers, "acks": "all"})
        for topic in (kit.topic, more):
            producer.produce(topic, value=schema.value(game="golf"), partition=0)
        assert producer.flush(30) == 0
        kit.configured(source={"topics": topics}, checkpoint=f"./checkpoints/{place}", start="from_tables")
        kit.run()
    rows = kit.rows(kit.folder_of("golf")).select(["kafka_topic", "kafka_offset"]).to_pylist()
    assert sorted(tuple(row.values()) for row in rows) == [
        (topic, offset) for topic in (kit.topic, more) for offset in range(3)
    ]
