"""Places where a run can be made to die or fail on purpose, so that recovery is tested at exact moments.

`DISTRIBUTARY_FAILPOINTS="after_manifest:3=kill,between_commits=fail"`: at that point (of that batch) the process is
killed, stopped until somebody wakes it (`stop`), or an exception is raised, once a process. Where the variable is not set, a point
is one look into the environment; there is one a file, a task, a table that is changed or committed, never one a row.

Two points are in Spark's workers, which are other processes. There it is the first attempt of a task that dies: Spark's own
repetition of it goes on.
"""

from __future__ import annotations

import os
import signal

from pyspark import TaskContext

VARIABLE = "DISTRIBUTARY_FAILPOINTS"

# In a worker: rows of a file are written and its end is not; all files are written and the driver is not told.
AMID_FILE, BEFORE_REPORT = "amid_file", "before_report"

# Some of the tables that a batch makes or alters are what they must be.
AMID_SCHEMA_CHANGE = "amid_schema_change"

BEFORE_MANIFEST, AFTER_MANIFEST = "before_manifest", "after_manifest"

# What a merge's entry is to name is written, and it is not put.
AMID_MERGE = "amid_merge"

BETWEEN_COMMITS = "between_commits"

# All tables are committed but the one that says so.
BEFORE_LEDGER = "before_ledger"

# All of a batch is done, and Spark is not told.
BEFORE_SPARK_COMMIT = "before_spark_commit"

# Upkeep has written files of a clustered table anew, and no entry names them. No batch comes to it.
AMID_UPKEEP = "amid_upkeep"

# Files of a derived table are written, and no entry names them. No batch comes to it.
AMID_DERIVING = "amid_deriving"

# A derived table's entry is there, and nobody is told. No batch comes to it.
AFTER_DERIVING = "after_deriving"

# A topic has what changed in a derived table, and no mark says so. No batch comes to it.
AFTER_SENDING = "after_sending"

# A reset is about to empty a table. No batch comes to it.
AMID_RESET = "amid_reset"

# In the order in which a batch comes to them.
POINTS = (
    AMID_FILE,
    BEFORE_REPORT,
    AMID_SCHEMA_CHANGE,
    BEFORE_MANIFEST,
    AFTER_MANIFEST,
    AMID_MERGE,
    BETWEEN_COMMITS,
    BEFORE_LEDGER,
    BEFORE_SPARK_COMMIT,
)

_fired: set[str] = set()


class Failpoint(RuntimeError):
    """An error asked for by the environment."""


def reach(point: str, batch_id: int) -> None:
    """Die, fail or go on, as the environment says for this point and batch."""
    wanted = os.environ.get(VARIABLE)
    if wanted:
        _look(wanted, point, batch_id)


def _look(wanted: str, point: str, batch_id: int) -> None:
    for entry in filter(None, wanted.split(",")):
        place, _, action = entry.partition("=")
        if place in (point, f"{point}:{batch_id}") and entry not in _fired and not _repeated():
            _fired.add(entry)
            _act(action, entry)


def _repeated() -> bool:
    """Whether this is a task that was begun before, by another worker, which knew nothing of this one."""
    task = TaskContext.get()
    return task is not None and task.attemptNumber() > 0


def _act(action: str, entry: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    raise Failpoint(f"failpoint {entry}")
