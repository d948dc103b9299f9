"""A Kinesis stream as a source: in what order it is read, where it begins and ends, and what becomes of losses and outages."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.kinesis.emulated import Emulated
from tests.ingest.kinesis.looked import HOUR, Clock

from distributary.errors import BrokerUnavailable, CheckpointMismatch
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import World as KeptWorld
from distributary.ingest.checkpoint.generation import born
from distributary.ingest.inputs.from_kinesis import KinesisRecords, RecordsGone, Shards, open_stream
from distributary.ingest.kafka.offsets import Positions
from distributary.ingest.kinesis import fetching
from distributary.ingest.settings.model import Settings
from distributary.ingest.source.contract import Tell
from distributary.ingest.source.moments import first_offsets, last_offsets


class World:
    """A stream of one shard, and a clock."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, Clock()
        self.stream = Emulated(1, now=self.clock)

    def settings(self, name: str = "streamed", place: str = "./checkpoint", **source: Any) -> Settings:
        given = {
            "name": name,
            "checkpoint": place,
            "source": {"kinesis": {"stream": "games"}, **source},
            "decode": {"format": "json"},
            "route": {"by": "topic"},
            "sink": {"root": "./lake"},
            "trigger": {"available_now": True},
        }
        return Settings.from_dict(given, self.folder)

    @contextmanager
    def opened(self, tell: Tell | None = None, **source: Any) -> Iterator[tuple[Shards, KinesisRecords]]:
        """The source, and its records as no session reads them."""
        settings = self.settings(**source)
        assert settings.source.kinesis is not None
        with open_stream(settings, settings.source.kinesis, tell=tell, client=self.stream) as shards:
            yield shards, KinesisRecords(None, settings.source, shards)  # type: ignore[arg-type] # none is needed

    def moment(self) -> datetime:
        return datetime.fromtimestamp(self.clock.at, timezone.utc)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def at(**shards: int) -> Positions:
    return {"games": {int(name[1:]): offset for name, offset in shards.items()}}


def test_no_batch_has_records_of_a_shard_before_all_of_its_parents_are_in_earlier_ones(world: World) -> None:
    world.stream.put_into(0, *[b"0"] * 5)
    world.stream.split(0)
    world.stream.put_into(1, b"1")
    world.stream.put_into(2, b"1", b"2")
    with world.opened() as (shards, records):
        ends = shards.end_offsets()
        assert ends == at(_0=5, _1=1, _2=2)
        read, batches = at(_0=0, _1=0, _2=0), []
        while offsets := records.next_range(read, ends, 3):
            read = {"games": {number: end for number, (_, end) in offsets["games"].items()}}
            batches.append(read["games"])
    assert batches == [{0: 3, 1: 0, 2: 0}, {0: 5, 1: 0, 2: 0}, {0: 5, 1: 1, 2: 2}]


def test_what_came_of_shards_that_had_nothing_waits_for_those_before_them(world: World) -> None:
    """As of a stream that was given more shards and fewer again, without a record in between."""
    world.stream.put_into(0, *[b"0"] * 5)
    world.stream.split(0)
    world.stream.merge(1, 2)
    world.stream.put_into(3, b"1")
    with world.opened() as (shards, records):
        ends = shards.end_offsets()
        read, batches = at(_0=0), []
        while offsets := records.next_range(read, ends, 3):
            read = {"games": {number: end for number, (_, end) in offsets["games"].items()}}
            batches.append((read["games"][0], read["games"][3]))
    assert batches == [(3, 0), (5, 0), (5, 1)]


@pytest.mark.parametrize("is_seen", [True, False])
def test_what_came_of_shards_that_lost_all_waits_for_those_before_them(
    world: World, *, is_seen: bool
) -> None:
    """Be it that nobody knows what a shard came of that came and went while nobody looked."""
    world.stream.put_into(0, *[b"0"] * 5)
    with world.opened() as (shards, _):
        if is_seen:
            world.stream.split(0)
        assert shards.end_offsets()["games"][0] == 5
    if not is_seen:
        world.stream.split(0)
    world.stream.put_into(1, b"lost")
    world.stream.split(1)
    world.clock.at += 25 * HOUR
    world.stream.put_into(3, b"1")
    with world.opened(on_data_loss="record") as (shards, records):
        read, batches = dict.fromkeys(shards.end_offsets()["games"], 0), list[tuple[int, int]]()
        for _ in range(8):
            try:
                offsets = records.next_range({"games": read}, shards.end_offsets(), 3)
            except RecordsGone:
                here = shards.earliest_offsets()["games"]
                read = {number: max(at, here.get(number, 0)) for number, at in read.items()}
                continue
            read = {number: end for number, (_, end) in offsets.get("games", {}).items()} or read
            batches.append((read[0], read[3]))
    assert batches[-1][0] >= 5
    # Behind a place for what may be gone.
    assert batches[-1][1] == 2
    assert all(after < 2 for before, after in batches if before < 5)


def test_a_reading_begins_where_the_settings_say_and_ends_so(world: World) -> None:
    world.stream.put_into(0, b"0", b"1")
    world.clock.at += HOUR
    begins = world.moment()
    world.stream.put_into(0, b"2", b"3")
    world.clock.at += HOUR
    until = world.moment()
    world.stream.put_into(0, b"4")
    with world.opened(starting_offsets=begins, until=until, tell=lambda *_: None) as (shards, _):
        assert first_offsets(begins, shards) == at(_0=0)
        assert last_offsets(until, shards) == at(_0=2)
        assert last_offsets(until + timedelta(hours=1), shards) == at(_0=3)
        assert shards.ends() == at(_0=3)


def test_latest_is_the_end_at_the_first_start(world: World) -> None:
    world.stream.put_into(0, b"0")
    world.clock.at += HOUR
    with world.opened(starting_offsets="latest") as (shards, _):
        assert first_offsets("latest", shards) == at(_0=0)
    world.clock.at += HOUR
    world.stream.put_into(0, b"1")
    with world.opened(starting_offsets="latest") as (shards, _):
        assert shards.end_offsets() == at(_0=1)


def test_what_is_lost_is_met_where_it_comes_next(world: World) -> None:
    world.stream.put_into(0, *[b"0"] * 3)
    with world.opened() as (shards, _):
        shards.end_offsets()
    world.clock.at += 30 * HOUR
    world.stream.put_into(0, b"1")
    with world.opened() as (shards, records):
        ends = shards.end_offsets()
        assert records.next_range(at(_0=0), ends, 10) == {"games": {0: (0, 3)}}
        with pytest.raises(
            CheckpointMismatch, match="Kinesis has no more of games/0 from offset 3 to before 4"
        ):
            records.next_range(at(_0=3), ends, 10)
        assert shards.earliest_offsets() == at(_0=4)
    with world.opened(on_data_loss="record") as (shards, records):
        with pytest.raises(RecordsGone):
            records.next_range(at(_0=3), shards.ends(), 10)
        assert records.next_range(at(_0=4), shards.ends(), 10) == {"games": {0: (4, 5)}}


def test_the_newest_batchs_records_stay_until_another_one_is_behind_it(world: World) -> None:
    def first() -> int:
        return shards.earliest_offsets()["games"][0]

    with world.opened() as (shards, records):
        for _ in range(4):
            world.stream.put_into(0, b"0")
            ends = shards.end_offsets()
        shards.lag(at(_0=2), ends)
        records.next_range(at(_0=2, _1=0), ends, 1)
        assert first() == 0
        records.next_range(at(_0=3), ends, 1)
        assert first() == 2
    with world.opened() as (shards, records):
        shards.lag(at(_0=4))
        assert first() == 2


def test_two_pipelines_on_one_stream_each_read_all_of_it(world: World) -> None:
    world.stream.put_into(0, b"0", b"1")
    other = world.settings().model_copy(update={"name": "other"})
    assert other.source.kinesis is not None
    with (
        world.opened() as (mine, records),
        open_stream(other, other.source.kinesis, client=world.stream) as theirs,
    ):
        assert mine.end_offsets() == theirs.end_offsets() == at(_0=2)
        assert mine.topic_ids() != theirs.topic_ids()
        world.stream.put_into(0, b"2")
        ends = mine.end_offsets()
        for read in (2, 3):
            records.next_range(at(_0=read), ends, 1)
        # What one has in its tables, and lets go of, the other still has.
        assert (mine.earliest_offsets(), theirs.earliest_offsets()) == (at(_0=2), at(_0=0))
        assert theirs.end_offsets() == at(_0=3)


def test_an_outage_is_waited_for_where_there_is_somebody_to_tell(world: World) -> None:
    told = list[str]()

    def tell(reason: str, _: float) -> None:
        told.append(reason)
        world.stream.refused = None

    with world.opened() as (shards, _):
        world.stream.refused = "InternalFailure"
        with pytest.raises(BrokerUnavailable, match=r"stream games, fails \(InternalFailure\)"):
            shards.end_offsets()
        assert not shards.was_away()
    with world.opened(tell=tell) as (shards, _):
        world.stream.put_into(0, b"0")
        assert shards.end_offsets() == at(_0=1)
    assert len(told) == 1


def test_a_run_that_ends_by_itself_keeps_no_more_than_its_batches_are_about_to_take(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "_MOST_RECORDS", 2)
    world.stream.page = 2
    world.stream.put_into(0, *[b"0"] * 9)
    world.stream.split(0)
    world.stream.put_into(1, *[b"1"] * 3)
    world.stream.put_into(2, *[b"2"] * 2)
    read, batches, kept = at(_0=0), 0, list[int]()
    with world.opened(tell=lambda *_: None) as (shards, records):
        assert shards.ends() == at(_0=0, _1=0, _2=0), "nothing is read before a batch asks for it"
        while offsets := records.next_range(read, shards.ends(), 3):
            read = {"games": {number: end for number, (_, end) in offsets["games"].items()}}
            batches += 1
            kept.append(sum(len(line.pieces) for line in shards._looking.lines.values()))
            # What comes while it goes on is another run's, or a part of this one; it has an end in any case.
            world.clock.at += 1
            world.stream.put_into(2, b"more")
            assert batches < 20
    assert read["games"][0] == 9
    assert read["games"][1] == 3
    assert read["games"][2] >= 2
    assert max(kept) <= 8


def test_a_run_that_ends_by_itself_ends_after_an_outage_all_the_same(world: World) -> None:
    world.stream.put_into(0, *[b"0"] * 3)
    told = list[str]()

    def tell(reason: str, _: float) -> None:
        told.append(reason)
        world.stream.refused = None

    with world.opened(tell=tell) as (shards, records):
        world.stream.refused = "InternalFailure"
        assert records.next_range(at(_0=0), shards.ends(), 10) == {"games": {0: (0, 3)}}
        world.stream.refused = "InternalFailure"
        assert records.next_range(at(_0=3), shards.ends(), 10) == {}
    assert told


def test_a_pipeline_that_gets_another_name_goes_on_with_what_it_has_read_and_nobody_else_does(
    world: World, tmp_path: Path
) -> None:
    world.stream.put_into(0, b"0", b"1")
    with world.opened() as (shards, _):
        shards.end_offsets()
        ids, cluster = shards.topic_ids(), shards.cluster_id()
    first = Checkpoint.at(tmp_path / "checkpoint")
    first.make()
    born(first, "streamed", KeptWorld(cluster, ids, {}))
    # What was read is gone from the stream, and was in no batch yet.
    world.clock.at += 30 * HOUR
    for again in range(2):
        with world.opened(name="renamed") as (shards, _):
            assert (shards.topic_ids(), shards.ends()) == (ids, at(_0=2)), again
    # So does a new checkpoint of it.
    with world.opened(name="renamed", place="./second") as (shards, _):
        assert shards.topic_ids() == ids
    with (
        pytest.raises(
            CheckpointMismatch, match=r"pipeline renamed goes on with .*give this one another name"
        ),
        world.opened(place="./another"),
    ):
        pass
    with world.opened() as (shards, _):
        assert shards.topic_ids() == ids
    with world.opened(place="./third") as (shards, _):
        assert shards.topic_ids() == ids


def test_what_is_kept_that_was_put_back_from_an_older_copy_gives_no_offset_once_more(world: World) -> None:
    """Kinesis forgets what was between, and what comes then would have the offsets of that."""
    kept, copy = world.folder / "lake/.distributary/kinesis", world.folder / "copy"
    world.stream.put_into(0, *[b"0"] * 5)
    with world.opened() as (shards, _):
        assert shards.end_offsets() == at(_0=5)
    shutil.copytree(kept, copy)
    world.stream.put_into(0, *[b"1"] * 4)
    with world.opened() as (before, _), world.opened() as (shards, _):
        assert before.ends() == at(_0=5)
        before.require_had(shards.end_offsets())
    shutil.rmtree(kept)
    copy.rename(kept)
    with world.opened() as (shards, _):
        shards.require_had(at(_0=5))
        with pytest.raises(
            CheckpointMismatch, match=r"ends before offset 5, .* up to before 9: it was put back"
        ):
            shards.require_had(at(_0=9))
