"""How tables come from one log of a pipeline to the next: what a new checkpoint does about those that earlier ones filled.

docs/adr/0015-the-log-of-a-pipeline.md, rules 9 and 10. Each step may be repeated without harm.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

from distributary.errors import TablesOfAnotherRun
from distributary.ingest.batch.waiting_records import forget_waiting, place_aside
from distributary.ingest.checkpoint.earlier_runs import (
    EarlierCommit,
    after_lineage,
    earlier_commits,
    in_quarantine,
    newest_in_ledger,
    topics_read,
    untold,
    without_owners,
)
from distributary.ingest.checkpoint.folder import RESETS, going
from distributary.ingest.checkpoint.generation import (
    Generation,
    Start,
    StartMode,
    World,
    app_of,
    check_same_offsets,
    made_anew,
    read_generation,
)
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log.entries import HandedOver, Owner
from distributary.ingest.commit_log.owners import Owners, Records, confirmation, heir
from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.commit_log.writing import hand_over
from distributary.ingest.handover.earlier import Earlier, Looking
from distributary.ingest.handover.ending import Ending
from distributary.ingest.handover.reaching import UNREACHED, Reaching, parked_in
from distributary.ingest.handover.taken_names import require_free_names, require_names_kept
from distributary.ingest.kafka.offsets import Positions, highest
from distributary.ingest.upkeep.replayed import REPLAYS, forget_records

_log = logging.getLogger(__name__)


class Heritage:
    """What a new checkpoint finds under the root of its tables, and takes over."""

    def __init__(self, reaching: Reaching) -> None:
        self._reaching, self._tables = reaching, reaching.tables
        self._looking, self._ending = Looking(reaching), Ending(reaching)
        self.records = Records(self._tables.root, self._tables.threads)

    def log(self, owner: Owner) -> CommitLog | None:
        """An owner's log, where it can be reached."""
        checkpoint = self._reaching.checkpoint(owner)
        return None if checkpoint is None else checkpoint.log

    def start(self, mode: StartMode, pipeline: str, confirmed: Collection[str], world: World) -> Start:
        """What a new checkpoint of the pipeline does about the tables there; `confirmed` are generations that the user says are dead.

        Raises TablesOfAnotherRun where the user has to decide, or has to say that a run is dead; CheckpointMismatch where it is to
        go on with offsets that count other records in this world; CommitImpossible where a table lacks what the log gave it; ConfigError where a
        column of ours would be that of a field of records, or rows are there that have it by another name.
        """
        owned = self.records.all()
        tables = sorted(table for table, owner in owned.items() if owner.pipeline == pipeline)
        if not tables:
            return self._without_owners(mode, pipeline, owned, confirmed, world)
        self._require_wanted(mode, tables)
        require_free_names(self._tables, tables)
        found = list(self._earlier(pipeline, owned))
        # For a parked table files wait, as somebody has altered it: that is told where they are brought in.
        parked = {
            folder for one in found if one.checkpoint is not None for folder in parked_in(one.checkpoint)
        }
        require_names_kept(self._tables, [table for table in tables if table not in parked])
        lost = [one for one in found if one.lost]
        self._require_dead({one.owner.generation: f"{one.owner}: {one.lost}" for one in lost}, confirmed)
        dead = tuple(one.owner.generation for one in lost)
        live = [one for one in found if not (one.ended or one.lost)]
        if len(live) > 1:
            raise TablesOfAnotherRun(
                f"tables in {self._tables.root} belong to several logs that are called {pipeline!r}: "
                f"{'; '.join(str(one.owner) for one in live)}. Give one of those pipelines another name, and tables of its own"
            )
        for one in live:
            if mode == "from_tables":
                self._looking.require_whole(one)
            return _after_log(mode, one, dead, world)
        for one in found:
            if one.ended and one.checkpoint is not None:
                self._ending.finish(one.checkpoint)
        if mode == "again":
            return Start(mode, dead=dead)
        lineages = {one.owner.generation: one.owner.lineage or one.owner.generation for one in lost}
        others = {table for table, owner in owned.items() if owner.pipeline != pipeline}
        commits = earlier_commits(self._tables.root, may_fail=others)
        self._require_told({table: owned[table].generation for table in tables}, commits)
        commits += in_quarantine(self._tables, commits, lineages)
        return replace(self._by_commits(pipeline, set(lineages.values()), commits, world), dead=dead)

    def complete(self, generation: Generation, owners: Owners) -> Positions | None:
        """Take over what the new checkpoint's start says, before its log begins: where that begins, None where the settings say."""
        start = generation.start
        ended = None if start.after is None else self._take(start.after, owners, generation.world.topics)
        owners.take_over()
        self._forget_waiting_of_the_dead(start.dead)
        return ended if start.mode == "from_tables" else None

    def _forget_waiting_of_the_dead(self, generations: Iterable[str]) -> None:
        """Delete the records that runs set aside beside the tables whose logs nobody can reach: they hold payloads."""
        if self._tables.root.remote:
            for generation in generations:
                forget_waiting(place_aside(self._tables.root, self._tables.root, generation))

    def _earlier(self, pipeline: str, owned: Mapping[str, Owner]) -> Iterator[Earlier]:
        """The logs that have tables of the pipeline, and those that these were handed over to."""
        left = [owner for owner in owned.values() if owner.pipeline == pipeline]
        met: set[str] = set()
        while left:
            owner = left.pop()
            if owner.generation in met:
                continue
            met.add(owner.generation)
            yield (one := self._looking.state(owner, [table for table, its in owned.items() if its == owner]))
            if one.ended and one.checkpoint is not None:
                newest = one.checkpoint.log.state().newest
                left += [newest.to] if isinstance(newest, HandedOver) else []

    def _without_owners(
        self,
        mode: StartMode,
        pipeline: str,
        owned: Mapping[str, Owner],
        confirmed: Collection[str],
        world: World,
    ) -> Start:
        """The same for tables from before they had owners, which only their commits and the ledger tell of."""
        root = self._tables.root
        known = {name for owner in owned.values() for name in (owner.generation, owner.lineage)}
        commits = without_owners(root, earlier_commits(root, owned), pipeline, known)
        if not commits:
            if mode != "again" and (read := topics_read(root, pipeline, known)):
                self._require_wanted(mode, [BATCHES_TABLE])
                raise self._told_of_no_more(read)
            return Start("again" if mode == "again" else "resume")
        self._require_wanted(mode, sorted({commit.table for commit in commits}))
        newest = newest_in_ledger(commits)
        dead = {commit.generation for commit in commits} if newest is None else {newest.generation}
        why = "nothing tells where its log is, as of those that an earlier version of distributary filled"
        self._require_dead({one: f"generation {one}: {why}" for one in sorted(dead)}, confirmed)
        if mode == "again":
            return Start(mode, dead=tuple(sorted(dead)))
        lineages = {commit.lineage for commit in commits} if newest is None else {newest.lineage}
        start = self._by_commits(pipeline, lineages, commits, world)
        return replace(start, dead=tuple(sorted(dead)))

    def _by_commits(
        self, pipeline: str, lineages: Collection[str], commits: Sequence[EarlierCommit], world: World
    ) -> Start:
        """Where to go on from what one of these lineages has read."""
        mine = [commit for commit in commits if commit.lineage in lineages]
        newest = newest_in_ledger(mine)
        if newest is None and len(lineages) > 1:
            raise TablesOfAnotherRun(
                f"tables in {self._tables.root} were filled from several checkpoints that are gone, and no batch of any is complete, so "
                "nobody can tell where to go on: move the tables away, or set `start: again`"
            )
        lineage = next(iter(lineages)) if newest is None else newest.lineage
        known = self._lineages(commits)
        generations = {generation for generation, of in known.items() if of == lineage}
        start = after_lineage(self._tables.root, mine, lineage, self._tables.columns, generations)
        # A topic that the lineage read may be told of by batches alone whose lineage nobody knows any more.
        if new := world.topics.keys() - (start.offsets or {}).keys():
            read = topics_read(self._tables.root, pipeline, known.keys() | {lineage, *known.values()})
            if doubled := {generation: topics & new for generation, topics in read.items() if topics & new}:
                raise self._told_of_no_more(doubled)
        return start

    def _lineages(self, commits: Iterable[EarlierCommit]) -> dict[str, str]:
        """The lineage of each generation of which a table's record tells, whoever has the table now, or a commit."""
        ever = [owner for owners in self.records.ever().values() for owner in owners]
        # Records from before there were lineages say nothing of them.
        told = {owner.generation: owner.lineage for owner in ever if owner.lineage}
        return {**told, **{commit.generation: commit.lineage for commit in commits}}

    def _told_of_no_more(self, read: Mapping[str, AbstractSet[str]]) -> TablesOfAnotherRun:
        topics = sorted({topic for them in read.values() for topic in them})
        return TablesOfAnotherRun(
            f"{self._tables.root}/{BATCHES_TABLE} has batches of generation {', '.join(sorted(read))}, and nothing tells any more whether "
            f"their reading is the one to go on with, so {', '.join(topics)} might be read again: restore the newest checkpoint, or what was "
            "deleted in the hidden folder .distributary of the tables; or set `start: again` to ingest everything once more"
        )

    def _require_told(self, generations: Mapping[str, str], commits: Sequence[EarlierCommit]) -> None:
        """Raises TablesOfAnotherRun where nobody can tell any more which records a table's newest batch of its generation had."""
        apps = {table: app_of(generation, table) for table, generation in generations.items()}
        newest = self._tables.newest_batches(apps)
        batches = {table: (generations[table], one) for table, one in newest.items() if one is not None}
        if found := untold(self._tables.root, commits, batches):
            raise TablesOfAnotherRun(
                f"table {self._tables.root}/{found[0]} has batch {newest[found[0]]}, and neither its log nor the ledger tells which records that "
                "had, so they would be read again: restore the checkpoint, or the ledger; or set `start: again`"
            )

    def _take(self, owner: Owner, owners: Owners, topics: Mapping[str, str]) -> Positions | None:
        """Shut out whoever runs the owner's log, and finish what that decided; where it ended, `topics` being those of now."""
        checkpoint = self._reaching.checkpoint(owner)
        generation = None if checkpoint is None else read_generation(checkpoint)
        if checkpoint is None or generation is None:
            raise TablesOfAnotherRun(
                f"the tables of {owner} were to be taken over, and {UNREACHED} any more. Bring it back; or delete this new checkpoint, "
                f"{owners.me.log}, which has read nothing yet, and say with `{confirmation([owner.generation])}` that no run of it is alive"
            )
        state = hand_over(checkpoint.log, owners.me)
        to = heir(owner, self.log)
        if to.generation != owners.me.generation:
            raise TablesOfAnotherRun(
                f"the tables of {owner} were handed over to {to} meanwhile. Run that one; or delete this new checkpoint, "
                f"{owners.me.log}, which has read nothing yet, and begin again"
            )
        self._ending.finish(checkpoint)
        self._ending.sweep(checkpoint, generation, state)
        # They hold payloads, and nobody else looks there again.
        forget_waiting(place_aside(checkpoint.files, self._tables.root, generation.id))
        forget_records(checkpoint.files, self._tables.root)
        if any(True for kind in (REPLAYS, RESETS) for _ in going(checkpoint.files, kind)):
            _log.warning(
                "a replay or a reset was begun with checkpoint %s and is not done, and nobody goes on with it: `distributary replay`, and "
                "`distributary quarantine replay`, bring what tables lack. One that was to replace rows may have left some in two tables, which "
                "`distributary replay --replace` puts right",
                checkpoint,
            )
        before = generation.start
        if state.so_far is not None and state.so_far.ends:
            reached = highest(state.so_far.left, state.so_far.ends)
            return _without(made_anew(generation.as_of(state.so_far).topics, topics), reached)
        if before.after is None:
            return before.offsets
        earlier = self._take(before.after, owners, topics)
        # A log that was to begin anew goes on from none, though it never began.
        return earlier if before.mode == "from_tables" else None

    def _require_wanted(self, mode: StartMode, tables: Sequence[str]) -> None:
        if mode == "resume":
            raise TablesOfAnotherRun(
                f"tables in {self._tables.root} ({', '.join(tables[:3])}{', ...' if len(tables) > 3 else ''}) were filled from another "
                "checkpoint, and this one is new. Point `checkpoint` back at that one; or set `start: from_tables` to go on "
                "from where it ended; or `start: again` to ingest everything once more. If this is another pipeline, give it another `name`"
            )

    def _require_dead(self, lost: Mapping[str, str], confirmed: Collection[str]) -> None:
        if any(generation not in confirmed for generation in lost):
            raise TablesOfAnotherRun(
                f"tables in {self._tables.root} are those of {'; and of '.join(lost.values())}. So nobody can shut out a run of it that is "
                "still alive, and its rows would be doubled. Make sure that there is none, on any machine, and say so with "
                f"`{confirmation(lost)}` in the settings"
            )


def _after_log(mode: StartMode, earlier: Earlier, dead: tuple[str, ...], world: World) -> Start:
    generation = None if earlier.checkpoint is None else read_generation(earlier.checkpoint, with_log=True)
    if generation is None or mode == "again":
        return Start(mode, after=earlier.owner, dead=dead)
    check_same_offsets(generation, world)
    left = {name: uuid for name, uuid in generation.topics.items() if name not in world.topics}
    others = made_anew(generation.topics, world.topics)
    already = {table: _without(others, known) for table, known in generation.start.already.items()}
    placed = {topic: them for topic, them in generation.start.placed.items() if topic not in others}
    return Start(mode, None, already, generation.lineage, earlier.owner, dead, left, placed)


def _without(topics: Collection[str], positions: Positions) -> Positions:
    return {topic: numbers for topic, numbers in positions.items() if topic not in topics}
