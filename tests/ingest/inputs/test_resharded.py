"""A stream whose shards are split and merged while it is read, by runs that die: each record once, and none before those of its key that came before it."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from tests.ingest.inputs.test_from_kinesis import World
from tests.ingest.kinesis.emulated import Emulated

from distributary.ingest.inputs.from_kinesis import KinesisRecords, Shards
from distributary.ingest.kafka.offsets import Offsets
from distributary.ingest.kinesis import fetching, looking
from distributary.ingest.kinesis.reading import parts_of, rows_of

KEYS = [f"key-{number}" for number in range(12)]


class Restless(Emulated):
    """One that producers write into, and that is resharded, before and behind each answer."""

    def __init__(self, dice: random.Random, **how: Any) -> None:
        self.dice, self.sent, self.is_calm = dice, 0, False
        super().__init__(2, **how)

    def get_records(self, **asked: Any) -> dict[str, Any]:
        self.stir()
        answer = super().get_records(**asked)
        self.stir()
        return answer

    def list_shards(self, **asked: Any) -> dict[str, Any]:
        if "NextToken" not in asked:
            self.stir()
        return super().list_shards(**asked)

    def get_shard_iterator(self, **asked: Any) -> dict[str, Any]:
        self.stir()
        return super().get_shard_iterator(**asked)

    def stir(self) -> None:
        with self._lock:
            if self.is_calm or self.dice.random() < 0.5:
                return
            for _ in range(self.dice.randrange(3)):
                self.put([(self.dice.choice(KEYS), b"%d" % self.sent)])
                self.sent += 1
            if len(self._shards) > 30:
                return
            open_ = sorted((one for one in self._shards if one.closed_at is None), key=lambda one: one.low)
            if self.dice.random() < 0.1 and len(open_) < 6:
                self.split(self.dice.choice(open_).number)
            elif self.dice.random() < 0.1 and len(open_) > 1:
                at = self.dice.randrange(len(open_) - 1)
                self.merge(open_[at].number, open_[at + 1].number)
            if self.dice.random() < 0.05:
                self.throttled = 1
            if self.dice.random() < 0.05:
                self.expired = 1


def rows(shards: Shards, offsets: Offsets) -> list[tuple[str, int]]:
    """Key and value of all records of a batch, those of a shard in their order."""
    reading, found = shards._looking, list[tuple[str, int]]()
    for number, (begin, end) in offsets[shards.topic].items():
        for part in parts_of(reading.lines[number].pieces, begin, end) if begin < end else ():
            for batch in rows_of(reading.kept.files, shards.topic, part):
                found += [(row["key"].decode(), int(row["value"])) for row in batch.to_pylist()]
    return found


@pytest.mark.parametrize("seed", range(4))
def test_each_record_is_in_one_batch_whatever_becomes_of_shards_and_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(fetching, "_WAIT_SECONDS", 0.0)
    monkeypatch.setattr(fetching, "_MOST_RECORDS", 7)
    # One behind the other: so the same dice fall the same way.
    monkeypatch.setattr(looking, "SHARDS_AT_ONCE", 1)
    dice = random.Random(seed)
    world = World(tmp_path)
    world.stream = stream = Restless(dice, now=world.clock, page=3)
    read: dict[int, int] = {}
    batches, pending = list[list[tuple[str, int]]](), dict[str, Any]()

    def run(shards: Shards, records: KinesisRecords, count: int) -> bool:
        """Whether nothing was left."""
        nonlocal read
        if pending:
            # The batch that died is made again of what is kept.
            shards.lag({shards.topic: {n: b for n, (b, _) in pending["offsets"]["games"].items()}})
            assert rows(shards, pending["offsets"]) == pending["rows"]
            batches.append(pending["rows"])
            read = {number: end for number, (_, end) in pending["offsets"]["games"].items()}
            pending.clear()
        for _ in range(count):
            ends = shards.end_offsets()
            offsets = records.next_range({"games": read}, ends, dice.choice([1, 5, 1000]))
            if not offsets:
                if stream.is_calm and shards.end_offsets() == ends:
                    return True
                continue
            some = rows(shards, offsets)
            if dice.random() < 0.2:
                pending.update(offsets=offsets, rows=some)
                return False
            batches.append(some)
            read = {number: end for number, (_, end) in offsets["games"].items()}
            world.clock.at += dice.choice([0, 1, 400])
        return False

    is_through = False
    for life in range(400):
        stream.is_calm = life > 12
        with world.opened() as (shards, records):
            is_through = run(shards, records, 12)
        if is_through:
            break
    assert is_through
    found = [value for batch in batches for _, value in batch]
    assert sorted(found) == list(range(stream.sent))
    for key in KEYS:
        mine = [value for batch in batches for of, value in batch if of == key]
        assert mine == sorted(mine)
