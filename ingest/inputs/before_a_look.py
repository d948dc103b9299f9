"""What is asked before a source is looked at, as a look may give numbers to what is new."""

from __future__ import annotations

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import made_anew, read_generation
from distributary.ingest.settings.model import Settings
from distributary.ingest.source.contract import Channels
from distributary.ingest.storage.opening import open_files


def require_had_before(settings: Settings, channels: Channels) -> None:
    """Raises CheckpointMismatch where what gives offsets was put back from a copy that is older than the checkpoint's log: after a look nothing shows that any more.

    A log that is damaged, and a topic that was made anew, are told where the log is gone on with.
    """
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    try:
        # The log first, and then what gives offsets, which is never behind it.
        generation, so_far = read_generation(checkpoint), checkpoint.log.state().so_far
    except CheckpointMismatch:
        return
    if generation is None or so_far is None:
        return
    if not made_anew(generation.as_of(so_far).world.topics, channels.topic_ids()):
        channels.require_had(so_far.ends)
