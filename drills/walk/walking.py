"""A random walk: operations chosen by the dice on one pipeline, whose tables are held against a model behind each of them."""

from __future__ import annotations

import random
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

from drills.walk import moves, replays, runs, upkeep
from drills.walk.checking import differences
from drills.walk.operation import Operation
from drills.walk.pipeline import Walk
from drills.world import World

from distributary.errors import DistributaryError

EVERY = (*runs.OPERATIONS, *upkeep.OPERATIONS, *replays.OPERATIONS, *moves.OPERATIONS)

# Far longer than any step takes.
_PATIENCE_SECONDS = 600.0

Say = Callable[[str], None]

_EACH_DAY = (runs.produce, runs.run)


@dataclass(frozen=True)
class Wanted:
    """Which walk.

    only    the names of the operations that are chosen among; none: all
    dropped the numbers of steps that are left out: the dice of all others fall as they did
    """

    seed: int
    steps: int = 30
    only: Collection[str] = ()
    dropped: Collection[int] = ()


@dataclass
class Walked:
    """What came of it.

    steps    the names of those that were done, with their numbers
    harmed   how many of them were none that each pipeline meets each day
    refused  how often an operation was refused, by the error
    wrong    what was not as it should be behind the last of them
    """

    records: int = 0
    steps: list[str] = field(default_factory=list)
    harmed: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


class _Hangs(Exception):
    """A step did not end."""


def walked(world: World, wanted: Wanted, say: Say) -> Walked:
    """Walk until something is wrong, or all steps are done."""
    walk, done = Walk.begun_by(world, random.Random(f"{wanted.seed}")), Walked()
    say(f"seed {wanted.seed}: {walk.shape}")
    for number in range(wanted.steps + 1):
        if number in wanted.dropped:
            continue
        dice = random.Random(f"{wanted.seed}/{number}")
        operation = _chosen(walk, wanted, number, dice)
        done.steps.append(f"{number} {operation.name}")
        done.harmed += operation.does not in _EACH_DAY
        began = time.monotonic()
        told = _step(walk, operation, dice, done)
        done.records = walk.state.records
        state = walk.state
        said = "" if state.is_settled else f" (died: {', '.join(sorted(state.begun)) or 'a run'})"
        say(f"  {number} {operation.name}{said}: {told} ({time.monotonic() - began:.1f} s)")
        if done.wrong:
            for one in done.wrong:
                say(f"    {one}")
            break
    return done


def _chosen(walk: Walk, wanted: Wanted, number: int, dice: random.Random) -> Operation:
    """A walk begins with records, and ends with everything in its place."""
    if number == 0:
        return Operation(_begin)
    if number == wanted.steps:
        return Operation(_end)
    drawn, among = dice.random(), [one for one in EVERY if one.weight or one.name in wanted.only]
    if wanted.only:
        among = [one for one in among if one.name in wanted.only]
    fitting = [one for one in among if one.when(walk)] or [next(one for one in EVERY if one.does is runs.run)]
    return _drawn(fitting, drawn)


def _drawn(among: Sequence[Operation], drawn: float) -> Operation:
    left = drawn * sum(max(one.weight, 1) for one in among)
    for one in among:
        left -= max(one.weight, 1)
        if left < 0:
            return one
    return among[-1]


def _begin(walk: Walk, dice: random.Random) -> None:
    for _ in range(3):
        runs.produce(walk, dice)
    runs.run(walk, dice)


def _end(walk: Walk, dice: random.Random) -> None:
    replays.say_again(walk, dice)
    runs.run(walk, dice)


def _step(walk: Walk, operation: Operation, dice: random.Random, done: Walked) -> str:
    settled = walk.state.is_settled
    try:
        _bounded(lambda: operation.does(walk, dice))
    except DistributaryError as error:
        name = type(error).__name__
        if settled or not isinstance(error, operation.refusals):
            done.wrong.append(f"{operation.name} was refused: {name}: {error}")
            return name
        done.refused[name] += 1
        return f"refused by {name}: {error}"
    except Exception as error:  # noqa: BLE001 told with the steps that led there
        done.wrong.append("".join(traceback.format_exception(error)))
        return type(error).__name__
    try:
        done.wrong += differences(walk)
    except Exception as error:  # noqa: BLE001 likewise
        done.wrong.append("".join(traceback.format_exception(error)))
    return "done"


def _bounded(work: Callable[[], object]) -> None:
    errors: list[Exception] = []
    thread = threading.Thread(target=lambda: errors.extend(runs.together(work)), daemon=True)
    thread.start()
    thread.join(_PATIENCE_SECONDS)
    if thread.is_alive():
        frames = sys._current_frames().values()
        raise _Hangs("\n".join("".join(traceback.format_stack(frame)) for frame in frames))
    if errors:
        raise errors[0]
