"""A table that is spoiled, put right, and met by runs that die, at random: it ends with each of its rows once, and so does every other."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.ingest.kafka_records import TOPIC, Sent
from tests.ingest.power import Disk, PowerFailed, seeds
from tests.ingest.queries import GOLF, QUEST, Query, value

from distributary.ingest import failpoints
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log.entries import Standing
from distributary.ingest.parquet.data_file import owner

POINTS = (
    failpoints.AFTER_MANIFEST,
    failpoints.BETWEEN_COMMITS,
    failpoints.BEFORE_LEDGER,
    failpoints.BEFORE_SPARK_COMMIT,
)


class Died(Exception):
    """The process is gone."""


class World:
    """One pipeline's tables and log, what was sent, and what is to happen at which moment of a batch."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root, self.dice = root, random.Random(seed)
        self.sent: list[list[Sent]] = []
        self.dies_at: str | None = None
        self.spoils = False

    @property
    def golf(self) -> Path:
        return self.root / "lake" / GOLF

    @property
    def so_far(self) -> Standing:
        found = self.query.here.log.state().so_far
        assert found is not None
        return found

    def begin(self) -> None:
        """A process starts, and finishes what the one before left; it may die amid that."""
        self.query = Query(self.root, policies={"stuck_table": "park"}, decode={"evolution": "inline"})
        # A batch that was not decided is read again: here its records are others.
        end = self.so_far.ends[TOPIC][0]
        self.sent = [records for records in self.sent if records[0].offset < end]
        self.query.resume(self.sent[-1] if self.sent else [])

    def batch(self) -> None:
        """A few records of each game; the schema of one of them grows now and then."""
        begin = sum(map(len, self.sent))
        games = self.dice.choices(("golf", "quest"), k=self.dice.randint(1, 4))
        version = self.dice.choice((1, 1, 2))
        # A table that is spoiled before a batch is decided stops the run by name, and no file is in question.
        self.spoils = self.spoils and "golf" in games
        records = [Sent(value(version, game_name=game), begin + place) for place, game in enumerate(games)]
        self.sent.append(records)
        self.query.batch(begin, records)

    def reach(self, point: str, batch_id: int) -> None:
        if point == failpoints.AFTER_MANIFEST and self.spoils and GOLF not in self.so_far.parked:
            self.spoils = False
            if (self.golf / "_delta_log").exists():
                other = pa.table({"kafka_offset": pa.array(["high"])})
                write_deltalake(self.golf, other, mode="overwrite", schema_mode="overwrite")
                self.spoiled = True
        if point == self.dies_at:
            self.dies_at = None
            raise Died

    spoiled = False

    def mend(self) -> None:
        if self.spoiled:
            self.spoiled = False
            table = DeltaTable(self.golf)
            table.restore(self.spoiled_version(table) - 1)

    @staticmethod
    def spoiled_version(table: DeltaTable) -> int:
        """The newest version that took another schema's place."""
        return max(
            int(one["version"])
            for one in table.history()
            if one["operation"] == "WRITE" and one.get("operationParameters", {}).get("mode") == "Overwrite"
        )

    def offsets(self, folder: str) -> Counter[int]:
        path = self.root / "lake" / folder
        rows = DeltaTable(path).to_pyarrow_table(columns=["kafka_offset"]) if path.exists() else None
        return Counter() if rows is None else Counter(rows["kafka_offset"].to_pylist())

    def unnamed(self) -> set[str]:
        left = set()
        for folder in (self.root / "lake").iterdir():
            if (folder / "_delta_log").exists():
                named = {Path(path).name for path in DeltaTable(folder).file_uris()}
                left |= {path.name for path in folder.glob("*.parquet") if owner(path.name)} - named
        return left


def lives(world: World) -> None:
    """One process, until it is done or dies."""
    try:
        world.begin()
        for _ in range(world.dice.randint(0, 3)):
            world.spoils = world.dice.random() < 0.4
            world.dies_at = world.dice.choice((*POINTS, None, None, None))
            world.batch()
    except Died:
        pass
    world.dies_at, world.spoils = None, False


@pytest.mark.parametrize("seed", seeds(5, 40))
def test_whatever_happens_each_row_is_in_its_table_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    world = World(tmp_path, seed)
    monkeypatch.setattr(failpoints, "reach", world.reach)
    for _ in range(8):
        lives(world)
        if world.dice.random() < 0.4:
            world.mend()
        world.dies_at = world.dice.choice((failpoints.BETWEEN_COMMITS, None, None))
    world.dies_at = None
    world.mend()
    world.begin()
    assert world.so_far.parked == {}
    sent = [one.offset for records in world.sent for one in records]
    assert world.offsets(GOLF) + world.offsets(QUEST) == Counter(sent)
    ledger = DeltaTable(tmp_path / "lake" / BATCHES_TABLE).to_pyarrow_table()["batch_id"].to_pylist()
    assert len(ledger) == len(set(ledger))
    assert world.unnamed() == set()


def parked(root: Path, monkeypatch: pytest.MonkeyPatch, before: int = 1) -> World:
    """A pipeline of which three batches wait for a table, which had so many before."""
    for name in ("lake", "checkpoint"):
        (root / name).mkdir(exist_ok=True)
    world = World(root, 0)
    monkeypatch.setattr(failpoints, "reach", world.reach)
    monkeypatch.setattr(world.dice, "choices", lambda games, k: ["golf", "quest", "golf"])
    world.begin()
    for number in range(before + 3):
        world.spoils = number == before
        world.batch()
    assert len(world.so_far.parked[GOLF]) == 3
    return world


def put_right(root: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """The same, whose table was put right since."""
    world = parked(root, monkeypatch)
    world.mend()
    return world


# A start that brings in what waits makes some three hundred calls.
@pytest.mark.parametrize("seed", seeds(5, 40))
def test_a_loss_of_power_while_what_waited_is_brought_in_loses_and_doubles_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    world, rng = put_right(tmp_path, monkeypatch), random.Random(seed)
    for _ in range(2):
        disk = Disk((tmp_path / "lake", tmp_path / "checkpoint"), rng.randrange(1, 320))
        try:
            with disk.watched():
                world.begin()
                world.batch()
        except PowerFailed:
            disk.fail(rng)
    world.begin()
    assert world.so_far.parked == {}
    ends = world.so_far.ends[TOPIC][0]
    sent = [one.offset for records in world.sent for one in records]
    assert world.offsets(GOLF) + world.offsets(QUEST) == Counter(range(ends))
    assert set(range(ends)) <= set(sent)
