"""What is asked before a source is looked at, as a look may give numbers to what is new."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from deltalake.exceptions import DeltaError

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.earlier_runs import read_by
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import made_anew, read_generation
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.kafka.offsets import Positions, ends, highest, offsets_from_json
from distributary.ingest.settings.model import Settings
from distributary.ingest.source.contract import Channels
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.tables.log import commit_info, entry, newest_version
from distributary.ingest.tables.transaction import GENERATION, OFFSETS, told_by

# Behind the pipeline's newest commit to the ledger there are few of others and of upkeep as a rule; each is a request in a store.
_MOST_LOOKED_AT = 100


@dataclass(frozen=True, slots=True)
class Had:
    """How far a source was read by its pipeline.

    ends    behind what was read of each partition; nothing where nobody knows
    topics  by which ids it was read, as far as that is known
    """

    ends: Positions = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, settings: Settings) -> Had:
        """As the checkpoint's log says, and the ledger where what gives offsets is kept beside the tables. Of what is damaged, which a run tells, nobody knows."""
        checkpoint = Checkpoint(open_files(settings.checkpoint, settings.storage))
        root = open_files(settings.sink.root, settings.storage)
        try:
            generation, so_far = read_generation(checkpoint), checkpoint.log.state().so_far
            mine = set[str]() if generation is None else {generation.id}
            # Who says nothing of how to begin is refused, and goes on from the tables then.
            if generation is None and settings.start != "again":
                owners = Records(root).all().values()
                mine = {one.generation for one in owners if one.pipeline == settings.name}
        except CheckpointMismatch:
            return cls()
        # The tables may be newer than the log, and who is told so goes on from them.
        ledger = _in_ledger(root, mine) if _gives_offsets(settings) else {}
        topics = {} if generation is None else generation.as_of(so_far).world.topics
        return cls(highest({} if so_far is None else so_far.ends, ledger), topics)


def require_had_before(settings: Settings, channels: Channels) -> None:
    """Raises CheckpointMismatch where what gives offsets was put back from a copy that is older than the checkpoint's log, or than the ledger: after a look nothing shows that any more.

    A topic that was made anew is told where the log is gone on with.
    """
    if not _gives_offsets(settings):
        return
    # What was read first, and then what gives offsets, which is never behind it.
    had = Had.of(settings)
    if had.ends and not made_anew(had.topics, channels.topic_ids()):
        channels.require_had(had.ends)


def _gives_offsets(settings: Settings) -> bool:
    """Whether it is kept beside the tables which record has which offset."""
    return settings.source.files is not None or settings.source.kinesis is not None


def _in_ledger(root: Files, generations: Collection[str]) -> Positions:
    """Where the newest batch of these generations ends that the ledger has; nothing where nobody can tell, which a run says."""
    place = root.below(BATCHES_TABLE)
    try:
        newest = newest_version(place) if generations else None
        for version in range(-1 if newest is None else newest, -1, -1)[:_MOST_LOOKED_AT]:
            told = told_by(commit_info(entry(place, version)))
            if told.get(GENERATION) in generations:
                return ends(offsets_from_json(json.loads(told[OFFSETS])))
        # Others that share it may have committed more often since: its rows tell, of which there may be one for each batch of years.
        return read_by(root, generations) if generations else {}
    except (OSError, ValueError, KeyError, DeltaError):
        return {}
