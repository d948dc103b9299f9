"""The right to run a pipeline, which one process has at a time."""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import Any

from distributary.errors import LeaseHeld
from distributary.ingest.checkpoint.folder import LEASE, Checkpoint
from distributary.ingest.lease.folder_lock import FolderLock
from distributary.ingest.lease.heartbeat import Heartbeat
from distributary.ingest.lease.keeper import Keeper
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place


@contextmanager
def held(checkpoint: Checkpoint, pipeline: str = "", keeper: Keeper | None = None) -> Iterator[None]:
    """Hold the checkpoint's lease inside the block. Raises LeaseHeld while another run is alive, and OSError of a store."""
    keeper = keeper or keeper_of(checkpoint)
    if not keeper.acquire(json.dumps(_me(pipeline)).encode()):
        raise LeaseHeld(
            f"checkpoint {checkpoint} is held by {_who(keeper)}; stop it or give this pipeline its own checkpoint"
        )
    try:
        yield
    finally:
        keeper.release()


def looked_for(place: Place, storage: StorageOptions) -> Keeper:
    """What keeps others out of the checkpoint that is there, looking already whether somebody holds it: in a store that takes seconds.

    In them the rest of this process can be made ready.
    """
    keeper = keeper_of(Checkpoint(open_files(place, storage)))
    keeper.look()
    return keeper


def keeper_of(checkpoint: Checkpoint) -> Keeper:
    """What keeps others out where the checkpoint is: locks in a folder, a sign of life in a store."""
    if checkpoint.files.remote:
        return Heartbeat(checkpoint.files.below(LEASE))
    return FolderLock(checkpoint.folder / LEASE)


def _me(pipeline: str) -> dict[str, Any]:
    since = datetime.now(timezone.utc).isoformat(timespec="seconds")
    return {"pid": os.getpid(), "host": socket.gethostname(), "since": since, "pipeline": pipeline}


def _who(keeper: Keeper) -> str:
    try:
        holder = json.loads(keeper.holder())
        pipeline = f" (pipeline {holder['pipeline']})" if holder["pipeline"] else ""
        return f"pid {holder['pid']} on {holder['host']} since {holder['since']}{pipeline}"
    except (OSError, ValueError, KeyError, TypeError):
        return "another run that is just starting or ending"
