"""Places where a run can be made to die or fail on purpose, so that recovery is tested at exact moments.

`DISTRIBUTARY_FAILPOINTS="after_manifest:3=kill,between_commits=fail"`: at that point (of that batch) the process is
killed, stopped until somebody wakes it (`stop`), or an exception is raised, once a process. Nothing happens where the variable is not set.
"""

from __future__ import annotations

import os
import signal

VARIABLE = "DISTRIBUTARY_FAILPOINTS"

BEFORE_MANIFEST = "before_manifest"

AFTER_MANIFEST = "after_manifest"

BETWEEN_COMMITS = "between_commits"

BEFORE_SPARK_COMMIT = "before_spark_commit"

_fired: set[str] = set()


class Failpoint(RuntimeError):
    """An error asked for by the environment."""


def reach(point: str, batch_id: int) -> None:
    """Die, fail or go on, as the environment says for this point and batch."""
    wanted = os.environ.get(VARIABLE, "")
    for entry in filter(None, wanted.split(",")):
        place, _, action = entry.partition("=")
        if place in (point, f"{point}:{batch_id}") and entry not in _fired:
            _fired.add(entry)
            _act(action, entry)


def _act(action: str, entry: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action == "stop":
        os.kill(os.getpid(), signal.SIGSTOP)
        return
    raise Failpoint(f"failpoint {entry}")
