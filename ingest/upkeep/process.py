"""Upkeep as a process of its own: it reads settings from its input, and writes what it did as JSON.

A run begins it, for the memory and the processors that upkeep takes: the system gives this process what batches leave, and where it
dies the run goes on.
"""

from __future__ import annotations

import json
import os
import pickle
import sys

from distributary.errors import DistributaryError
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.upkeep.compaction import fault
from distributary.ingest.upkeep.in_runs import MARK
from distributary.ingest.upkeep.maintain import Upkeep, Wish, maintain, time_there

# Behind whoever asks for a processor as everybody does.
_NICENESS = 10


def main() -> None:
    """Keep the tables up of the pipeline whose pickled settings are the input; a failure is told in the output as well."""
    os.nice(_NICENESS)
    # Written by the run that begins this process.
    settings: Settings = pickle.load(sys.stdin.buffer)  # noqa: S301
    sys.stdout.write(json.dumps(_kept_up(settings)))
    # Native libraries may end the process before Python does.
    sys.stdout.flush()


def _kept_up(settings: Settings) -> dict[str, str]:
    rule = settings.sink.maintain
    wish = Wish() if rule is None else Wish(older_than_days=rule.older_than_days)
    try:
        before = open_files(settings.checkpoint, settings.storage).info(MARK)
        known = 0 if before is None else before.modified

        def clock(root: Files) -> int:
            # Nobody is there to see that a clock went ahead: what goes was old by the last upkeep's, too, and by none it is young.
            return min(known, time_there(root))

        done = maintain(settings, wish, clock=clock)
    except (DistributaryError, OSError) as error:
        return {"failed": str(error)}
    except Exception as error:  # noqa: BLE001 whatever it is, nobody reads what else this process says
        return {"failed": fault(error)}
    try:
        done.check()
    except DistributaryError as error:
        # The others have had theirs: all of them once more, each time, would help none.
        return {"done": _sentence(done), "failed": str(error)}
    return {"done": _sentence(done)}


def _sentence(done: Upkeep) -> str:
    left = sum(1 for one in done.tables if one.left) + bool(done.record.left)
    waits = f"; {left:,} were left in part (`distributary maintain` says why)" if left else ""
    record = done.record
    old = record.batches + record.changes + record.quarantined + record.resolved
    let_go = f", {old:,} rows of an old record let go" if old else ""
    return (
        f"{done.compacted:,} files compacted into {done.made:,}, {done.deleted.files:,} deleted in "
        f"{len(done.tables):,} tables{let_go}{waits}"
    )


if __name__ == "__main__":
    main()
