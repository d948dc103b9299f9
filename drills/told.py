"""Drills of tables that keep what was, which are held against what the topic itself says was true when."""

from __future__ import annotations

from drills.drill import Account
from drills.kills import VICTIMS, kill_running
from drills.upserted import BATCH_ROWS, CHANGES, DELETES, ends_whole
from drills.world import World
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.told import RULE, Told, expected, held


def told_at_any_moment(world: World, account: Account) -> None:
    """`kill -9` of the driver, its JVM or a worker, in turn, at a moment that the dice choose, of a run whose tables keep what was."""
    told = Told(world.pipeline(), seed=world.random.randrange(1 << 30), deletes=DELETES)
    told.configured(RULE, limits={"batch_rows": BATCH_ROWS, "commit_threads": 1})
    for victim in VICTIMS:
        told.send(CHANGES, players=40)
        account.faults += kill_running(told.kit, victim, world.random)
        with account.recovering():
            told.kit.run()
        ends_whole(told.kit, account, _compare)


def _compare(kit: PipelineKit, account: Account) -> None:
    wanted = {(key, *span) for key, spans in expected(kit).items() for span in spans}
    found = [(key, *span) for key, spans in held(kit).items() for span in spans]
    account.lost += len(wanted.difference(found))
    account.twice += len(found) - len(set(found))
    if unexpected := set(found) - wanted:
        account.differences.append(
            f"{len(unexpected)} rows that no record says, such as {min(unexpected, key=repr)}"
        )
