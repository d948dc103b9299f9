"""What is asked before a source is looked at, as a look may give numbers to what is new."""

from __future__ import annotations

import json
from collections.abc import Collection

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import made_anew, read_generation
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.kafka.offsets import Positions, ends, highest, offsets_from_json
from distributary.ingest.settings.model import Settings
from distributary.ingest.source.contract import Channels
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.tables.log import entry, newest_version
from distributary.ingest.tables.transaction import GENERATION, OFFSETS, told_by

# Behind the pipeline's newest commit to the ledger there may be those of others and of upkeep; each is a request in a store.
_MOST_LOOKED_AT = 100


def require_had_before(settings: Settings, channels: Channels) -> None:
    """Raises CheckpointMismatch where what gives offsets was put back from a copy that is older than the checkpoint's log, or than the ledger: after a look nothing shows that any more.

    A log that is damaged, and a topic that was made anew, are told where the log is gone on with.
    """
    if settings.source.files is None and settings.source.kinesis is None:
        return  # nothing is kept beside the tables
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    root = open_files(settings.sink.root, settings.storage)
    try:
        # The log first, and then what gives offsets, which is never behind it.
        generation, so_far = read_generation(checkpoint), checkpoint.log.state().so_far
    except CheckpointMismatch:
        return
    if generation is None:
        if settings.start == "from_tables":
            owners = Records(root).all().values()
            mine = {one.generation for one in owners if one.pipeline == settings.name}
            if had := _in_ledger(root, mine):
                channels.require_had(had)
        return
    # The tables may be newer than the log, and who is told so goes on from them.
    had = highest({} if so_far is None else so_far.ends, _in_ledger(root, {generation.id}))
    if had and not made_anew(generation.as_of(so_far).world.topics, channels.topic_ids()):
        channels.require_had(had)


def _in_ledger(root: Files, generations: Collection[str]) -> Positions:
    """Where the newest batch of these generations ends that the ledger has; nothing where none is among its newest commits, or nobody can tell, which a run says."""
    place = root.below(BATCHES_TABLE)
    try:
        newest = newest_version(place) if generations else None
        for version in range(-1 if newest is None else newest, -1, -1)[:_MOST_LOOKED_AT]:
            for info in (action["commitInfo"] for action in entry(place, version) if "commitInfo" in action):
                told = told_by(info)
                if told.get(GENERATION) in generations:
                    return ends(offsets_from_json(json.loads(told[OFFSETS])))
    except (OSError, ValueError, KeyError):
        pass
    return {}
