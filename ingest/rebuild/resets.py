"""What a reset keeps of itself in the checkpoint, so that the next call goes on with it.

resets/<id>/begun.json   from here on its tables are emptied, and made again
resets/<id>/done.json    they are
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.commit_log.formats import require_readable
from distributary.ingest.storage.contract import Files

RESETS, FORMAT = "resets", 1

_BEGUN, _DONE = "begun.json", "done.json"


@dataclass(frozen=True, slots=True)
class Reset:
    """One of them; `tables` are the folders that are to be emptied."""

    id: str
    tables: tuple[str, ...]

    def begin(self, checkpoint: Files, at: str) -> None:
        """Write down what it is of. Raises OSError."""
        _put(checkpoint, self.id, _BEGUN, {"tables": list(self.tables), "at": at})

    def end(self, checkpoint: Files, told: Mapping[str, Any]) -> None:
        """Write down that it is done, and what came of it. Raises OSError."""
        _put(checkpoint, self.id, _DONE, told)


def unfinished(checkpoint: Files) -> Reset | None:
    """The one that was begun and is not done: there is no more than one. Raises PipelineError where that cannot be read."""
    for name in checkpoint.folders(RESETS):
        place = checkpoint.below(f"{RESETS}/{name}")
        if place.info(_BEGUN) is None or place.info(_DONE) is not None:
            continue
        where = f"{place.url}/{_BEGUN}"
        with undamaged(where, "delete its folder, and say `distributary reset` again"):
            told: dict[str, Any] = json.loads(place.read(_BEGUN))
            require_readable(where, told["format"], FORMAT)
            return Reset(name, tuple(told["tables"]))
    return None


def _put(checkpoint: Files, reset: str, name: str, told: Mapping[str, Any]) -> None:
    data = json.dumps({"format": FORMAT, **told}).encode()
    checkpoint.below(f"{RESETS}/{reset}").put_new(name, data)
