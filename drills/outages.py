"""Drills in which what the pipeline stands on goes away for a while: Kafka, the registry, the disk."""

from __future__ import annotations

import os
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from drills.drill import Account, CannotBeDrilled
from drills.world import World
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS
from tests.ingest.e2e.registry_proxy import registry_proxy

from distributary.errors import PipelineError, SetupError
from distributary.ingest.progress import Silent

# Enough for the tables of a round, and little to fill.
_DISK_MIB = 16

_AWAY_SECONDS = 8.0


class Waits(Silent):
    """Knows whether the run has waited, or failed and tried again."""

    def __init__(self) -> None:
        self.came = threading.Event()

    def waiting(self, reason: str, seconds: float) -> None:
        """It waits for somebody."""
        self.came.set()

    def failure(self, error: str, wait: float) -> None:
        """It tries again."""
        self.came.set()


def broker_bounced(world: World, account: Account) -> None:
    """The broker is killed amid a run and started again at once."""
    _without_broker(world, account, wait=False)


def broker_stopped(world: World, account: Account) -> None:
    """The broker is stopped amid a run, stays away for some seconds, and is started again."""
    _without_broker(world, account, wait=True)


def _without_broker(world: World, account: Account, *, wait: bool) -> None:
    kit, waits = world.pipeline(), Waits()
    kit.send_version(1)
    with kit.running(waits) as run:
        run.wait_for(1)
        account.faults += 1
        if wait:
            world.stack.broker.stop()
            # Kafka's own client asks again for a minute before anybody is told.
            waits.came.wait(_AWAY_SECONDS)
        else:
            world.stack.broker.kill()
        world.stack.broker.start()
        with account.recovering():
            kit.send_version(2)
            run.wait_for(kit.truth.records)
    account.ends_whole(kit)


def registry_silent(world: World, account: Account) -> None:
    """The registry takes questions and answers none when a schema comes that nobody knows, until the run says that it waits."""
    with registry_proxy(world.stack.registry_url) as proxy:
        kit, waits = (
            world.pipeline(registered=True, registry={"url": proxy.url, "timeout_seconds": 0.5}),
            Waits(),
        )
        kit.send_version(1)
        with kit.running(waits) as run:
            run.wait_for(kit.truth.records)
            proxy.awake.clear()
            account.faults += 1
            kit.send_version(2)
            _require(waits.came.wait(PATIENCE_SECONDS), "the run said nothing of a silent registry", account)
            proxy.awake.set()
            with account.recovering():
                run.wait_for(kit.truth.records)
    account.ends_whole(kit)


def registry_wrong(world: World, account: Account) -> None:
    """The registry denies twice that it knows the new schema, as one does whose replica is behind."""
    with registry_proxy(world.stack.registry_url) as proxy:
        kit = world.pipeline(registered=True, registry={"url": proxy.url, "unknown_id_wait_seconds": 10.0})
        # Without corrupt records, whose ids nobody will ever know and for which each batch would wait.
        kit.send_version(1, corrupt=0.0)
        with kit.running() as run:
            run.wait_for(kit.truth.records)
            account.faults += 1
            for schema_id in kit.registered(2):
                proxy.deny(schema_id, 2)
            kit.send_version(2, corrupt=0.0)
            with account.recovering():
                run.wait_for(kit.truth.records)
    account.ends_whole(kit)


def registry_failing(world: World, account: Account) -> None:
    """The registry answers 500, to a new schema's id in one round and to everything in the next, until the run says that it waits."""
    for everything in (False, True):
        with registry_proxy(world.stack.registry_url) as proxy:
            kit, waits = world.pipeline(registered=True, registry={"url": proxy.url}), Waits()
            kit.send_version(1, corrupt=0.0)
            with kit.running(waits) as run:
                run.wait_for(kit.truth.records)
                account.faults += 1
                proxy.failing = {None} if everything else {*kit.registered(2)}
                kit.send_version(2, corrupt=0.0)
                _require(
                    waits.came.wait(PATIENCE_SECONDS), "the run said nothing of a failing registry", account
                )
                proxy.failing = set()
                with account.recovering():
                    run.wait_for(kit.truth.records)
        account.ends_whole(kit)


@contextmanager
def disk(folder: Path) -> Iterator[Path]:
    """A small disk of its own at a folder. Raises CannotBeDrilled where nobody may mount one."""
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_DISK_MIB}m", "drill", str(folder)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        raise CannotBeDrilled(f"no disk can be mounted here ({mounted.stderr.strip()})")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def disk_full(world: World, account: Account) -> None:
    """The disk of the tables and the checkpoint is full, to a few KiB that the dice choose, until the run has ended."""
    kit = world.pipeline()
    with disk(kit.folder / "disk") as place:
        kit.configured(sink={"root": str(place / "lake")}, checkpoint=str(place / "checkpoint"))
        kit.send_version(1)
        kit.run()
        for _ in range(2):
            kit.send_version(2)
            ballast = place / "ballast"
            _fill(ballast, leave=world.random.randrange(16, 200) * 1024)
            account.faults += 1
            try:
                kit.run()
                account.differences.append("the run ended well on a full disk")
            except (PipelineError, SetupError, OSError) as error:
                account.refused.add(type(error).__name__)
            ballast.unlink()
            with account.recovering():
                kit.run()
            account.ends_whole(kit)


def _fill(ballast: Path, leave: int) -> None:
    about = os.statvfs(ballast.parent)
    ballast.write_bytes(bytes(max(0, about.f_bavail * about.f_frsize - leave)))


def read_only(world: World, account: Account) -> None:
    """The tables cannot be written to, before a run and amid one, until the run has ended."""
    kit = world.pipeline()
    with disk(kit.folder / "disk") as place:
        kit.configured(sink={"root": str(place / "lake")}, checkpoint=str(kit.folder / "checkpoint"))
        kit.send_version(1)
        kit.run()
        kit.send_version(2)
        account.faults += 1
        _remount(place, "ro")
        with account.refusing(SetupError, PipelineError):
            kit.run()
        _remount(place, "rw")
        with account.recovering():
            kit.run()
        account.ends_whole(kit)


def _remount(place: Path, how: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{how}", str(place)], check=True)


def _require(so: bool, otherwise: str, account: Account) -> None:
    if not so:
        account.differences.append(otherwise)
