"""A drill in which the power fails: whatever was never synced is cut, emptied or gone."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from drills.drill import Account
from drills.world import World
from tests.ingest.power import Disk, PowerFailed

from distributary.errors import DistributaryError
from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE
from distributary.ingest.parquet.data_file import owner

# A run of so many records asks the disk some five hundred times.
_CALLS = 600


class PowerGone(DistributaryError):
    """Nothing of the run goes on; an error that Spark's callbacks pass on, as they do no other that ends a process."""

    fatal = True


@dataclass
class WorkersDisk(Disk):
    """One that knows of what workers sync, each in a process of its own: their files, and the names of these.

    That they do is shown in tests/ingest/batch/test_power.py, whose workers are in the process that is watched.
    """

    def call(self) -> None:
        """Another call, by whichever thread. Raises PowerGone where the power has failed."""
        try:
            super().call()
        except PowerFailed:
            raise PowerGone("the power has failed") from None

    def workers_synced(self, lake: Path) -> None:
        """Call it before the power fails."""
        for file in lake.glob("*/*.parquet"):
            folder = file.parent
            if owner(file.name) and folder.name not in (BATCHES_TABLE, CHANGES_TABLE):
                self._safe[file.stat().st_ino] = file.read_bytes()
                for path in (file, folder):
                    self._names.setdefault(str(path.parent), {})[path.name] = path.stat().st_ino


def power_lost(world: World, account: Account) -> None:
    """The power fails at a call to the disk that the dice choose, and takes what nobody had synced; then a run begins."""
    kit = world.pipeline()
    for number in range(max(1, world.rounds // 4)):
        if number % 4 == 0:
            kit = world.pipeline()
            kit.send_version(1)
            kit.run()
        kit.send_version(number % 4 + 2)
        disk = WorkersDisk((kit.root, kit.checkpoint_folder), world.random.randrange(1, _CALLS))
        try:
            with disk.watched():
                kit.run()
        except PowerGone:
            account.faults += 1
        disk.workers_synced(kit.root)
        disk.fail(world.random)
        with account.recovering():
            kit.run()
        account.ends_whole(kit)
