"""A drill of all operations at once, in an order that the dice choose."""

from __future__ import annotations

from drills.drill import Account
from drills.walk.walking import Walked, Wanted, walked
from drills.world import World

# About a minute; `python -m drills.walk` goes further.
_STEPS = 20


def random_walk(world: World, account: Account) -> None:
    """Twenty operations, each chosen by the dice, on one pipeline with tables of all modes: records, schemas, crashes, upkeep, replays, resets, checkpoints, backups and names; behind each of them the tables are held against a recomputation."""
    wanted = Wanted(world.random.randrange(1 << 30), _STEPS)
    done = walked(world, wanted, lambda _: None)
    account.rounds += len(done.steps)
    account.faults += done.harmed
    account.records += done.records
    account.refused |= done.refused.keys()
    account.differences += [*done.wrong, _again(wanted, done)] if done.wrong else []


def _again(wanted: Wanted, done: Walked) -> str:
    return f"python -m drills.walk --seed {wanted.seed} --steps {wanted.steps} does so again: {', '.join(done.steps)}"
