"""Drills in which a process of a run is killed: at each failpoint, and at any moment."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psutil
from drills.drill import Account
from drills.world import Rounds, World
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit

from distributary.ingest.checkpoint.folder import LEASE
from distributary.ingest.failpoints import (
    AFTER_MANIFEST,
    AMID_FILE,
    AMID_MERGE,
    AMID_SCHEMA_CHANGE,
    BEFORE_REPORT,
    POINTS,
)

# Within this time after its start a run of so many records is at work, on a slow machine too.
_AT_WORK_SECONDS = 3.0

_LOOK_SECONDS = 0.02

_DECIDED = POINTS.index(AFTER_MANIFEST)

VICTIMS = ("driver", "jvm", "worker")


def at_failpoints_before_the_manifest(world: World, account: Account) -> None:
    """A process dies at each failpoint before a batch is decided; those in a worker without anybody to repeat its task."""
    for point in POINTS[:_DECIDED]:
        _killed_at(point, world, account)


def at_failpoints_after_the_manifest(world: World, account: Account) -> None:
    """A run dies at each failpoint after a batch is decided: before, amid and after its commits."""
    for point in POINTS[_DECIDED:]:
        # Nothing is merged into tables that each record is added to.
        if point != AMID_MERGE:
            _killed_at(point, world, account)


def _killed_at(point: str, world: World, account: Account) -> None:
    kit = world.pipeline()
    in_worker = point in (AMID_FILE, BEFORE_REPORT)
    if in_worker:
        kit.configured(spark={"master": "local[2,1]"})
    kit.send_version(1)
    if point == AMID_SCHEMA_CHANGE:
        kit.run()
        kit.send_version(2, games=5)
    killed = kit.run_apart(f"{point}=kill")
    account.faults += 1
    expected = 1 if in_worker else -signal.SIGKILL
    if killed.returncode != expected:
        account.differences.append(f"{point}: the run ended with {killed.returncode}, not {expected}")
    _recovered(kit, account)


def at_any_moment(world: World, account: Account) -> None:
    """`kill -9` of the driver, its JVM or a worker, in turn and at a moment that the dice choose; five rounds a pipeline."""
    kit = world.pipeline()
    for number in range(world.rounds):
        if number % 5 == 0 and number:
            kit = world.pipeline()
        victim = VICTIMS[number % len(VICTIMS)]
        kit.send_version(number % 5 + 1)
        account.faults += kill_running(kit, victim, world.random)
        _recovered(kit, account)


def kill_running(kit: PipelineKit, victim: str, dice: random.Random) -> int:
    """Start a run and kill a process of it at some moment; 0 if that one was gone by then, or never there."""
    with running(kit) as run:
        _wait_for_start(kit, run)
        killed = kill_within(run, victim, dice)
        with suppress(subprocess.TimeoutExpired):
            run.wait(PATIENCE_SECONDS)
    return killed


def standing_still_while_another_goes_on(world: World, account: Account) -> None:
    """A run stands still before its manifest, or amid its commits; another one takes over and finishes; then it wakes."""
    point = world.random.choice(("before_manifest", "between_commits"))
    kit = world.pipeline()
    kit.send_version(1)
    with standing_still(kit, point) as zombie:
        account.faults += 1
        with account.recovering():
            kit.run()
        os.kill(zombie.pid, signal.SIGCONT)
        _, said = zombie.communicate(timeout=PATIENCE_SECONDS)
    if zombie.returncode == 1 and "another run" in said:
        account.refused.add("Fenced")
    else:
        account.differences.append(f"{point}: who woke ended with {zombie.returncode}: {said[-300:]}")
    kit.send_version(2)
    kit.run()
    account.ends_whole(kit)


@contextmanager
def running(kit: PipelineKit, failpoints: str = "") -> Iterator[subprocess.Popen[str]]:
    """A run of what is there, in a process and a JVM of its own; killed with the block's end if it is not over."""
    command = kit.command("--available-now")
    run = subprocess.Popen(
        command,
        env=kit.environment(failpoints),
        cwd=kit.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE if failpoints else subprocess.DEVNULL,
        text=True,
        # Ctrl-C is for the drills.
        start_new_session=True,
    )
    with run:
        try:
            yield run
        finally:
            for process in _family(run.pid):
                with suppress(psutil.NoSuchProcess):
                    process.kill()


@contextmanager
def standing_still(kit: PipelineKit, point: str) -> Iterator[subprocess.Popen[str]]:
    """A run that has stopped itself there, and holds no lease that anybody sees."""
    with running(kit, f"{point}=stop") as run:
        _, status = os.waitpid(run.pid, os.WUNTRACED)
        if not os.WIFSTOPPED(status):
            raise RuntimeError("it did not come to where it is to stop")
        # As where locks do not reach: on another machine, or in an object store.
        shutil.rmtree(kit.checkpoint_folder / LEASE)
        yield run


def kill_within(run: subprocess.Popen[str], victim: str, dice: random.Random) -> int:
    """Kill a process of a run at some moment of its work; 0 if it was over, or had no such process, by then."""
    time.sleep(dice.uniform(0.0, _AT_WORK_SECONDS))
    family = _family(run.pid)
    found = [one for one in family if _is(one, victim, run.pid)]
    if run.poll() is not None or not found:
        return 0
    with suppress(psutil.NoSuchProcess):
        dice.choice(found).kill()
        return 1
    return 0


def _family(pid: int) -> list[psutil.Process]:
    with suppress(psutil.NoSuchProcess):
        driver = psutil.Process(pid)
        return [*driver.children(recursive=True), driver]
    return []


def _is(process: psutil.Process, victim: str, driver: int) -> bool:
    with suppress(psutil.NoSuchProcess):
        if process.pid == driver:
            return victim == "driver"
        is_jvm = process.name().startswith("java")
        # The processes of Python below the JVM: the daemon that forks workers, and those.
        return victim == ("jvm" if is_jvm else "worker")
    return False


def _wait_for_start(kit: PipelineKit, run: subprocess.Popen[str]) -> None:
    """Until this run has put its start into the log, or is over."""
    began, before = time.monotonic(), _newest_start(kit)
    while run.poll() is None and _newest_start(kit) == before:
        if time.monotonic() - began > PATIENCE_SECONDS:
            raise RuntimeError("the run did not start")
        time.sleep(_LOOK_SECONDS)


def _newest_start(kit: PipelineKit) -> int | None:
    entry = kit.checkpoint.log.state().newest
    return None if entry is None else entry.run


def _recovered(kit: Rounds, account: Account) -> None:
    with account.recovering():
        kit.run()
    account.ends_whole(kit)
