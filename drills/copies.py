"""Drills in which there are two of something: an old copy and the present, another topic of the same name, two runs, two pipelines."""

from __future__ import annotations

import shutil
import threading
from pathlib import Path

from drills.drill import Account
from drills.kills import running
from drills.world import Rounds, World

from distributary.errors import (
    CheckpointMismatch,
    LeaseHeld,
    TableAhead,
    TablesOfAnotherRun,
)
from distributary.ingest.run import run
from distributary.ingest.settings.model import Settings
from distributary.producer_sim.verify.comparison import verify


def checkpoint_from_a_copy(world: World, account: Account) -> None:
    """The checkpoint is put back from an older copy; then the newest one is, and the run goes on."""
    kit = world.pipeline()
    kit.send_version(1)
    kit.run()
    here, old, newest = kit.checkpoint_folder, kit.folder / "old", kit.folder / "newest"
    shutil.copytree(here, old)
    kit.send_version(2)
    kit.run()
    shutil.copytree(here, newest)
    _put_back(old, here)
    account.faults += 1
    _must_say(kit, account, "checkpoint_behind")
    kit.send_version(3)
    with account.refusing(CheckpointMismatch, TableAhead):
        kit.run()
    _put_back(newest, here)
    with account.recovering():
        kit.run()
    account.ends_whole(kit)


def checkpoint_lost(world: World, account: Account) -> None:
    """The checkpoint is deleted, and a new one goes on from the tables."""
    kit = world.pipeline()
    kit.send_version(1)
    kit.run()
    generation = kit.rows("ledger_batches")["generation"][0].as_py()
    shutil.rmtree(kit.checkpoint_folder)
    account.faults += 1
    kit.send_version(2)
    with account.refusing(TablesOfAnotherRun):
        kit.run()
    kit.configured(start="from_tables", confirm_dead=[generation])
    with account.recovering():
        kit.run()
    account.ends_whole(kit)


def copy_elsewhere(world: World, account: Account) -> None:
    """A copy of the checkpoint is run at another place, beside the original."""
    kit = world.pipeline()
    kit.send_version(1)
    kit.run()
    elsewhere = kit.folder / "elsewhere"
    shutil.copytree(kit.checkpoint_folder, elsewhere)
    place = str(kit.checkpoint_folder)
    account.faults += 1
    kit.send_version(2)
    kit.configured(checkpoint=str(elsewhere))
    with account.refusing(TablesOfAnotherRun):
        kit.run()
    kit.configured(checkpoint=place)
    with account.recovering():
        kit.run()
    account.ends_whole(kit)


def topic_made_anew(world: World, account: Account) -> None:
    """The topic is deleted and made anew while a run lives, and gets other records at the same offsets."""
    kit = world.pipeline()
    kit.send_version(1)
    with account.refusing(CheckpointMismatch), kit.running() as under_way:
        under_way.wait_for(kit.truth.records)
        account.faults += 1
        world.delete_topic(kit.topic)
        world.topic(kit.topic)
        before = kit.truth
        kit.send_version(1, events=4_000)
        under_way.wait_for(before.records + 1)
    # What the tables hold is what was sent before; the new topic's records are another pipeline's.
    kit.truth = before
    kit.configured(trigger={"available_now": True})
    with account.refusing(CheckpointMismatch):
        kit.run()
    _must_say(kit, account, "topic_made_anew")
    account.ends_whole(kit, alone=False, swept=False)


def two_runs_on_one_checkpoint(world: World, account: Account) -> None:
    """Two processes run the same checkpoint at the same time, and a third begins when they have."""
    kit = world.pipeline()
    kit.send_version(1)
    with running(kit) as one, running(kit) as other:
        account.faults += 1
        codes = sorted([one.wait(), other.wait()])
    # Either the second was refused, or it began when the first was done.
    if codes[0] != 0:
        account.differences.append(f"both runs ended badly, with {codes}")
    kit.send_version(2)
    with kit.running() as first:
        first.wait_for(1)
        account.faults += 1
        with account.refusing(LeaseHeld):
            kit.configured(trigger={"available_now": True}).run()
        with account.recovering():
            first.wait_for(kit.truth.records - 3_000)
    account.ends_whole(kit)


def two_pipelines_on_one_sink(world: World, account: Account) -> None:
    """Another pipeline, of another topic, would write to the same tables while the first one runs."""
    kit = world.pipeline()
    other = _beside(kit, world.topic())
    kit.send_version(1)
    other.send_version(1, events=300)
    with kit.running() as under_way:
        under_way.wait_for(kit.truth.records)
        account.faults += 1
        with account.refusing(TablesOfAnotherRun):
            other.run()
        kit.send_version(2)
        with account.recovering():
            under_way.wait_for(kit.truth.records)
    # What the other one had written before it was refused is for its own next start to sweep.
    account.ends_whole(kit, swept=False)


def two_pipelines_on_one_ledger(world: World, account: Account) -> None:
    """Two pipelines of one topic write to tables of their own under one root at the same time, and share ledger and quarantine."""
    kit = world.pipeline()
    other = _beside(kit, kit.topic).configured(route={"table": "other_{entity}"})
    for version in (1, 2):
        kit.send_version(version)
        other.truth = kit.truth
        account.faults += 1
        errors: list[BaseException] = []
        # They share a folder, and so the file of their settings.
        both = [kit.settings, other.settings]
        threads = [threading.Thread(target=_run, args=(one, world, errors)) for one in both]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        account.differences += [str(error) for error in errors]
    for one in (kit, other):
        account.ends_whole(one)


def _run(settings: Settings, world: World, errors: list[BaseException]) -> None:
    try:
        run(settings, spark=world.spark)
    except BaseException as error:  # noqa: BLE001 told by who waits for the thread
        errors.append(error)


def _beside(kit: Rounds, topic: str) -> Rounds:
    """Another pipeline of the same format over the same root."""
    decode, other = kit.settings.decode, kit.beside(topic)
    other.format = kit.format
    return other.configured(name="other", decode={"format": decode.format, "evolution": decode.evolution})


def _put_back(copy: Path, here: Path) -> None:
    shutil.rmtree(here)
    shutil.copytree(copy, here)


def _must_say(kit: Rounds, account: Account, kind: str) -> None:
    if kind not in {difference.kind for difference in verify(kit.settings).differences}:
        account.differences.append(f"verify without a truth did not say {kind}")
