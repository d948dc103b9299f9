"""Steps in which rows are made again, from quarantine and from what is kept as it came, or are taken out for good."""

from __future__ import annotations

import random
from collections.abc import Callable

from drills.walk.model import APPENDED, ENTITIES
from drills.walk.operation import NOT_NOW, Operation, settled, unsettled
from drills.walk.pipeline import Walk
from drills.walk.runs import dying, run_to_end
from drills.walk.sending import KEYS

from distributary.ingest.erasure.erase import Wanted
from distributary.ingest.erasure.erase import erase as take_out
from distributary.ingest.failpoints import (
    AFTER_MANIFEST,
    AMID_MERGE,
    AMID_RESET,
    BEFORE_LEDGER,
    BEFORE_MANIFEST,
    BETWEEN_COMMITS,
)
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.rebuild import reset as resets
from distributary.ingest.rebuild import silver
from distributary.ingest.replay import bring_back as quarantine

_POINTS = (BEFORE_MANIFEST, AFTER_MANIFEST, AMID_MERGE, BETWEEN_COMMITS, BEFORE_LEDGER)

_ALL_APPENDED = tuple(entity for entity in ENTITIES if entity.startswith(APPENDED))


def bring_back(walk: Walk, dice: random.Random) -> None:
    """What waits in quarantine is decoded again."""
    quarantine.bring_back(walk.kit.settings, spark=walk.kit.spark)
    _done(walk, "bring_back", walk.model.brought_back)


def replay(walk: Walk, dice: random.Random) -> None:
    """What no table has is made again."""
    silver.replay(walk.kit.settings, spark=walk.kit.spark)
    _done(walk, "replay", walk.model.replayed)


def replace(walk: Walk, dice: random.Random) -> None:
    """Rows of tables to which each record is added are made again, in the place of those that are there."""
    chosen = Chosen(entities=_ALL_APPENDED)
    silver.replay(walk.kit.settings, chosen, spark=walk.kit.spark, replace=True)
    _done(walk, "replace", lambda: walk.model.replaced(_ALL_APPENDED))


def reset(walk: Walk, dice: random.Random) -> None:
    """All tables of entities are emptied and made again."""
    resets.reset(walk.kit.settings, spark=walk.kit.spark)
    _done(walk, "reset", walk.model.made_again)


def _done(walk: Walk, name: str, told: Callable[[], None]) -> None:
    told()
    walk.state.begun.discard(name)
    walk.state.current = False


def command_dying(walk: Walk, dice: random.Random) -> None:
    """One of these ends at a failpoint: it is to be said again."""
    command = dice.choice((bring_back, replay, replace, reset))
    whole = walk.state.whole
    with dying(walk, dice.choice((*_POINTS, *((AMID_RESET,) if command is reset else ())))) as died:
        command(walk, dice)
    if died:
        walk.state.begun.add(command.__name__)
        walk.state.whole = whole


def say_again(walk: Walk, dice: random.Random) -> None:
    """What died is said again, and a run goes on behind it."""
    every = {one.__name__: one for one in (bring_back, replay, replace, reset)}
    if not walk.state.whole:
        run_to_end(walk)
    for name in sorted(walk.state.begun):
        every[name](walk, dice)


def erase(walk: Walk, dice: random.Random) -> None:
    """A person is erased."""
    key = dice.choice(KEYS)
    take_out(walk.kit.settings, Wanted(f"who = '{key}'", keys=(key,))).check()
    walk.model.erased(key)
    walk.state.current, walk.state.upkept = False, True
    for folder, rows in walk.state.left.items():
        walk.state.left[folder] = [row for row in rows if row["kafka_key"] != key.encode()]


OPERATIONS = (
    Operation(bring_back, 4, refusals=NOT_NOW),
    Operation(replay, 3, refusals=NOT_NOW),
    Operation(replace, 2, refusals=NOT_NOW),
    Operation(reset, 2, refusals=NOT_NOW),
    Operation(command_dying, 6, refusals=NOT_NOW),
    Operation(say_again, 8, when=unsettled),
    Operation(erase, 2, when=settled),
)
