"""Where a reading of topics begins and ends, as the settings say it, in offsets of the cluster as it is now."""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime, timedelta, timezone
from typing import Literal

from distributary.errors import ConfigError
from distributary.ingest.kafka.offsets import Positions, highest, lowest
from distributary.ingest.source.contract import Channels

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

# As the settings have them.
Begins = Literal["earliest", "latest"] | datetime | Positions
Ends = datetime | Positions | None


def first_offsets(begins: Begins, channels: Channels) -> Positions:
    """Where each partition begins; one that offsets leave out begins with its first record.

    Of a point in time it is the first record that was written then or later, and the end where there is none. Raises
    ConfigError for offsets that are not in the topics.
    """
    if begins == "latest":
        return channels.end_offsets()
    if begins == "earliest":
        return channels.beginning()
    earliest = channels.earliest_offsets()
    if isinstance(begins, datetime):
        return _at(begins, channels)
    return _over(earliest, _within(begins, earliest, channels.ends()))


def added_offsets(begins: Begins, channels: Channels, topics: Collection[str]) -> Positions:
    """Where topics begin that are added to a reading that goes on.

    One that has come to fit a pattern had nothing when that one began: its first record is new, also where a reading begins at the end.
    """
    of_these = (
        {topic: begins[topic] for topic in topics if topic in begins} if isinstance(begins, dict) else begins
    )
    found = first_offsets(of_these, channels)
    if begins == "latest":
        found = {
            **found,
            **{topic: of for topic, of in channels.earliest_offsets().items() if channels.is_found(topic)},
        }
    return {topic: found[topic] for topic in topics}


def last_offsets(ends: Ends, channels: Channels) -> Positions | None:
    """The first offset of each partition that is read no more; None where a reading has no end.

    Of what the settings leave out, of records that are not there yet, and of a point in time that none is behind, it is where
    the partition ends now. Raises ConfigError for a topic or partition that is not read.
    """
    if ends is None:
        return None
    now = channels.end_offsets()
    if isinstance(ends, datetime):
        return lowest(_at(ends, channels), now)
    _require_read(ends, now, "source.until")
    return {
        topic: {number: min(end, ends.get(topic, {}).get(number, end)) for number, end in numbers.items()}
        for topic, numbers in now.items()
    }


def begins_now(begins: Begins, channels: Channels, earliest: Positions) -> Positions:
    """Where a reading should have begun that began before, of what is still there; nothing of a reading that began at its topics' end."""
    if begins == "latest":
        return {}
    if begins == "earliest":
        return earliest
    if isinstance(begins, datetime):
        return highest(earliest, _at(begins, channels))
    return highest(earliest, {topic: numbers for topic, numbers in begins.items() if topic in earliest})


def _at(moment: datetime, channels: Channels) -> Positions:
    """The first record of each partition from this moment on; the end where there is none."""
    # A record's time is of whole milliseconds: of those within one, none is before its beginning.
    milliseconds = -((_EPOCH - moment) // timedelta(milliseconds=1))
    # Asked first: a record that comes in between stands at or behind what was the end.
    ends = channels.end_offsets()
    return _over(ends, channels.offsets_from(max(0, milliseconds)))


def _over(below: Positions, above: Positions) -> Positions:
    return {topic: {**numbers, **above.get(topic, {})} for topic, numbers in below.items()}


def _within(begins: Positions, earliest: Positions, ends: Positions) -> Positions:
    """These offsets. Raises ConfigError where one of them is none of its partition's."""
    _require_read(begins, ends, "source.starting_offsets")
    wrong = [
        f"{topic}/{number} has offsets {earliest[topic].get(number, 0)} to before {ends[topic][number]}, and is to begin at {offset}"
        for topic, numbers in begins.items()
        for number, offset in numbers.items()
        if not earliest[topic].get(number, 0) <= offset <= ends[topic][number]
    ]
    if wrong:
        raise ConfigError(f"source.starting_offsets: {'; '.join(wrong)}; write offsets that are there")
    return begins


def _require_read(named: Positions, there: Positions, setting: str) -> None:
    strange = [
        f"{topic}/{number}"
        for topic, numbers in sorted(named.items())
        for number in sorted(numbers)
        if number not in there.get(topic, {})
    ]
    if strange:
        raise ConfigError(f"{setting} names {', '.join(strange)}, which is not read here; correct it")
