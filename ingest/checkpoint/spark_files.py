"""Spark's own files of a streaming query, read: which offsets a batch is made of.

`foreachBatch` is told its batch id but not its offsets. Its end is the last line of `offsets/<batch_id>`, there
before the call; its start is the end of the batch before, for batch 0 the file `sources/0/0`. A partition that is
new in a batch starts at offset 0: Spark reads it from its earliest offset and, with `failOnDataLoss` (always on
here), refuses to go on when that is not 0.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from distributary.errors import CheckpointMismatch, PipelineError
from distributary.ingest.checkpoint.damage import damaged
from distributary.ingest.kafka.offsets import Offsets, Positions, positions_from_json, positions_to_json

_REMEDY = "start the run again, which plans the batch anew"


@dataclass(frozen=True, slots=True)
class SparkFiles:
    """The folder that Spark is given for the files of one query."""

    folder: Path

    def offsets(self, batch_id: int) -> Path:
        """Spark's plan of a batch: the offsets at which it ends."""
        return self.folder / "offsets" / str(batch_id)

    @property
    def commits(self) -> Path:
        """Where Spark notes which batches are done."""
        return self.folder / "commits"

    @property
    def initial_offsets(self) -> Path:
        """Where Spark's Kafka source wrote down where the very first batch starts."""
        return self.folder / "sources" / "0" / "0"


def batch_offsets(spark: SparkFiles, batch_id: int) -> Offsets:
    """The offsets of a batch that Spark has planned.

    Raises PipelineError for files that are gone, CheckpointMismatch for those that were cut off or edited.
    """
    return between(batch_start(spark, batch_id), batch_end(spark, batch_id), f"batch {batch_id}")


def batch_start(spark: SparkFiles, batch_id: int) -> Positions:
    """Where a batch starts: the end of the one before; partitions new in this batch are not in it."""
    return batch_end(spark, batch_id - 1) if batch_id > 0 else initial(spark)


def batch_end(spark: SparkFiles, batch_id: int) -> Positions:
    """Where a batch ends, each partition's first offset after it."""
    path = spark.offsets(batch_id)
    lines = _text(path).splitlines()
    # A version, the query's settings, then one line a source: ours has one.
    if len(lines) != 3 or lines[0] != "v1":
        raise damaged(path, f"it has {len(lines)} lines, not the three of a query with one source")
    return _positions(path, lines[2])


def between(start: Positions, end: Positions, what: str) -> Offsets:
    """The ranges from start to end. Raises CheckpointMismatch, naming `what`, where these do not belong together."""
    gone = [
        f"{topic}/{number}" for topic in start for number in start[topic] if number not in end.get(topic, {})
    ]
    if gone:
        raise CheckpointMismatch(
            f"{what}: Spark's files know partitions that are not there any more: {', '.join(gone)}; "
            "the topic was made anew or a file was edited. " + _REMEDY
        )
    offsets = {
        topic: {
            number: (start.get(topic, {}).get(number, 0), last) for number, last in sorted(partitions.items())
        }
        for topic, partitions in sorted(end.items())
    }
    _check_forward(offsets, what)
    return offsets


def _check_forward(offsets: Offsets, what: str) -> None:
    for topic, ranges in offsets.items():
        for number, (start, end) in ranges.items():
            if not 0 <= start <= end:
                raise CheckpointMismatch(
                    f"{what}: Spark's files say that {topic}/{number} starts at {start} and ends at {end}; "
                    "one of them was edited. " + _REMEDY
                )


def initial(spark: SparkFiles) -> Positions:
    """Where the very first batch starts."""
    path = spark.initial_offsets
    # Kafka's source puts a zero byte before the version, for the sake of readers from Spark 2.1.0.
    lines = _text(path).lstrip("\0").splitlines()
    if len(lines) != 2 or lines[0] != "v1":
        raise damaged(path, f"it has {len(lines)} lines, not a version and the offsets")
    return _positions(path, lines[1])


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError as error:
        # Whoever tidies up takes what is old: a query that begins anew has lost nothing by it.
        raise PipelineError(
            f"Spark's file {path} is gone, as if somebody had tidied up there; a new query plans the batch anew"
        ) from error
    except ValueError as error:
        raise damaged(path, "it is not text") from error


def _positions(path: Path, line: str) -> Positions:
    try:
        value: Any = json.loads(line)
        positions = positions_from_json(value)
    except (ValueError, TypeError, AttributeError) as error:
        raise damaged(path, "its last line holds no offsets") from error
    if value != positions_to_json(positions) or not positions or not all(positions.values()):
        raise damaged(path, "its last line names no partition")
    return positions
