"""Which pipeline the settings are of, as what several have in one table tells it."""

from __future__ import annotations

from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import known_id
from distributary.ingest.commit_log.owners import Records, Whose
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.upkeep.replayed import with_replays


def whose_are(settings: Settings, root: Files) -> Whose:
    """The pipeline, whatever it was called before. Raises CheckpointMismatch where a record of a table's owner was edited, and what `with_replays` does."""
    checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
    return with_replays(root, Records(root).of_pipeline(settings.name, known_id(checkpoint))[1])
