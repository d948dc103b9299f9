"""Topics that come and go while a log lives: where each goes on, and which topic of its name it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from distributary.ingest.commit_log.entries import Standing
from distributary.ingest.kafka.offsets import Positions, highest


def with_partitions(
    so_far: Standing,
    now: Mapping[str, str],
    assigned: Mapping[str, Collection[int]],
    begin: Callable[[Collection[str]], Positions],
) -> Standing:
    """The same log once these partitions of each topic are read, where others were before; all that it knows, where none are assigned.

    One that was read before goes on where it was left, others where `begin` says of their topics. `now` is the
    UUID of each topic that is read.
    """
    if not assigned and so_far.left.keys().isdisjoint(so_far.ends):
        return so_far
    known = highest(so_far.left, so_far.ends)
    wanted = {topic: set(assigned.get(topic, known[topic])) for topic in so_far.ends}
    if all(numbers == so_far.ends[topic].keys() for topic, numbers in wanted.items()):
        return so_far
    new = {topic for topic, numbers in wanted.items() if numbers - known[topic].keys()}
    begins = begin(new) if new else {}
    there = {topic: {**begins.get(topic, {}), **known[topic]} for topic in wanted}
    rest = {topic: {n: at for n, at in known[topic].items() if n not in wanted[topic]} for topic in wanted}
    return replace(
        so_far,
        ends={topic: {n: there[topic][n] for n in sorted(numbers)} for topic, numbers in wanted.items()},
        left={
            **{topic: numbers for topic, numbers in so_far.left.items() if topic not in wanted},
            **{topic: numbers for topic, numbers in rest.items() if numbers},
        },
        topics={**so_far.topics, **now},
    )


def with_topics(
    so_far: Standing,
    now: Mapping[str, str],
    begin: Callable[[Collection[str]], Positions],
) -> Standing:
    """The same log once exactly these topics are read; `now` is name -> UUID.

    One that was read before goes on where it was left, others where `begin` says of them. How far those were read that are
    left now stays known.
    """
    came, went = now.keys() - so_far.ends.keys(), so_far.ends.keys() - now.keys()
    if not (came or went):
        return so_far
    new = came - so_far.left.keys()
    begins = begin(new) if new else {}
    begun, known = {**begins, **so_far.left, **so_far.ends}, highest(so_far.left, so_far.ends)
    # Of a topic that is read some partitions may be left.
    left = known.keys() - now.keys() | so_far.left.keys() & so_far.ends.keys()
    return replace(
        so_far,
        ends={topic: begun[topic] for topic in sorted(now)},
        left={topic: so_far.left[topic] if topic in now else known[topic] for topic in sorted(left)},
        topics={**so_far.topics, **now},
    )
