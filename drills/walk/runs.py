"""Steps in which records are sent, and runs take them: to the end, not to the end, two at once, beside upkeep."""

from __future__ import annotations

import random
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from drills.walk.operation import Operation, settled
from drills.walk.pipeline import Walk, arm
from drills.walk.sending import SCORES

from distributary.errors import DistributaryError, LeaseHeld, PipelineError
from distributary.ingest.failpoints import (
    AFTER_DERIVING,
    AMID_DERIVING,
    AMID_FILE,
    BEFORE_REPORT,
    POINTS,
    Failpoint,
)
from distributary.ingest.run import run as run_pipeline
from distributary.ingest.upkeep.maintain import maintain

_IN_WORKERS = (AMID_FILE, BEFORE_REPORT)

_POINTS = tuple(point for point in (*POINTS, AMID_DERIVING, AFTER_DERIVING) if point not in _IN_WORKERS)


def produce(walk: Walk, dice: random.Random) -> None:
    """Records are sent: of several entities, some late, some twice, some bad, some without a value."""
    topic = dice.choice(list(walk.state.topics))
    count = dice.choice((3, 20, 60))
    sent = walk.sender.send(topic, walk.state.topics[topic], walk.fields, count, dice)
    walk.model.records += sent
    walk.state.records += count


def evolve(walk: Walk, dice: random.Random) -> None:
    """Producers go over to another schema: a field comes, goes, gets another name or a wider type."""
    fields, names = walk.fields, list(walk.fields.types)
    narrow = fields.narrow() if walk.shape.format == "avro" else []
    chosen = dice.choice(("add", *(("drop", "rename") if names else ()), *(("widen",) if narrow else ())))
    if chosen == "add":
        fields.add()
    elif chosen == "widen":
        fields.widen(dice.choice(narrow))
    elif chosen == "drop":
        fields.drop(dice.choice(names))
    else:
        fields.rename(dice.choice(names))
    produce(walk, dice)


def run(walk: Walk, dice: random.Random) -> None:
    """A run takes what is there."""
    run_to_end(walk)


def run_to_end(walk: Walk) -> None:
    """The same."""
    _run(walk)
    ended(walk)


def _run(walk: Walk) -> None:
    """A run that amid a reset which died makes no derived table current, and says so."""
    try:
        walk.kit.run()
    except PipelineError as error:
        if "reset" not in walk.state.begun or "a reset was begun" not in str(error):
            raise


def ended(walk: Walk) -> None:
    """A run came to its end."""
    walk.model.read(walk.said.left_out)
    walk.state.whole = True
    walk.state.current = "reset" not in walk.state.begun
    walk.state.upkept = False


@contextmanager
def dying(walk: Walk, point: str) -> Iterator[list[str]]:
    """What is done in the block ends at this point, if it comes there: then the list has it."""
    died: list[str] = []
    arm(point)
    try:
        yield died
    except (DistributaryError, Failpoint) as error:
        if "failpoint" not in str(error).lower():
            raise
        died.append(point)
        walk.state.whole = walk.state.current = False
    finally:
        arm(None)


def run_dying(walk: Walk, dice: random.Random) -> None:
    """A run ends at a failpoint."""
    with dying(walk, dice.choice(_POINTS)) as died:
        _run(walk)
    if not died:
        ended(walk)


def run_killed(walk: Walk, dice: random.Random) -> None:
    """A run in a process of its own is killed at a failpoint."""
    killed = walk.kit.run_apart(f"{dice.choice((*POINTS, AMID_DERIVING, AFTER_DERIVING))}=kill")
    if killed.returncode == 0:
        ended(walk)
        return
    # A worker that is killed is started again, or its task fails.
    assert killed.returncode in (-signal.SIGKILL, 1), killed
    walk.state.whole = walk.state.current = False


def run_twice(walk: Walk, dice: random.Random) -> None:
    """Two runs at once: one is refused, or begins when the other is done."""
    settings, spark = walk.kit.settings, walk.kit.spark
    errors = together(*(lambda: run_pipeline(settings, spark=spark) for _ in range(2)))
    others = [error for error in errors if not isinstance(error, LeaseHeld)]
    if others:
        raise others[0]
    assert len(errors) < 2, "each of two runs was refused"
    ended(walk)


def run_beside_upkeep(walk: Walk, dice: random.Random) -> None:
    """A run while tables have their upkeep."""
    settings, spark = walk.kit.settings, walk.kit.spark
    errors = together(lambda: run_pipeline(settings, spark=spark), lambda: maintain(settings).check())
    if errors:
        raise errors[0]
    ended(walk)


def together(*works: Callable[[], object]) -> list[Exception]:
    """What works that are done at the same time raise."""
    errors: list[Exception] = []

    def done(work: Callable[[], object]) -> None:
        try:
            work()
        except Exception as error:  # noqa: BLE001 told by who waits for the threads
            errors.append(error)

    threads = [threading.Thread(target=done, args=(work,), daemon=True) for work in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


def change_rules(walk: Walk, dice: random.Random) -> None:
    """What tables expect of records is another thing from here on."""
    walk.model.limit = dice.choice((None, SCORES // 2, SCORES - 10))
    walk.configure()


def add_partition(walk: Walk, dice: random.Random) -> None:
    """A topic gets one more partition."""
    walk.add_partition(dice.choice(list(walk.state.topics)))


def add_topic(walk: Walk, dice: random.Random) -> None:
    """There is one more topic that fits the pattern."""
    if len(walk.state.topics) < 3:
        walk.add_topic()
    produce(walk, dice)


def leave_out(walk: Walk, dice: random.Random) -> None:
    """A topic is read no more for a while, or the one that was not is read again from where it was left."""
    topics = sorted(walk.state.topics)
    walk.said.left_out = "" if walk.said.left_out or len(topics) < 2 else dice.choice(topics)[-1]
    walk.configure()
    produce(walk, dice)


OPERATIONS = (
    Operation(produce, 12),
    Operation(evolve, 5),
    Operation(run, 12),
    Operation(run_dying, 10),
    # A JVM of its own takes as long as ten other steps, and kills have a drill: by --only.
    Operation(run_killed, 0),
    Operation(run_twice, 2, when=settled),
    Operation(run_beside_upkeep, 2, when=settled),
    Operation(change_rules, 3, when=settled),
    Operation(add_partition, 1),
    Operation(add_topic, 2),
    Operation(leave_out, 3, when=lambda walk: len(walk.state.topics) > 1),
)
