"""Topics that come and go while a log lives: where each goes on, and which topic of its name it is."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace

from distributary.ingest.commit_log.entries import Standing
from distributary.ingest.kafka.offsets import Positions


def with_topics(
    so_far: Standing,
    born_with: Collection[str],
    now: Mapping[str, str],
    begin: Callable[[Collection[str]], Positions],
) -> Standing:
    """The same log once exactly these topics are read; `now` is name -> UUID.

    One that was read before goes on where it was left, others where `begin` says of them. How far those were read that are
    left now stays known. `born_with` are the topics whose UUIDs the log's generation has.
    """
    came, went = now.keys() - so_far.ends.keys(), so_far.ends.keys() - now.keys()
    if not (came or went):
        return so_far
    new = came - so_far.left.keys()
    begins = begin(new) if new else {}
    known = {**begins, **so_far.left, **so_far.ends}
    return replace(
        so_far,
        ends={topic: known[topic] for topic in sorted(now)},
        left={topic: known[topic] for topic in sorted({*so_far.left, *so_far.ends} - now.keys())},
        topics={**so_far.topics, **{topic: now[topic] for topic in sorted(new) if topic not in born_with}},
    )
