"""A stream of Kinesis through whole pipelines: each record once, whatever becomes of shards, of runs, and of what the stream keeps."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.codecs.glue.test_codec import avro_body
from tests.codecs.wire.test_glue import framed
from tests.ingest.e2e.dying import WITHIN_OR_APART, dies
from tests.ingest.e2e.stream_kit import StreamKit, streaming
from tests.ingest.kinesis.test_aggregated import packed
from tests.registry.glue.answers import RecordedGlue, recorded

from distributary.errors import CheckpointMismatch, SetupError
from distributary.ingest.rebuild.silver import replay
from distributary.ingest.run import run
from distributary.ingest.tables.handle import opened
from distributary.producer_sim.demo.background_run import BackgroundRun

pytestmark = [pytest.mark.spark, pytest.mark.folder]


@pytest.fixture
def kit(tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[StreamKit]:
    """A pipeline with an empty stream of two shards."""
    with streaming(tmp_path, spark, monkeypatch) as made:
        yield made


@WITHIN_OR_APART
def test_records_land_once_though_shards_are_split_and_merged_and_a_run_is_killed(
    kit: StreamKit, fail_at: Callable[..., None], apart: bool
) -> None:
    kit.put(range(20))
    dies(kit, "after_manifest", fail_at, apart=apart)
    kit.put(range(20, 30))
    kit.stream.split(0)
    kit.put(range(30, 50))
    kit.stream.merge(1, 2)
    kit.put(range(50, 60), new="true")
    kit.run()
    assert kit.numbers() == list(range(60))
    kit.put(range(60, 65))
    assert kit.run().summary.rows == 5
    assert kit.run().summary.rows == 0
    assert kit.numbers() == list(range(65))
    rows = kit.rows("silver_games").to_pylist()
    assert {row["kafka_partition"] for row in rows} == {0, 1, 2, 3, 4}
    offsets = sorted(row["kafka_offset"] for row in rows if row["kafka_partition"] == 4)
    assert offsets == list(range(len(offsets)))
    assert len(list(kit.folder.rglob("*.arrow"))) < 20
    kit.assert_clean()


def test_a_living_run_reads_on_through_a_split_throttling_and_an_outage(kit: StreamKit) -> None:
    kit.put(range(10))
    with BackgroundRun(kit.settings.continuously(), kit.spark) as running:
        running.wait_for(10)
        kit.stream.throttled = 3
        kit.put(range(10, 20))
        kit.stream.split(1)
        kit.put(range(20, 30))
        running.wait_for(30)
        kit.stream.refused = "InternalFailure"
        kit.put(range(30, 40))
        assert kit.stream.was_refused.wait(60)
        kit.stream.refused = None
        running.wait_for(40)
    assert kit.numbers() == list(range(40))
    kit.assert_clean()


def test_what_retention_took_ends_the_run_or_is_told_in_the_ledger(
    kit: StreamKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    kit.put(range(10))
    kit.run()
    kit.put(range(10, 20))
    now = kit.stream.now
    kit.stream.now = lambda: now() + 30 * 3600
    kit.put(range(20, 25))
    with pytest.raises(
        CheckpointMismatch, match=r"Kinesis has no more of games/[01] from offset \d to before"
    ):
        kit.run()
    kit.configured(source={"on_data_loss": "record"})
    outcome = kit.run()
    assert kit.numbers() == [*range(10), *range(20, 25)]
    assert sorted((one.partition, one.before - one.first) for one in outcome.lost) == [(0, 1), (1, 1)]
    kit.assert_clean()


def test_a_stream_made_anew_is_told_and_latest_begins_at_its_end(kit: StreamKit) -> None:
    kit.put(range(10))
    kit.configured(source={"starting_offsets": "latest"})
    now = kit.stream.now
    kit.stream.now = lambda: now() + 60
    kit.run()
    kit.put(range(10, 12))
    kit.run()
    assert kit.numbers() == [10, 11]
    kit.assert_clean()
    kit.stream.remake(2)
    with pytest.raises(CheckpointMismatch, match="topic 'games' was made anew"):
        kit.run()


# Lighter: tests/ingest/kinesis/test_aggregated.py takes them apart.
@pytest.mark.heavy
def test_records_of_the_producer_library_come_apart_and_keys_and_sequence_numbers_stay(
    kit: StreamKit,
) -> None:
    kit.configured(
        decode={"key": "text"},
        tables=[
            {"match": "*", "columns": {"headers": {"of": "sequence_number", "sub": "sub_sequence_number"}}}
        ],
    )
    kit.stream.put([("a", packed(("a", b'{"n": 0}'), ("b", b'{"n": 1}'))), ("c", b'{"n": 2}')])
    kit.run()
    rows = sorted(kit.rows("silver_games").to_pylist(), key=lambda row: int(row["n"]))
    assert [row["kafka_key_text"] for row in rows] == ["a", "b", "c"]
    assert [row["sub"] for row in rows] == ["0", "1", None]
    assert rows[0]["of"] == rows[1]["of"] != rows[2]["of"]
    kit.assert_clean()


# Lighter: test_glue.py has such records in Kafka.
@pytest.mark.heavy
def test_records_in_glue_s_format_are_decoded_by_its_registry(kit: StreamKit) -> None:
    kit.configured(
        registry={"type": "glue", "glue": {"registry": "games", "region": "eu-central-1"}},
        decode={"format": "avro"},
        route={"by": "field", "field": "game", "table": "t_{entity}"},
    )
    kit.stream.put([("a", framed(avro_body("go"), packed=True)), ("b", framed(avro_body("go")))])
    run(kit.settings, registry=recorded(RecordedGlue()), spark=kit.spark)
    assert kit.rows("t_go")["game"].to_pylist() == ["go", "go"]
    kit.assert_clean()
    assert json.loads(next(kit.folder.rglob("stream.json")).read_text())["shards"]


def test_rows_come_back_from_bronze_once_though_the_stream_is_gone(kit: StreamKit) -> None:
    kit.configured(bronze={})
    kit.put(range(20))
    kit.run()
    opened(f"{kit.settings.sink.root}/silver_games").delete("n % 2 = 0")
    kit.stream.refused = "ResourceNotFoundException"
    for lacking in (10, 0):
        assert replay(kit.settings, spark=kit.spark).lacking == lacking
    assert kit.numbers() == list(range(20))
    with pytest.raises(SetupError, match="there is no stream games"):
        kit.run()
