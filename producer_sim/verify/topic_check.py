"""Whether the pipeline has read what its topics hold: in the place of a truth, Kafka's own offsets."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from pyspark.sql import SparkSession

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.generation import made_anew
from distributary.ingest.inputs.before_a_look import Had
from distributary.ingest.inputs.opening import open_source
from distributary.ingest.kafka.offsets import Positions
from distributary.ingest.settings.model import Settings
from distributary.ingest.source.moments import begins_now, last_offsets
from distributary.producer_sim.verify.coverage import Partition
from distributary.producer_sim.verify.ledger_check import Batch, reached
from distributary.producer_sim.verify.log_check import LogNow
from distributary.producer_sim.verify.verdict import Difference, named

_NO_END = 2**63 - 1


@dataclass(frozen=True, slots=True)
class TopicsNow:
    """The topics of a pipeline as Kafka has them.

    ids         name -> UUID, another one after the topic was made anew
    earliest    the first offset still there in each partition
    ends        the offset behind the last one
    begins      where a partition is to have been read from; nothing of one that is read from where it ended at the time
    until       the first offset of each partition that is not to be read; None where none is
    by_time     whether a time says that: of what is gone nobody can tell any more whether it was before
    older       in words how what gives the offsets was put back from an older copy; empty where it was not
    """

    ids: Mapping[str, str]
    earliest: Positions
    ends: Positions
    begins: Positions
    until: Positions | None = None
    by_time: bool = False
    older: str = ""


def topics_now(settings: Settings, spark: SparkSession | None = None) -> TopicsNow:
    """The topics as they are now, asked within the session's JVM where there is one. Raises BrokerUnavailable, and SetupError for a topic that is not there."""
    # The log first, and then what gives offsets, which is never behind it.
    source, had = settings.source, Had.of(settings).ends
    with open_source(settings, spark) as channels:
        try:
            channels.require_had(had)
        except CheckpointMismatch as error:
            return TopicsNow(channels.topic_ids(), {}, {}, {}, older=str(error))
        # The beginnings first: what Kafka deletes meanwhile is no record that was left out.
        earliest = channels.earliest_offsets()
        begins = begins_now(source.starting_offsets, channels, earliest)
        until, by_time = last_offsets(source.until, channels), isinstance(source.until, datetime)
        # A look may give numbers to what is new, and without a log nobody can tell whether they were given before.
        ends = channels.end_offsets() if had else channels.ends()
        return TopicsNow(channels.topic_ids(), earliest, ends, begins, until, by_time)


def check_topics(topics: TopicsNow, ledger: Sequence[Batch], log: LogNow | None) -> Iterator[Difference]:
    """Everything in which what was read disagrees with what there is to read."""
    anew = [] if log is None else made_anew(log.generation.topics, topics.ids)
    for topic in anew:
        detail = "it was deleted and made anew since: the offsets in tables and ledger count other records"
        yield Difference("topic_made_anew", topic, detail)
    if topics.older and not anew:
        yield Difference("topic_offsets", ", ".join(topics.ids), topics.older)
    begun, ended = _begun(ledger), _ended(ledger, log)
    for partition, earliest, end in _partitions(topics):
        if partition[0] not in anew and partition in ended:
            yield from _check_end(partition, ended[partition], end)
            yield from _check_forgotten(
                partition, ended[partition], min(earliest, end, _to_read(topics, partition))
            )
            first = topics.begins.get(partition[0], {}).get(partition[1])
            if first is not None:
                yield from _check_begin(partition, begun.get(partition, ended[partition]), first)


def unread(topics: TopicsNow, ledger: Sequence[Batch], log: LogNow | None) -> int:
    """How many offsets are there to be read yet."""
    ended = _ended(ledger, log)
    return sum(
        max(0, _last(topics, partition, end) - max(earliest, ended.get(partition, earliest)))
        for partition, earliest, end in _partitions(topics)
    )


def _to_read(topics: TopicsNow, partition: Partition) -> int:
    """Up to which offset anything that is gone was to be read, as far as that can be told."""
    if topics.by_time:
        return 0
    return _last(topics, partition, _NO_END)


def _last(topics: TopicsNow, partition: Partition, end: int) -> int:
    return end if topics.until is None else topics.until.get(partition[0], {}).get(partition[1], end)


def _check_end(partition: Partition, ended: int, end: int) -> Iterator[Difference]:
    if ended > end:
        detail = f"batches read up to offset {ended:,}, the topic ends at {end:,}: it was made anew, or Kafka lost records"
        yield Difference("topic_offsets", named(partition), detail)


def _check_forgotten(partition: Partition, ended: int, earliest: int) -> Iterator[Difference]:
    if ended < earliest:
        detail = f"offsets {ended:,} to {earliest - 1:,} are gone from the topic, and no batch had read them"
        yield Difference("topic_offsets", named(partition), detail)


def _check_begin(partition: Partition, begun: int, earliest: int) -> Iterator[Difference]:
    if begun > earliest:
        detail = f"offsets {earliest:,} to {begun - 1:,} are in the topic, and no batch read them"
        yield Difference("topic_offsets", named(partition), detail)


def _partitions(topics: TopicsNow) -> Iterator[tuple[Partition, int, int]]:
    for topic, earliest in sorted(topics.earliest.items()):
        for number, first in sorted(earliest.items()):
            yield (topic, number), first, topics.ends.get(topic, {}).get(number, first)


def _begun(ledger: Sequence[Batch]) -> dict[Partition, int]:
    """Where each partition was read first."""
    found: dict[Partition, int] = {}
    for batch in ledger:
        for partition, (start, _) in batch.ranges.items():
            found[partition] = min(start, found.get(partition, start))
    return found


def _ended(ledger: Sequence[Batch], log: LogNow | None) -> dict[Partition, int]:
    """Where each partition is read next: as the log says, if there is one, since its newest batch is decided for good."""
    found = reached(ledger)
    if log is not None:
        for topic, partitions in log.so_far.ends.items():
            found.update({(topic, number): offset for number, offset in partitions.items()})
    return found
