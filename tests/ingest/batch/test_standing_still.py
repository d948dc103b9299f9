"""A run stands still at one call of the seam after the other, while another one takes over and goes on: each record is in its table once."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable
from tests.ingest.batch.test_runner import stopped
from tests.ingest.clocks import HOUR, clock_off
from tests.ingest.kafka_records import TOPIC, Sent
from tests.ingest.queries import GOLF, QUEST, Query, value

from distributary.errors import Fenced, PolicyStopped
from distributary.ingest.batch import rewrite
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.batch.passes import discard
from distributary.ingest.checkpoint.stuck import StuckCommits
from distributary.ingest.storage.posix import PosixFiles

CALLS = ("put_new", "put", "delete", "names", "info", "read", "folders", "writer")

# A start that finishes a batch, and two batches, of which the first brings a column.
MOST_CALLS, EVERY = 420, 5

# In its start, amid what it finishes, in its first batch, in its second one.
OTHER_CLOCKS = (31, 121, 211, 331)


class Stop:
    """Holds all threads of one run at their calls, from its call number `at` on, until it is woken."""

    def __init__(self, at: int) -> None:
        self.at, self.calls = at, 0
        self.stands, self.woken = threading.Event(), threading.Event()
        self._threads: set[threading.Thread] = set()

    def call(self) -> None:
        """One call by whichever thread."""
        me = threading.current_thread()
        if not self.stands.is_set():
            self._threads.add(me)
            self.calls += 1
            if self.calls == self.at:
                self.stands.set()
        if self.stands.is_set() and me in self._threads:
            self.woken.wait()


@contextmanager
def standing(stop: Stop, run: Any) -> Iterator[list[BaseException]]:
    """A run in a thread of its own that stands still, or is done; within the block another one may run. At its end it is woken."""
    ended: list[BaseException] = []

    def kept() -> None:
        try:
            run()
        except Exception as error:  # noqa: BLE001 whatever it ends with is looked at
            ended.append(error)

    thread = threading.Thread(target=kept, daemon=True)
    with pytest.MonkeyPatch.context() as patch:
        for name in CALLS:
            patch.setattr(PosixFiles, name, held(getattr(PosixFiles, name), stop))
        thread.start()
        while thread.is_alive() and not stop.stands.wait(0.01):
            continue
        # One that is done stands still nowhere, and who runs next is not to in its place.
        stop.at = stop.at if stop.stands.is_set() else 0
        try:
            yield ended
        finally:
            # One that stood still for ever would hold its locks against all tests to come.
            stop.woken.set()
            thread.join(60)
        assert not thread.is_alive(), "it hangs"


def held(call: Any, stop: Stop) -> Any:
    def calling(*given: Any, **named: Any) -> Any:
        stop.call()
        return call(*given, **named)

    return calling


def query(root: Path) -> Query:
    return Query(root, decode={"evolution": "inline"})


def records(begin: int, end: int, version: int = 1) -> list[Sent]:
    """As many for the one table as for the other."""
    season = {"season": "s"} if version > 1 else {}
    return [
        Sent(value(version, game_name=("golf", "quest")[at % 2], **season), at) for at in range(begin, end)
    ]


def goes_on(of: Query, versions: tuple[int, ...] = ()) -> Query:
    """The run finishes what was decided and brings a batch of each of these versions to its end."""
    last, _ = of.log.last()
    of.resume([] if last is None else records(*last.offsets[TOPIC][0]))
    for version in versions:
        begin = of.log.so_far.ends[TOPIC][0]
        of.batch(begin, records(begin, begin + 4, version))
    return of


def left_behind(root: Path) -> None:
    """A batch is decided and in no table, and one table's files of it are lost."""
    goes_on(query(root), (1,))
    dead = goes_on(query(root))
    before = set((root / "lake" / GOLF).glob("*.parquet"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Finisher, "finish", stopped)
        with pytest.raises(PolicyStopped):
            dead.batch(4, records(4, 8))
    for file in set((root / "lake" / GOLF).glob("*.parquet")) - before:
        file.unlink()


def assert_each_once(root: Path, end: int) -> None:
    for folder, first in ((GOLF, 0), (QUEST, 1)):
        rows = DeltaTable(root / "lake" / folder).to_pyarrow_table(columns=["kafka_offset"])
        assert sorted(rows["kafka_offset"].to_pylist()) == list(range(first, end, 2))


def unnamed(root: Path) -> set[str]:
    tables = [log.parent for log in (root / "lake").glob("*/_delta_log")]
    named = {Path(uri).name for table in tables for uri in DeltaTable(table).file_uris()}
    return {file.name for file in (root / "lake").glob("*/*.parquet")} - named


@pytest.mark.heavy
@pytest.mark.parametrize("at", range(1, MOST_CALLS, EVERY))
def test_wherever_a_run_stands_still_each_record_is_in_its_table_once(tmp_path: Path, at: int) -> None:
    stands_still_while_another_takes_over(tmp_path, at)


# Whose clock is right is in the test above, at many more calls. Each of these by one of two clocks, the other one is heavy.
@pytest.mark.parametrize(
    ("at", "off"),
    [
        pytest.param(at, off, id=f"{at}-{name}", marks=() if place % 2 == turn else pytest.mark.heavy)
        for place, at in enumerate(OTHER_CLOCKS)
        for turn, (name, off) in enumerate([("back", -HOUR), ("ahead", HOUR)])
    ],
)
def test_whatever_time_it_is_for_the_run_that_takes_over_each_record_is_in_its_table_once(
    tmp_path: Path, at: int, off: float
) -> None:
    last = stands_still_while_another_takes_over(tmp_path, at, off)
    state = last.here.log.state()
    assert state.newest is not None
    # Its batches say the time that it was for it, and are the newer ones by their numbers all the same.
    said = datetime.fromisoformat(state.newest.at) - datetime.now(timezone.utc)
    assert abs(said.total_seconds() - off) < HOUR / 2


def stands_still_while_another_takes_over(root: Path, at: int, off: float = 0.0) -> Query:
    """A run stands still at its call number `at`; to the one that takes over it is so many seconds later, or earlier."""
    left_behind(root)
    stop = Stop(at)
    with standing(stop, lambda: goes_on(query(root), (2, 2))) as ended, clock_off(off):
        now = goes_on(query(root), (1,))
    # Who stood still before his start was put is the newest run when he wakes.
    assert all(isinstance(error, Fenced) for error in ended), ended
    with clock_off(off):
        if ended:
            begin = now.log.so_far.ends[TOPIC][0]
            now.batch(begin, records(begin, begin + 4, 2))
        last = goes_on(query(root), (2,))
        assert_each_once(root, last.log.so_far.ends[TOPIC][0])
        last = goes_on(query(root))
    assert unnamed(root) == set()
    return last


def test_a_run_whose_files_were_swept_before_it_could_name_them_asks_nobody_to_decide(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left_behind(tmp_path)
    late = query(tmp_path)

    def while_another_takes_over(*given: Any, **named: Any) -> None:
        monkeypatch.setattr(rewrite, "discard", discard)
        goes_on(query(tmp_path), (1,))
        discard(*given, **named)

    monkeypatch.setattr(rewrite, "discard", while_another_takes_over)
    with pytest.raises(Fenced):
        goes_on(late)
    assert StuckCommits(late.here).read() == []
    assert_each_once(tmp_path, 12)


@pytest.mark.heavy
def test_no_call_of_a_run_comes_behind_those_at_which_it_stands_still(tmp_path: Path) -> None:
    left_behind(tmp_path)
    stop = Stop(MOST_CALLS)
    with standing(stop, lambda: goes_on(query(tmp_path), (2, 2))) as ended:
        assert not stop.stands.is_set() and stop.calls > MOST_CALLS // 2
    assert not ended
