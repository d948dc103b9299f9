"""Places in Kafka's partitions: between which offsets records were read and how many, and which rows are committed already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from distributary.ingest.kafka.offsets import Stretches


@dataclass(slots=True)
class Span:
    """The number of records read from a partition, and the first and last offset among them."""

    count: int
    first: int
    last: int

    def join(self, other: Span) -> Span:
        """Both spans as one."""
        return Span(self.count + other.count, min(self.first, other.first), max(self.last, other.last))


# By topic and partition.
Spans = dict[tuple[str, int], Span]


def join_spans(spans: Spans, others: Spans) -> None:
    """Take `others` into `spans`."""
    for where, span in others.items():
        spans[where] = spans[where].join(span) if where in spans else span


def count_spans(raw: pa.RecordBatch, spans: Spans) -> None:
    """Take the records of a batch into `spans`."""
    topics = raw["topic"].dictionary_encode()
    offsets = raw["offset"].to_numpy()
    places = topics.indices.to_numpy().astype(np.int64) << 32 | raw["partition"].to_numpy()
    for place in np.unique(places):
        mine = offsets[places == place]
        where = (topics.dictionary[int(place) >> 32].as_py(), int(place) & 0xFFFFFFFF)
        join_spans(spans, {where: Span(len(mine), int(mine.min()), int(mine.max()))})


def spans_of(stretches: Stretches) -> Spans:
    """The spans of all records in these stretches."""
    return {
        (topic, number): Span(sum(end - first for first, end in own), own[0][0], own[-1][1] - 1)
        for topic, partitions in stretches.items()
        for number, own in partitions.items()
    }


def place_of(raw: pa.RecordBatch, row: int) -> tuple[str, int, int]:
    """Where a record stands in Kafka: topic, partition, offset."""
    topic, partition, offset = (raw[name][row].as_py() for name in ("topic", "partition", "offset"))
    return topic, partition, offset


# Topic, partition, and the first offset that is not in the table.
Ends = Mapping[str, Mapping[int, int]]


def committed(raw: pa.RecordBatch, rows: npt.NDArray[np.int64], ends: Ends) -> npt.NDArray[np.bool_]:
    """Whether each of these rows of the batch stands below the offset its partition has reached."""
    topics = raw["topic"].to_pylist()
    partitions, offsets = raw["partition"].to_numpy(), raw["offset"].to_numpy()
    reached = [ends.get(topics[row], {}).get(int(partitions[row]), 0) for row in rows]
    below: npt.NDArray[np.bool_] = offsets[rows] < np.array(reached, dtype=np.int64)
    return below


def placed(raw: pa.RecordBatch, rows: npt.NDArray[np.int64], stretches: Stretches) -> npt.NDArray[np.bool_]:
    """Whether each of these rows of the batch stands in one of the stretches."""
    found = np.zeros(len(rows), np.bool_)
    topics = pc.fill_null(raw["topic"], "")
    partitions, offsets = raw["partition"].to_numpy()[rows], raw["offset"].to_numpy()[rows]
    for topic, own in stretches.items():
        of_topic = pc.equal(topics, topic).to_numpy(zero_copy_only=False)[rows]
        for number, them in own.items():
            mine = np.flatnonzero(of_topic & (partitions == number))
            if not len(them):
                continue
            begins, ends = np.array(them, np.int64).T
            at = np.searchsorted(begins, offsets[mine], side="right") - 1
            found[mine] = (at >= 0) & (offsets[mine] < ends[at])
    return found


def stretches_of(offsets: npt.NDArray[np.int64]) -> list[tuple[int, int]]:
    """The stretches that these offsets of one partition make."""
    if not len(offsets):
        return []
    distinct = np.unique(offsets)
    breaks = np.flatnonzero(np.diff(distinct) > 1)
    begins = distinct[np.concatenate([[0], breaks + 1])]
    ends = distinct[np.concatenate([breaks, [len(distinct) - 1]])] + 1
    return list(zip(begins.tolist(), ends.tolist(), strict=True))
