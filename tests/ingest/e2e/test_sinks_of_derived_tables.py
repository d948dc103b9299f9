"""What goes out of derived tables, on the real broker and registry: held against the tables, whatever dies when."""

from __future__ import annotations

import json
import shutil
import signal
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
from confluent_kafka import OFFSET_BEGINNING, OFFSET_END, Consumer, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from deltalake import write_deltalake
from pyspark.sql import functions as F
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.functions import from_avro, from_protobuf
from distributary.ingest import failpoints
from distributary.ingest.derived.refresh import Refreshed, derive
from distributary.ingest.lineage.seen import flow
from distributary.views.graph.mermaid import mermaid

pytestmark = [pytest.mark.spark, pytest.mark.stack]


class Topic:
    """A compacted topic of one test, and what is in it."""

    def __init__(self, kit: PipelineKit, name: str) -> None:
        self.name, self._servers = f"{kit.topic}-{name}", kit.bootstrap_servers
        made = NewTopic(
            self.name, num_partitions=2, replication_factor=1, config={"cleanup.policy": "compact,delete"}
        )
        admin = AdminClient({"bootstrap.servers": self._servers})
        admin.create_topics([made])[self.name].result()

    def records(self) -> list[tuple[bytes, bytes | None]]:
        """All that readers of committed records see."""
        consumer = Consumer(
            {
                "bootstrap.servers": self._servers,
                "group.id": "tests",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "isolation.level": "read_committed",
                # Else the broker waits half a second for more before it says that there is none.
                "fetch.wait.max.ms": 10,
            }
        )
        found, open_ends = list[tuple[bytes, bytes | None]](), {0, 1}
        consumer.assign([TopicPartition(self.name, number, OFFSET_BEGINNING) for number in open_ends])
        while open_ends:
            message = consumer.poll(30)
            assert message is not None
            if message.error():
                open_ends.discard(message.partition() or 0)
            else:
                found.append((bytes(message.key() or b""), message.value()))
        consumer.close()
        return found

    def forget(self) -> None:
        """Have none of its records any more, as compaction, in time, has none of a key that went."""
        ends = [TopicPartition(self.name, number, OFFSET_END) for number in (0, 1)]
        admin = AdminClient({"bootstrap.servers": self._servers})
        for done in admin.delete_records(ends).values():
            done.result(30)

    def newest(self) -> dict[bytes, bytes | None]:
        return {key: value for key, value in self.records() if value is not None or key}

    def rows(self) -> list[dict[str, Any]]:
        """What compaction leaves, as JSON."""
        return [json.loads(value) for value in self.newest().values() if value is not None]


def counts(kit: PipelineKit, topic: Topic, **more: Any) -> dict[str, Any]:
    return {
        "table": "gold_players",
        "inputs": [kit.folder_of(0)],
        "aggregate": {"by": ["gamer_id"], "columns": {"events": "count(*)", "newest": "max(kafka_offset)"}},
        "sink": {"kafka": {"topic": topic.name, **more}},
    }


def one(done: list[Refreshed]) -> Refreshed:
    (found,) = done
    assert found.how != "failed", found.why
    return found


def table(kit: PipelineKit, name: str = "gold_players") -> list[dict[str, Any]]:
    found = kit.rows(name)
    shown = [column for column in found.column_names if not column.startswith("__")]
    return sorted(found.select(shown).to_pylist(), key=str)


def assert_same(kit: PipelineKit, topic: Topic) -> None:
    assert sorted(topic.rows(), key=str) == table(kit)


def test_a_topic_has_what_changed_and_no_more(kit: PipelineKit) -> None:
    topic = Topic(kit, "players")
    kit.configured(derive=[counts(kit, topic)])
    kit.simulate(1, games=1)
    kit.run()
    assert_same(kit, topic)
    players = len(table(kit))
    assert len(topic.records()) == players
    assert one(derive(kit.settings, kit.spark)).sent == {}
    before = {row["gamer_id"]: row for row in table(kit)}
    kit.simulate(1, games=1, events=5)
    kit.run()
    assert_same(kit, topic)
    changed = [row for row in table(kit) if before.get(row["gamer_id"]) != row]
    assert 0 < len(changed) < players
    assert len(topic.records()) == players + len(changed)
    # Where somebody asks for all of it again, all of it is sent.
    assert one(derive(kit.settings, kit.spark, whole=True)).sent == {"kafka": len(table(kit))}
    assert_same(kit, topic)


# Lighter: test_that_nobody_says_which_topic_it_is_makes_none_of_another (tests/ingest/derived/test_sinks.py), marks of before in test_marks.py.
@pytest.mark.heavy
@pytest.mark.checkpoint_folder
def test_a_topic_that_was_made_anew_gets_all_rows_again_and_that_is_told(kit: PipelineKit) -> None:
    topic = Topic(kit, "players")
    kit.configured(derive=[counts(kit, topic)])
    kit.simulate(1, games=1)
    kit.run()
    players = len(table(kit))
    # A mark of before topics were told apart is believed, and followed by one that tells.
    mark = max(kit.folder.rglob("sent/gold_players/*.json"))
    told = json.loads(mark.read_text())
    assert told.pop("topic")
    mark.write_text(json.dumps(told))
    assert one(derive(kit.settings, kit.spark)).sent == {}
    mark.write_text(json.dumps({**told, "topic": "another"}))
    assert one(derive(kit.settings, kit.spark)).sent == {"kafka": players}
    admin = AdminClient({"bootstrap.servers": kit.bootstrap_servers})
    admin.delete_topics([topic.name])[topic.name].result(60)
    (gone,) = derive(kit.settings, kit.spark)
    assert (gone.how, "is not there; make it" in gone.why) == ("failed", True)
    again = Topic(kit, "players")
    done = one(derive(kit.settings, kit.spark))
    assert (done.how, done.sent) == ("current", {"kafka": players})
    assert done.why == f"topic {topic.name} was made anew since, so that all rows are sent"
    assert_same(kit, again)
    found = one(derive(kit.settings, kit.spark))
    assert (found.sent, found.why) == ({}, "")


def test_a_key_that_went_with_a_change_of_columns_has_a_record_without_a_value(kit: PipelineKit) -> None:
    topic = Topic(kit, "some")
    folder = kit.folder_of(0)
    rule: dict[str, Any] = {
        "table": "gold_some",
        "inputs": [folder],
        "sql": f"FROM {folder} SELECT kafka_partition AS p, kafka_offset AS o WHERE kafka_offset < 9",
        "sink": {"kafka": {"topic": topic.name, "keys": ["p", "o"]}},
    }
    kit.simulate(1, games=1)
    kit.run()
    kit.configured(derive=[rule])
    one(derive(kit.settings, kit.spark))
    kit.configured(
        derive=[{**rule, "sql": rule["sql"].replace(" AS o ", " AS o, device ").replace("< 9", "< 4")}]
    )
    one(derive(kit.settings, kit.spark))
    assert sorted(topic.rows(), key=str) == table(kit, "gold_some")


# Lighter: test_a_key_that_went_with_a_change_of_columns_has_a_record_without_a_value has rows that went.
@pytest.mark.heavy
def test_rows_that_went_are_records_without_a_value(kit: PipelineKit) -> None:
    topic = Topic(kit, "some")
    rule: dict[str, Any] = {
        "table": "gold_some",
        "inputs": [kit.folder_of(0)],
        "sql": f"FROM {kit.folder_of(0)} SELECT kafka_partition AS p, kafka_offset AS o, device WHERE kafka_offset < 9",
        "sink": {"kafka": {"topic": topic.name, "keys": ["p", "o"]}},
    }
    kit.simulate(1, games=1)
    kit.run()
    kit.configured(derive=[rule])
    first = one(derive(kit.settings, kit.spark))
    assert first.sent["kafka"] == first.rows
    kit.configured(derive=[{**rule, "sql": rule["sql"].replace("< 9", "< 4")}])
    again = one(derive(kit.settings, kit.spark))
    assert sorted(topic.rows(), key=str) == table(kit, "gold_some")
    assert again.sent["kafka"] == (first.rows or 0) - (again.rows or 0)
    assert sum(value is None for value in topic.newest().values()) == again.sent["kafka"]


# Lighter: tests/ingest/derived/test_to_kafka.py has sendings that fail on their way and that wake too late.
@pytest.mark.heavy
@pytest.mark.checkpoint_folder
def test_a_crash_between_topic_and_mark_sends_the_same_once_more(kit: PipelineKit) -> None:
    topic = Topic(kit, "players")
    kit.configured(derive=[counts(kit, topic)])
    kit.simulate(1, games=1)
    killed = kit.run_apart("after_sending=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    players = len(table(kit))
    assert len(topic.records()) == players
    assert one(derive(kit.settings, kit.spark)).sent == {"kafka": players}
    assert len(topic.records()) == 2 * players
    assert_same(kit, topic)
    assert one(derive(kit.settings, kit.spark)).sent == {}


# Half a minute of turns; lighter: tests/ingest/derived/test_sinks.py has topics that end elsewhere than was noted.
@pytest.mark.heavy
@pytest.mark.folder
@pytest.mark.checkpoint_folder
def test_no_row_stays_in_a_topic_that_no_mark_tells_of(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key that came with what a run sent before it died, and went before the next one sends, is in neither version that is compared."""
    topic, folder = Topic(kit, "some"), kit.folder_of(0)

    def settle(upto: int, n: int | None = None) -> None:
        sql = f"FROM {folder} SELECT kafka_partition AS p, kafka_offset AS o, {n or upto} AS n WHERE kafka_offset < {upto}"
        sink = {"kafka": {"topic": topic.name, "keys": ["p", "o"]}}
        kit.configured(derive=[{"table": "gold_some", "inputs": [folder], "sql": sql, "sink": sink}])

    def die() -> None:
        monkeypatch.setenv(failpoints.VARIABLE, f"{failpoints.AFTER_SENDING}=fail")
        monkeypatch.setattr(failpoints, "_fired", set())
        with pytest.raises(failpoints.Failpoint):
            derive(kit.settings, kit.spark)
        monkeypatch.delenv(failpoints.VARIABLE)

    def assert_has_the_table() -> str:
        found = one(derive(kit.settings, kit.spark))
        assert sorted(topic.rows(), key=str) == table(kit, "gold_some")
        again = one(derive(kit.settings, kit.spark))
        assert (again.sent, again.why) == ({}, "")
        return found.why

    kit.simulate(1, games=1)
    kit.run()
    # Before there is any mark.
    settle(9)
    die()
    settle(5)
    assert_has_the_table()
    # Behind one.
    settle(8)
    die()
    settle(5)
    assert "other records than were noted" in assert_has_the_table()
    # Rows that only went, and came back as they were.
    settle(3, n=5)
    die()
    settle(5)
    assert "other records than were noted" in assert_has_the_table()
    # The same, of which nothing is left.
    settle(3, n=5)
    die()
    topic.forget()
    settle(5)
    assert "other records than were noted" in assert_has_the_table()
    # With a checkpoint that was put back.
    (sent,) = kit.folder.rglob("sent/gold_some")
    copied = shutil.copytree(sent, kit.folder / "copied")
    settle(7)
    assert_has_the_table()
    shutil.rmtree(sent)
    shutil.copytree(copied, sent)
    settle(3)
    assert "other records than were noted" in assert_has_the_table()
    # With a table that is another one now.
    shutil.rmtree(kit.root / "gold_some")
    settle(2)
    assert_has_the_table()


# Avro's rows as they are written: tests/functions/test_writing.py.
@pytest.mark.parametrize(
    ("name", "read"),
    [pytest.param("avro", from_avro, marks=pytest.mark.heavy), ("protobuf", from_protobuf)],
)
def test_rows_with_a_schema_are_read_again_as_the_table_has_them(
    kit: PipelineKit, name: str, read: Any
) -> None:
    topic = Topic(kit, name)
    kit.configured(derive=[counts(kit, topic, format=name)])
    kit.simulate(1, games=1)
    kit.run()
    options = {
        "schema.registry.subject": f"{topic.name}-value",
        "schema.registry.address": str(kit.settings.registry.url),
    }
    sent = kit.spark.createDataFrame(list(topic.newest().items()), "key binary, value binary")
    found = sent.select(read(F.col("value"), options=options).alias("row")).select("row.*").collect()
    assert sorted((row.asDict() for row in found), key=str) == table(kit)


def test_what_no_topic_can_have_is_told_and_the_table_is_made(kit: PipelineKit) -> None:
    topic, other = Topic(kit, "twice"), Topic(kit, "large")
    twice = {
        "table": "gold_twice",
        "inputs": [kit.folder_of(0)],
        "sql": f"FROM {kit.folder_of(0)} SELECT 1 AS one, kafka_offset AS o",
        "sink": {"kafka": {"topic": topic.name, "keys": ["one"]}},
    }
    nowhere = {
        **twice,
        "table": "gold_nowhere",
        "sink": {"kafka": {"topic": "nobody-made-it", "keys": ["o"]}},
    }
    kit.simulate(1, games=1)
    kit.run()
    large = {
        **twice,
        "table": "gold_large",
        "sql": f"FROM {kit.folder_of(0)} SELECT 1 AS one, repeat('x', 2000000) AS text LIMIT 1",
        "sink": {"kafka": {"topic": other.name, "keys": ["one"]}},
    }
    kit.configured(derive=[twice, nowhere, large])
    done = derive(kit.settings, kit.spark)
    assert [found.how for found in done] == ["failed"] * 3
    assert "several rows have the same one" in done[0].why
    assert "topic nobody-made-it is not there; make it" in done[1].why
    assert "gold_large has a row at version 0 that is larger than the topic takes (1,048,588" in done[2].why
    assert "SELECT `one` FROM gold_large ORDER BY" in done[2].why
    assert kit.rows("gold_twice").num_rows == kit.rows(kit.folder_of(0)).num_rows
    assert topic.records() == []
    large["sink"] = {"kafka": {"topic": other.name, "keys": ["one"], "too_large": "drop"}}
    kit.configured(derive=[large])
    dropped = one(derive(kit.settings, kit.spark))
    assert dropped.sent == {"kafka": 1}
    assert dropped.why.startswith(f"1 rows are larger than topic {other.name} takes")
    assert other.records() == [(b'{"one":1}', None)]


@pytest.mark.folder
def test_files_have_each_version_whole_and_a_repeat_writes_nothing(kit: PipelineKit) -> None:
    out = kit.folder / "out"
    rule = {**counts(kit, Topic(kit, "unused")), "sink": {"files": {"path": str(out)}}}
    kit.configured(derive=[rule])
    kit.simulate(1, games=1)
    kit.run()
    first = sorted((out / "gold_players").iterdir())
    assert first
    found = pa.concat_tables(pyarrow.parquet.read_table(one) for one in first)
    assert sorted(found.to_pylist(), key=str) == table(kit)
    assert one(derive(kit.settings, kit.spark)).sent == {}
    first[0].unlink()
    assert one(derive(kit.settings, kit.spark)).sent == {"files": 1}
    kit.simulate(1, games=1, events=5)
    kit.run()
    later = sorted(set((out / "gold_players").iterdir()) - set(first))
    assert min(later).name > max(first).name
    found = pa.concat_tables(pyarrow.parquet.read_table(one) for one in later)
    assert sorted(found.to_pylist(), key=str) == table(kit)


@pytest.mark.folder
def test_a_table_that_is_looked_up_in_counts_as_it_is_and_has_all_made_again_when_it_changes(
    kit: PipelineKit,
) -> None:
    kit.simulate(1, games=1)
    kit.run()
    devices = sorted(set(kit.rows(kit.folder_of(0))["device"].to_pylist()))
    csv, delta = kit.folder / "devices.csv", kit.folder / "devices"
    csv.write_text("device,code\n" + "".join(f'"{name}",0{place}\n' for place, name in enumerate(devices)))
    write_deltalake(str(delta), pa.table({"device": devices, "kind": ["old"] * len(devices)}))
    rule: dict[str, Any] = {
        "table": "gold_devices",
        "inputs": [kit.folder_of(0)],
        "static": {"codes": {"path": str(csv)}, "kinds": {"path": str(delta)}},
        "sql": f"FROM {kit.folder_of(0)} JOIN codes USING (device) JOIN kinds USING (device) "
        "SELECT device, code, kind, count(*) AS n GROUP BY ALL",
    }
    kit.configured(derive=[rule])
    assert one(derive(kit.settings, kit.spark)).how == "made"
    assert {row["code"] for row in table(kit, "gold_devices")} == {f"0{n}" for n in range(len(devices))}
    assert one(derive(kit.settings, kit.spark)).how == "current"
    csv.write_text(csv.read_text().replace(",0", ",1"))
    assert one(derive(kit.settings, kit.spark)).how == "made"
    assert {row["code"] for row in table(kit, "gold_devices")} == {f"1{n}" for n in range(len(devices))}
    write_deltalake(
        str(delta), pa.table({"device": devices, "kind": ["new"] * len(devices)}), mode="overwrite"
    )
    assert one(derive(kit.settings, kit.spark)).how == "made"
    assert {row["kind"] for row in table(kit, "gold_devices")} == {"new"}
    pyarrow.parquet.write_table(
        pa.table({"device": devices, "code": [7] * len(devices)}), kit.folder / "d.parquet"
    )
    rule["static"]["codes"] = {"path": str(kit.folder / "d.parquet")}
    kit.configured(derive=[rule])
    assert one(derive(kit.settings, kit.spark)).how == "made"
    assert {row["code"] for row in table(kit, "gold_devices")} == {7}
    csv.unlink()
    rule["static"]["codes"] = {"path": str(csv)}
    kit.configured(derive=[rule])
    (failed,) = derive(kit.settings, kit.spark)
    assert (failed.how, "there is no file" in failed.why) == ("failed", True)


def test_the_graph_shows_what_is_looked_up_in_and_what_is_sent(kit: PipelineKit) -> None:
    rule = {
        "table": "gold_{entity}_devices",
        "static": {"codes": {"path": "/codes.csv"}},
        "sql": "SELECT * FROM {table} JOIN codes USING (device)",
        "sink": {"kafka": {"topic": "devices-{entity}", "keys": ["device"]}, "files": {"path": "/out"}},
    }
    kit.simulate(1, games=1)
    kit.run()
    kit.configured(derive=[rule])
    graph = flow(kit.settings)
    derived = kit.folder_of(0).replace("silver", "gold").replace("events", "devices")
    kinds = {node.id: node.kind for node in graph.nodes}
    ends = {
        (edge.source, edge.target) for edge in graph.edges if f"table:{derived}" in (edge.source, edge.target)
    }
    topic = f"devices-{kit.folder_of(0).removeprefix('silver_').removesuffix('_events')}"
    assert ends == {
        (f"table:{kit.folder_of(0)}", f"table:{derived}"),
        ("static:/codes.csv", f"table:{derived}"),
        (f"table:{derived}", f"sent:{topic}"),
        (f"table:{derived}", f"sent:/out/{derived}"),
    }
    assert [kinds[f"sent:{topic}"], kinds["static:/codes.csv"]] == ["sent", "static"]
    assert "looked up in" in mermaid(graph)
