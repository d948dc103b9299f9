"""Spark's offset files, as Spark 4.0.5 writes them, and as hands and crashes leave them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import CheckpointMismatch, PipelineError
from distributary.ingest.checkpoint.spark_files import SparkFiles, batch_offsets, between
from distributary.ingest.kafka import offsets as offset_log
from distributary.ingest.kafka.offsets import Offsets, differences

QUERY = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 1795279808046, "conf": {"spark.x": "1"}})


def log(spark_files: SparkFiles, batch_id: int, line: str) -> None:
    spark_files.offsets(batch_id).parent.mkdir(parents=True, exist_ok=True)
    spark_files.offsets(batch_id).write_text(f"v1\n{QUERY}\n{line}")


def begin(spark_files: SparkFiles, line: str) -> None:
    spark_files.initial_offsets.parent.mkdir(parents=True)
    spark_files.initial_offsets.write_bytes(b"\0v1\n" + line.encode())


@pytest.fixture
def spark_files(tmp_path: Path) -> SparkFiles:
    spark_files = SparkFiles(tmp_path)
    begin(spark_files, '{"events":{"0":3,"1":0}}')
    log(spark_files, 0, '{"events":{"0":23,"1":20}}')
    log(spark_files, 1, '{"events":{"0":23,"1":40}}')
    return spark_files


def test_the_first_batch_starts_where_the_source_began(spark_files: SparkFiles) -> None:
    assert batch_offsets(spark_files, 0) == {"events": {0: (3, 23), 1: (0, 20)}}


def test_a_later_batch_starts_where_the_one_before_ended(spark_files: SparkFiles) -> None:
    assert batch_offsets(spark_files, 1) == {"events": {0: (23, 23), 1: (20, 40)}}


def test_a_partition_new_in_a_batch_starts_at_zero(spark_files: SparkFiles) -> None:
    log(spark_files, 2, '{"events":{"0":24,"1":40,"2":7}}')
    assert batch_offsets(spark_files, 2) == {"events": {0: (23, 24), 1: (40, 40), 2: (0, 7)}}


def test_a_file_that_is_gone_is_named_and_no_reason_to_end_the_run(spark_files: SparkFiles) -> None:
    spark_files.offsets(0).unlink()
    with pytest.raises(PipelineError, match=r"offsets/0 is gone.*a new query") as caught:
        batch_offsets(spark_files, 1)
    assert not caught.value.fatal
    spark_files.initial_offsets.unlink()
    log(spark_files, 0, '{"events":{"0":23,"1":20}}')
    with pytest.raises(PipelineError, match=r"sources/0/0 is gone"):
        batch_offsets(spark_files, 0)


@pytest.mark.parametrize(
    "line",
    [
        "",
        "-",
        "{",
        "[]",
        "7",
        "{}",
        '{"events":{}}',
        '{"events":{"0":23,"1":2',
        '{"e":{"0":"23"}}',
        '{"e":{"0":1.5}}',
    ],
)
def test_a_file_cut_off_or_edited_is_named(spark_files: SparkFiles, line: str) -> None:
    log(spark_files, 1, line)
    with pytest.raises(CheckpointMismatch, match=r"offsets/1 was cut off or edited"):
        batch_offsets(spark_files, 1)


@pytest.mark.parametrize("content", [b"", b"v1", b"v2\n{}\n{}", b"v1\n{}\n{}\n{}", b"\xff\xfe"])
def test_a_file_of_another_shape_is_named(spark_files: SparkFiles, content: bytes) -> None:
    spark_files.offsets(1).write_bytes(content)
    spark_files.initial_offsets.write_bytes(content)
    for batch_id in (0, 1):
        with pytest.raises(CheckpointMismatch, match="was cut off or edited"):
            batch_offsets(spark_files, batch_id)


def test_a_batch_that_runs_backwards_is_named(spark_files: SparkFiles) -> None:
    log(spark_files, 1, '{"events":{"0":22,"1":40}}')
    with pytest.raises(CheckpointMismatch, match=r"batch 1: .*events/0 starts at 23 and ends at 22"):
        batch_offsets(spark_files, 1)


def test_partitions_that_vanished_are_named(spark_files: SparkFiles) -> None:
    log(spark_files, 1, '{"events":{"0":30}}')
    with pytest.raises(CheckpointMismatch, match="events/1"):
        batch_offsets(spark_files, 1)


def test_differences_name_the_partitions() -> None:
    left: Offsets = {"a": {0: (0, 5), 1: (2, 3)}}
    right: Offsets = {"a": {0: (0, 6), 1: (2, 3)}, "b": {0: (0, 1)}}
    assert differences(left, right) == ["a/0: 0 to 5 against 0 to 6", "b/0: not there against 0 to 1"]


ranges = st.tuples(st.integers(0, 2**62), st.integers(0, 2**62)).map(lambda pair: (min(pair), max(pair)))
offsets = st.dictionaries(
    st.text(min_size=1), st.dictionaries(st.integers(0, 999), ranges, min_size=1), min_size=1
)


@given(offsets)
def test_offsets_survive_json(value: Offsets) -> None:
    through = offset_log.offsets_from_json(json.loads(json.dumps(offset_log.offsets_to_json(value))))
    assert through == value
    assert differences(through, value) == []


@given(offsets)
def test_a_range_is_what_lies_between_its_ends(value: Offsets) -> None:
    assert between(offset_log.starts(value), offset_log.ends(value), "it") == value
