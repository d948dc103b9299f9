"""Drills in which others work on the tables meanwhile: OPTIMIZE, VACUUM and ALTER, by delta-rs and by Spark."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count

from deltalake import DeltaTable, Field
from deltalake.exceptions import DeltaError
from deltalake.schema import PrimitiveType
from drills.drill import Account
from drills.world import Rounds, World
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS

_PAUSE_SECONDS = 0.3


# So that who works on tables over and over does not keep a small machine from the run for good.
_MOST_WORKS = 12


def optimize_vacuum_alter(world: World, account: Account) -> None:
    """Others compact, vacuum and alter every table over and over while a run writes to them: delta-rs in one round, Spark in the next."""
    for work in (_by_delta_rs, _by_spark):
        kit = world.pipeline(limits={"batch_rows": 500})
        kit.send_version(1)
        kit.run()
        # What was there before it the run in the background does not count.
        before = kit.truth.records
        with kit.running() as run, _at_work(kit, work) as others:
            for version in (2, 3):
                kit.send_version(version)
            with account.recovering():
                run.wait_for(kit.truth.records - before)
            # A small machine may have had no time for them yet.
            if not others.got_through.wait(PATIENCE_SECONDS):
                account.differences.append("nobody got through beside the run")
        account.faults += others.done
        account.ends_whole(kit)
        kit.configured(trigger={"available_now": True})


class _Others:
    """Whoever works on the tables, until told that it is over."""

    def __init__(self, kit: Rounds, work: Callable[[Rounds, str, int], None]) -> None:
        self._kit, self._work, self.done = kit, work, 0
        self.over, self.got_through = threading.Event(), threading.Event()

    def __call__(self) -> None:
        """Work on one table after the other, and seldom enough to leave the run a share of the machine."""
        tables = (table for _ in count() for table in self._kit.lake.entity_tables())
        for turn, table in enumerate(tables):
            try:
                self._work(self._kit, table, turn)
                self.done += 1
                self.got_through.set()
            except (DeltaError, PySparkException, Py4JError, OSError):
                pass  # somebody else was first: they try again, as their owners would
            if self.over.wait(_PAUSE_SECONDS) or self.done == _MOST_WORKS:
                return


@contextmanager
def _at_work(kit: Rounds, work: Callable[[Rounds, str, int], None]) -> Iterator[_Others]:
    others = _Others(kit, work)
    thread = threading.Thread(target=others, daemon=True)
    thread.start()
    try:
        yield others
    finally:
        others.over.set()
        thread.join(PATIENCE_SECONDS)


def _by_delta_rs(kit: Rounds, table: str, turn: int) -> None:
    handle = DeltaTable(kit.root / table)
    if turn % 3 == 0:
        handle.optimize.compact()
    elif turn % 3 == 1:
        # As long ago as Delta lets it be: what a batch has written and not committed yet is younger.
        handle.vacuum(dry_run=False)
    else:
        handle.alter.add_columns([Field(f"by_others_{turn}", PrimitiveType("string"))])


def _by_spark(kit: Rounds, table: str, turn: int) -> None:
    name = f"delta.`{kit.root / table}`"
    if turn % 3 == 0:
        kit.spark.sql(f"OPTIMIZE {name}")
    elif turn % 3 == 1:
        kit.spark.sql(f"VACUUM {name}")
    else:
        kit.spark.sql(f"ALTER TABLE {name} SET TBLPROPERTIES ('by.others' = '{turn}')")
