"""How long a pipeline in a store is away when its process is killed: until the next one has finished its batch and gone on."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.landed import verified
from benchmarks.storage.costs import in_store
from benchmarks.world import World

from distributary.errors import CheckFailed
from distributary.ingest.failpoints import AFTER_MANIFEST, VARIABLE
from distributary.producer_sim.stack.s3_store import S3Store

_PATIENCE_SECONDS = 300.0


def measure_recovery(world: World, store: S3Store) -> list[float]:
    """Seconds from the start of a process to its end, which finishes what a killed one had decided and takes what is left.

    So the start of Python and Spark is in it, the time for which the dead one's lease is watched, and all of the end. Raises
    CheckFailed where a run does not end as it must, or the tables are not right.
    """
    found = []
    for _ in range(world.sizes.kills):
        topic = world.new_name("recovery")
        folder = world.new_folder(topic)
        where = in_store(store, topic, store.port)
        rows = world.sizes.table_events
        truth = world.send(world.simulation(topic, games=world.sizes.games, events=2 * rows))
        told = world.told(topic, folder, rows, **where)
        file = folder / "pipeline.yaml"
        # JSON is YAML.
        file.write_text(json.dumps({**told, "storage": store.storage()}), encoding="utf-8")
        killed, _ = _run(file, {VARIABLE: f"{AFTER_MANIFEST}=kill"})
        if killed != -signal.SIGKILL:
            raise CheckFailed(f"the run that was to be killed ended with {killed}")
        ended, seconds = _run(file, {})
        if ended != 0:
            raise CheckFailed(f"the run after the killed one ended with {ended}")
        verified(world.settings(topic, folder, rows, **where), truth)
        found.append(seconds)
        world.watch.say(f"recovery: {seconds:.1f} s")
    return found


def _run(file: Path, environment: Mapping[str, str]) -> tuple[int, float]:
    command = [sys.executable, "-m", "distributary", "run", str(file), "--json"]
    began = time.perf_counter()
    done = subprocess.run(
        command,
        env={**os.environ, **environment},
        stdout=subprocess.DEVNULL,
        timeout=_PATIENCE_SECONDS,
        check=False,
    )
    return done.returncode, time.perf_counter() - began
