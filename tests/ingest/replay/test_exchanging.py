"""Rows that leave a table and others that come, in one entry: once however often it is begun, whoever is first, whatever dies when."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.merge.test_upsert import START
from tests.ingest.merge.upserted import PLACE, read_back, written

from distributary.errors import CommitImpossible, TableAhead
from distributary.ingest import failpoints
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.replay import exchanging
from distributary.ingest.replay.exchanging import Exchange
from distributary.ingest.replay.places import Places
from distributary.ingest.settings.groups import Columns
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.change import create
from distributary.ingest.tables.log import entry, newest_version, put_entry
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.transaction import TableCommit, Transaction

SCHEMA = pa.schema([*PLACE, ("id", pa.int64()), ("said", pa.string())])

NAMES = Columns(kafka_topic="topic", kafka_partition="partition", kafka_offset="offset", kafka_ts="ts")

REPLAY = "feed" * 8


@dataclass
class Table:
    """One to which each row is added."""

    root: Files
    batch: int = -1
    commits: NativeCommits = field(default_factory=NativeCommits)

    @classmethod
    def made(cls, root: Path, partitions: Sequence[str] = (), **properties: str) -> Table:
        found = cls(files_at(root))
        create(found.place, SCHEMA, properties, partitions=partitions)
        return found

    @property
    def place(self) -> Files:
        return self.root.below("t")

    def file(self, offsets: Iterable[int], said: str) -> DataFile:
        rows = [
            {"topic": "t", "partition": n % 2, "offset": n, "ts": START, "id": n, "said": said}
            for n in offsets
        ]
        return written(self.root, "t", pa.Table.from_pylist(rows, SCHEMA), max(self.batch, 0))

    def append(self, offsets: Iterable[int], said: str = "old") -> None:
        self.batch += 1
        transaction = Transaction("events", self.batch)
        assert self.commits.commit(
            TableCommit("t", self.place, [self.file(offsets, said)], SCHEMA, transaction, native=True)
        )

    def exchange(
        self,
        files: Sequence[DataFile],
        leaving: Iterable[int],
        app: str = "replay",
        number: int = 0,
        replay: str = REPLAY,
    ) -> Exchange:
        told = Transaction(app, number, {"told": "x", exchanging.REPLAY: replay})
        commit = TableCommit("t", self.place, files, SCHEMA, told, native=True)
        return Exchange(commit, places_of(leaving), NAMES, replay)

    def said(self) -> dict[int, str]:
        rows = read_back(self.place, SCHEMA).to_pylist()
        assert len({row["id"] for row in rows}) == len(rows)
        return {row["id"]: row["said"] for row in rows}

    def newest(self) -> int:
        version = newest_version(self.place)
        assert version is not None
        return version

    def unnamed(self) -> set[str]:
        named = {
            one["add"]["path"]
            for version in range(self.newest() + 1)
            for one in entry(self.place, version)
            if "add" in one
        }
        return {name for name in self.place.names() if name.endswith(".parquet")} - named


def places_of(offsets: Iterable[int]) -> Places:
    found = {("t", part): np.array(sorted(n for n in offsets if n % 2 == part), np.int64) for part in (0, 1)}
    return {partition: numbers for partition, numbers in found.items() if len(numbers)}


@pytest.fixture
def table(tmp_path: Path) -> Table:
    made = Table.made(tmp_path)
    made.append(range(6))
    made.append(range(6, 12))
    return made


def test_rows_leave_and_others_come_by_one_entry(table: Table) -> None:
    before = table.newest()
    exchange = table.exchange([table.file([3, 4], "new")], [2, 3, 4, 99])
    assert exchange.made()
    assert table.newest() == before + 1
    wanted = dict.fromkeys([n for n in range(12) if n != 2], "old") | {3: "new", 4: "new"}
    assert table.said() == wanted
    actions = entry(table.place, table.newest())
    told = actions[0]["commitInfo"]
    assert (told["operation"], told["told"], told["isBlindAppend"]) == ("MERGE", "x", False)
    assert told["operationMetrics"]["numTargetRowsDeleted"] == "3"
    # The file that has none of them is left alone.
    assert [one["remove"]["dataChange"] for one in actions if "remove" in one] == [True]
    assert not table.exchange([table.file([3, 4], "new")], [2, 3, 4]).made()
    assert table.said() == wanted
    table.append([20])
    assert table.said() == {**wanted, 20: "old"}


def test_rows_may_leave_and_nothing_comes(table: Table) -> None:
    assert table.exchange([], range(6)).made()
    assert set(table.said()) == set(range(6, 12))
    assert table.exchange([], [99], "another").made()
    assert set(table.said()) == set(range(6, 12))


def test_of_one_replay_after_the_other_only_the_newest_number_stays(table: Table) -> None:
    """The log would tell of each for ever, in every checkpoint of it."""
    for number in (5, 7):
        replay = str(number) * 32
        assert table.exchange([], [number], number=number, replay=replay).made()
        assert not table.exchange([], [number], number=number, replay=replay).made()
    # Gone on with by an older copy of the checkpoint: it is in, whatever came since.
    assert not table.exchange([], [5], number=5, replay="5" * 32).made()
    assert set(table.said()) == {n for n in range(12) if n not in (5, 7)}
    # By a number that is taken nobody takes what is decided for what is in.
    for number in (6, 7):
        with pytest.raises(TableAhead, match="what a later replay gave it"):
            table.exchange([], [1], number=number, replay="beef" * 8).made()
    assert 1 in table.said()


def test_one_that_comes_to_a_table_is_known_behind_a_later_one(table: Table) -> None:
    """As where a copy of the checkpoint comes back to it; one of which nobody tells is none that is in."""
    told = [
        TableCommit(
            "t",
            table.place,
            [table.file([20 + number], "new")],
            SCHEMA,
            Transaction("g/replay", number),
            native=True,
        )
        for number in (1, 2)
    ]
    assert all(map(table.commits.commit, told))
    assert not table.commits.commit(told[0])
    assert set(table.said()) == {*range(12), 21, 22}
    other = replace(told[0], files=[table.file([30], "new")])
    with pytest.raises(
        TableAhead, match=r"its log does not tell of this one, 1: the checkpoint was put back"
    ):
        table.commits.commit(other)


@given(st.sets(st.integers(0, 14)), st.sets(st.integers(0, 14)))
def test_those_that_leave_are_gone_and_all_others_stay(
    tmp_path_factory: pytest.TempPathFactory, leaving: set[int], coming: set[int]
) -> None:
    table = Table.made(tmp_path_factory.mktemp("any"))
    for first in (0, 5):
        table.append(range(first, first + 5))
    files = [table.file(sorted(coming & leaving), "new")] if coming & leaving else []
    assert table.exchange(files, leaving).made()
    wanted = {n: "old" for n in range(10) if n not in leaving} | dict.fromkeys(coming & leaving, "new")
    assert table.said() == wanted


def test_a_crash_with_files_written_and_no_entry_is_gone_on_with(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [table.file([1], "new")]

    def dies(point: str, number: int) -> None:
        raise failpoints.Failpoint(point)

    with monkeypatch.context() as patch:
        patch.setattr(failpoints, "reach", dies)
        with pytest.raises(failpoints.Failpoint):
            table.exchange(files, [1, 7]).made()
    assert set(table.said().values()) == {"old"}
    assert table.unnamed()
    assert table.exchange(files, [1, 7]).made()
    assert table.said() == dict.fromkeys([n for n in range(12) if n != 7], "old") | {1: "new"}
    assert table.unnamed() == set()


def test_one_whose_files_are_called_as_those_of_another_takes_nothing_of_that_away(table: Table) -> None:
    """Names carry eight digits of a replay's id: of a hundred thousand replays two share them."""
    assert table.exchange([], [1]).made()
    assert table.exchange([], [7], number=1, replay=REPLAY[:8] + "0" * 24).made()
    assert table.said() == dict.fromkeys([n for n in range(12) if n not in {1, 7}], "old")


def test_who_is_first_in_between_is_looked_at(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    rivals: list[Callable[[], object]] = [
        lambda: table.append([40]),
        # A compaction: the rows are in another file by now.
        lambda: table.exchange([table.file(range(6), "old")], range(6), "compacted").made(),
    ]

    def rival(*given: Any) -> bool:
        if rivals:
            rivals.pop()()
        return put_entry(*given)

    monkeypatch.setattr(exchanging, "put_entry", rival)
    assert table.exchange([table.file([1], "new")], [1, 2]).made()
    assert table.said() == dict.fromkeys([n for n in (*range(12), 40) if n != 2], "old") | {1: "new"}
    assert not [name for name in table.unnamed() if "feed" in name]


def test_an_entry_of_another_in_its_place_has_it_put_once_more(
    table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a local file system, where others look whether a version is there and then rename theirs to it."""
    overwritten = [True]

    def renamed(place: Files, version: int, actions: Any) -> bool:
        put = put_entry(place, version, actions)
        if overwritten and overwritten.pop():
            info = {"commitInfo": {"operation": "WRITE", "isBlindAppend": True}}
            place.delete([f"_delta_log/{version:020d}.json"])
            assert put_entry(place, version, [info])
        return put

    monkeypatch.setattr(exchanging, "put_entry", renamed)
    assert table.exchange([table.file([1], "new")], [1]).made()
    assert table.said() == dict.fromkeys(range(12), "old") | {1: "new"}


def test_partitions_stay_what_they_are(tmp_path: Path) -> None:
    table = Table.made(tmp_path, ["said"])
    part = Table.file(table, range(4), "old")
    assert part.partition == ()
    with pytest.raises(CommitImpossible, match="partitioned by said"):
        table.exchange([part], [1]).made()


@pytest.mark.parametrize(
    ("properties", "why"),
    [({"delta.appendOnly": "true"}, "appendOnly"), ({"delta.constraints.c": "id > 0"}, "CHECK constraint")],
)
def test_a_table_that_lets_no_row_leave_is_told(tmp_path: Path, properties: dict[str, str], why: str) -> None:
    table = Table.made(tmp_path, **properties)
    with pytest.raises(CommitImpossible, match=why):
        table.exchange([], [1]).made()
