"""Where a new log goes on from those before it, held against what Kafka has now; and from which it does not."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from distributary.errors import CheckpointMismatch, NewerFormat
from distributary.ingest.checkpoint.earlier_runs import positions_had
from distributary.ingest.checkpoint.generation import Generation, check_same_topics, made_anew
from distributary.ingest.commit_log.entries import Standing
from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.commit_log.topics import with_partitions, with_topics
from distributary.ingest.handover.heritage import Heritage
from distributary.ingest.kafka.offsets import Offsets, Positions, Stretches, stretches_within
from distributary.ingest.kafka.source import gone_back, lost
from distributary.ingest.settings.groups import Route, Source
from distributary.ingest.settings.rule_book import RuleBook, TableSpec
from distributary.ingest.source.contract import Channels
from distributary.ingest.source.moments import added_offsets
from distributary.ingest.tables.known import ENTITY_PROPERTY, UPSERT_PROPERTY, TableBook, folder_of_topics
from distributary.ingest.tables.state import TableState

_log = logging.getLogger(__name__)

# A topic may have thousands of partitions.
_MOST_TOLD = 4


def require_order(book: RuleBook, route: Route, planned: Positions, last: Positions) -> None:
    """Raises CheckpointMismatch where offsets went back that order the rows of tables with one row a key: new records would be left out as older ones."""
    for topic, numbers in planned.items():
        found = gone_back({topic: numbers}, last)
        specs = [book.of(topic)] if route.by == "topic" else book.specs
        concerned = next((one for one in specs if one.upsert is not None and one.upsert.by_position), None)
        if found and concerned is not None:
            raise CheckpointMismatch(
                f"{'; '.join(found)}: the broker lost records, and gives their offsets to others. By {concerned.setting} positions say which "
                "record of a key is newer, so those would be taken for older ones than the tables have. Write on_repartition: timestamp there; "
                "or move the tables away, or have route.table name others, and read what is there with a new checkpoint and `start: again`"
            )


@dataclass(frozen=True, slots=True)
class Rereading:
    """A reading of topics that were read before.

    book    what the settings say of tables
    topics  the topics, and the UUID of each
    """

    book: RuleBook
    route: Route
    topics: Mapping[str, str]

    def by_position(self, folder: str, state: TableState) -> tuple[TableSpec, set[str]] | None:
        """What the settings say of a table that is there, by its folder, and the topics by whose offsets its rows are ordered; None where none are.

        A topic that was made anew is refused with the table's first batch.
        """
        entity, told = (state.properties.get(name) for name in (ENTITY_PROPERTY, UPSERT_PROPERTY))
        if entity is None or told is None or self.route.folder(entity) != folder:
            return None
        spec, of_topic = self.book.of(entity), folder_of_topics(self.route)
        if spec.upsert is None or not spec.upsert.by_position:
            return None
        topics = [name for name in self.topics if of_topic is None or of_topic(name) == folder]
        known = {**self.topics, **json.loads(told).get("topics", {})}
        return spec, {name for name in topics if not made_anew({name: known[name]}, self.topics)}


def require_order_again(
    reading: Rereading, heritage: Heritage, tables: TableBook, last: Callable[[], Positions]
) -> None:
    """Raises CheckpointMismatch where topics are to be read again into tables that are there, and offsets went back that order their rows.

    Where none did each record is an older one, and changes nothing. `last` tells where each partition ends.
    """
    owned = heritage.records.all()
    found = {
        folder: of
        for folder, state in (tables.states(owned) if reading.book.upserts else {}).items()
        if (of := reading.by_position(folder, state)) is not None
    }
    if not found:
        return
    ever = heritage.records.ever()
    lives = {folder: {owner.generation for owner in ever[folder]} for folder in found}
    had, ends = positions_had(tables.root, lives), last()
    for folder, (spec, topics) in found.items():
        # What is decided comes into the table yet.
        for positions in (had[folder], _ends(heritage.log(owned[folder]))):
            if back := gone_back({name: positions[name] for name in topics & positions.keys()}, ends):
                raise CheckpointMismatch(
                    f"{'; '.join(back)}: the broker lost records, and gives their offsets to others. By {spec.setting} positions say which "
                    f"record of a key is newer, so those would be taken for older ones than table {folder} has. Move that away, or have "
                    "route.table name another; or write on_repartition: timestamp there"
                )


def _ends(log: CommitLog | None) -> Positions:
    """How far a log has come, as far as anybody can tell: one that is damaged is told of where it is to be gone on with."""
    try:
        so_far = None if log is None else log.state().so_far
    except NewerFormat:
        raise
    except CheckpointMismatch:
        return {}
    return {} if so_far is None else so_far.ends


def going_on(planned: Positions, earliest: Positions, last: Positions, *, records: bool = False) -> Standing:
    """The beginning of a log that goes on from these positions; what they tell of no partition is read from its beginning.

    So is one whose records are gone from there, unless the log `records` what is lost, and one that ends before is read from its
    end (`last`). Either was told before, as a run that meets it stops.
    """
    _tell([] if records else map(str, lost(planned, earliest)))
    tell_back(planned, last)
    reached = within(planned, last)
    ends = {
        topic: {
            number: _begins(reached.get(topic, {}).get(number), first, records=records)
            for number, first in numbers.items()
        }
        for topic, numbers in earliest.items()
    }
    # Partitions, too, where only some of a topic's are read now.
    left = {
        topic: {number: at for number, at in numbers.items() if number not in earliest.get(topic, {})}
        for topic, numbers in planned.items()
    }
    return Standing(ends=ends, left={topic: numbers for topic, numbers in left.items() if numbers})


def after_others(
    book: RuleBook, route: Route, source: Source, channels: Channels, planned: Positions
) -> Standing:
    """The beginning of a log that goes on from where others ended. Raises CheckpointMismatch where offsets went back that order rows, or that would be given to other records."""
    channels.require_had(planned)
    last = channels.ends()
    require_order(book, route, planned, last)
    records = source.on_data_loss == "record"
    return going_on(planned, channels.earliest_offsets(), last, records=records)


def as_read_now(so_far: Standing, generation: Generation, channels: Channels, source: Source) -> Standing:
    """A log that lives, once it reads the topics and partitions that are to be read now: what came and what went is told.

    Raises CheckpointMismatch where a topic that it has offsets of was made anew, or what gives them was put back from an older copy.
    """
    channels.require_had(so_far.ends)
    begin = partial(added_offsets, source.starting_offsets, channels)
    if so_far.ends.keys() != set(channels.names()):
        so_far = _with_topics(so_far, generation, channels, begin)
    chosen = source.partitions
    # Of those that nobody named so far it is not known that they came since.
    wanted = channels.partitions() if so_far.assigned and not chosen else chosen
    found = with_partitions(so_far, generation.as_of(so_far).world.topics, wanted, begin)
    return found if found.assigned == bool(chosen) else replace(found, assigned=bool(chosen))


def _with_topics(
    so_far: Standing,
    generation: Generation,
    channels: Channels,
    begin: Callable[[Collection[str]], Positions],
) -> Standing:
    now = channels.topic_ids()
    check_same_topics(generation.as_of(so_far), now)
    found = with_topics(so_far, now, begin)
    for topic in sorted(found.ends.keys() - so_far.ends.keys()):
        _log.warning("topic %s is read from here on, from %s", topic, _places(found.ends[topic]))
    for topic in sorted(so_far.ends.keys() - found.ends.keys()):
        _log.warning(
            "topic %s is read no more: it was read up to before %s, and goes on there once it is among source.topics again",
            topic,
            _places(found.left[topic]),
        )
    return found


def _places(numbers: Mapping[int, int]) -> str:
    told = [f"offset {offset} of partition {number}" for number, offset in sorted(numbers.items())]
    return ", ".join(told[:_MOST_TOLD]) + (", ..." if len(told) > _MOST_TOLD else "")


def tell_back(positions: Positions, last: Positions) -> None:
    """Say which partitions end before what a new log takes for read, or for committed."""
    _tell(gone_back(positions, last))


def _tell(sentences: Iterable[str]) -> None:
    for sentence in sentences:
        _log.warning("%s; the new checkpoint goes on with those that are there", sentence)


def _begins(reached: int | None, earliest: int, *, records: bool) -> int:
    """Where a partition goes on of which so much was read."""
    if reached is None:
        return earliest
    return reached if records else max(reached, earliest)


def within(positions: Positions, ends: Positions) -> Positions:
    """These positions, none of them behind its partition's end: what comes there is new."""
    return {
        topic: {
            number: min(position, ends.get(topic, {}).get(number, position))
            for number, position in numbers.items()
        }
        for topic, numbers in positions.items()
    }


def placed_within(placed: Stretches, ends: Positions) -> Stretches:
    """The same of stretches; those of a topic that is not read now stay."""
    here: Offsets = {
        topic: {number: (0, end) for number, end in numbers.items()} for topic, numbers in ends.items()
    }
    elsewhere = {topic: own for topic, own in placed.items() if topic not in ends}
    return {**elsewhere, **stretches_within(placed, here)}
