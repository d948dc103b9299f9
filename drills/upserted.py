"""Drills of tables with one row a key, which are held against what the topic itself says of each."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from typing import Any

from drills.drill import Account
from drills.kills import VICTIMS, kill_running
from drills.world import World
from tests.ingest.e2e.keyed import (
    GAMES,
    Kept,
    Keyed,
    assert_spark_reads_the_same,
    newest,
    rows_of,
    topic_of,
)
from tests.ingest.e2e.pipeline_kit import PipelineKit

from distributary.ingest.failpoints import AMID_MERGE, AMID_SCHEMA_CHANGE, BETWEEN_COMMITS
from distributary.producer_sim.verify.comparison import verify

# A batch is a part of them, so that rows come that are newer, older and once more.
CHANGES = 300
BATCH_ROWS = 100

# What dies between the other steps is of no kind of table.
_POINTS = (AMID_SCHEMA_CHANGE, AMID_MERGE, BETWEEN_COMMITS)

_RULE = {"mode": "upsert", "keys": ["player.id"], "sequence_by": ["at"], "deletes": "op = 'd'"}

# Of the changes.
DELETES = 0.2


def upserted_at_failpoints(world: World, account: Account) -> None:
    """A run whose tables have one row a key dies while their columns change, amid a merge, and between two of them."""
    for point in _POINTS:
        keyed = keyed_pipeline(world)
        keyed.kit.run()
        keyed.send(CHANGES, level=1)
        killed = keyed.kit.run_apart(f"{point}=kill")
        account.faults += 1
        if killed.returncode != -signal.SIGKILL:
            account.differences.append(f"{point}: the run ended with {killed.returncode}, not -9")
        _recovered(keyed.kit, account)


def upserted_at_any_moment(world: World, account: Account) -> None:
    """`kill -9` of the driver, its JVM or a worker, in turn, at a moment that the dice choose, of a run whose tables have one row a key."""
    keyed = keyed_pipeline(world)
    for victim in VICTIMS:
        keyed.send(CHANGES, players=40)
        account.faults += kill_running(keyed.kit, victim, world.random)
        _recovered(keyed.kit, account)


def keyed_pipeline(world: World) -> Keyed:
    """A pipeline with such tables, and changes that nobody has read yet."""
    keyed = Keyed(world.pipeline(), seed=world.random.randrange(1 << 30), deletes=DELETES)
    keyed.configured(_RULE, limits={"batch_rows": BATCH_ROWS, "commit_threads": 1})
    keyed.send(CHANGES)
    return keyed


def _recovered(kit: PipelineKit, account: Account) -> None:
    with account.recovering():
        kit.run()
    ends_whole(kit, account)


def ends_whole(
    kit: PipelineKit, account: Account, compare: Callable[[PipelineKit, Account], None] | None = None
) -> None:
    """A round is over: hold the tables against what the topic says of each key; by `compare` where these are of another kind."""
    account.rounds += 1
    account.counts(kit.topic, len(topic_of(kit)))
    (compare or _compare)(kit, account)
    account.differences += map(str, verify(kit.settings).differences)
    # A file of which each row is older than what its table has is named by no log, and VACUUM takes it.
    account.requires_no_unnamed_files(kit, lambda: _decided(kit))


def _decided(kit: PipelineKit) -> set[str]:
    """The names of all files that batches decided on."""
    found = map(kit.manifests.read, range((kit.manifests.last_batch() or 0) + 1))
    return {name for manifest in found if manifest is not None for name in manifest.file_names()}


def _compare(kit: PipelineKit, account: Account) -> None:
    expected = newest(kit, _by_time, _has_key_and_time)
    rows = [((game, row["player"]["id"]), row) for game in GAMES for row in rows_of(kit, game)]
    account.twice += sum(count - 1 for count in Counter(key for key, _ in rows).values())
    held = {key: (row["kafka_partition"], row["kafka_offset"]) for key, row in rows}
    stays = {key: kept for key, kept in expected.items() if kept.body is not None and kept.body["op"] != "d"}
    account.lost += sum(held.get(key) != kept.position for key, kept in stays.items())
    if unexpected := held.keys() - expected.keys():
        account.differences.append(f"{len(unexpected)} keys that no record has, such as {min(unexpected)}")
    if again := (held.keys() & expected.keys()) - stays.keys():
        account.differences.append(f"{len(again)} keys that were deleted, such as {min(again)}")
    assert_spark_reads_the_same(kit)


def _has_key_and_time(kept: Kept) -> bool:
    return kept.body is not None and kept.body["player"] is not None and kept.body["at"] is not None


def _by_time(kept: Kept) -> Any:
    assert kept.body is not None
    return kept.body["at"], kept.offset
