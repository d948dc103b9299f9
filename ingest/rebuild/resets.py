"""What a reset keeps of itself in the checkpoint, so that the next call goes on with it.

resets/<id>/begun.json   from here on its tables are emptied, and made again
resets/<id>/done.json    they are; both go when a later one is begun
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from distributary.ingest.checkpoint.damage import undamaged
from distributary.ingest.checkpoint.folder import BEGUN, DONE, RESETS, going
from distributary.ingest.commit_log.formats import require_readable
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.transaction import Transaction, app_of_resets

FORMAT, WITHOUT_NUMBERS = 2, 1


@dataclass(frozen=True, slots=True)
class Reset:
    """One of them.

    tables  the folders that are to be emptied
    number  its own among its pipeline's; None of one of an earlier version, which had an application for each that stayed in its tables for ever
    """

    id: str
    tables: tuple[str, ...]
    number: int | None

    def transaction(self, generation: str) -> Transaction:
        """By which a table is emptied once."""
        app = app_of_resets(generation)
        return Transaction(f"{app}/{self.id}", 0) if self.number is None else Transaction(app, self.number)

    @property
    def untold(self) -> bool:
        """Whether nobody may have been told of which records tables were emptied: an earlier version kept it of what its replays let go instead."""
        return self.number is None

    def begin(self, checkpoint: Files, at: str) -> None:
        """Write down what it is of, and forget those that are done. Raises OSError."""
        _forget_done(checkpoint)
        numbered = {} if self.number is None else {"number": self.number}
        _put(checkpoint, self.id, BEGUN, {"tables": list(self.tables), "at": at, **numbered})

    def end(self, checkpoint: Files, told: Mapping[str, Any]) -> None:
        """Write down that it is done, and what came of it. Raises OSError."""
        _put(checkpoint, self.id, DONE, told)


def unfinished(checkpoint: Files) -> Reset | None:
    """The one that was begun and is not done: there is no more than one. Raises PipelineError where that cannot be read."""
    for name in going(checkpoint, RESETS):
        place = checkpoint.below(f"{RESETS}/{name}")
        where = f"{place.url}/{BEGUN}"
        with undamaged(where, "delete its folder, and say `distributary reset` again"):
            told: dict[str, Any] = json.loads(place.read(BEGUN))
            require_readable(where, told["format"], FORMAT)
            number = told.get("number")
            return Reset(name, tuple(told["tables"]), None if number is None else int(number))
    return None


def _forget_done(checkpoint: Files) -> None:
    left = set(going(checkpoint, RESETS))
    for name in checkpoint.folders(RESETS):
        if name not in left:
            place = checkpoint.below(f"{RESETS}/{name}")
            # Without that nobody goes on with it, whatever else is left.
            place.delete([BEGUN])
            place.clear()
            place.remove_folder()


def _put(checkpoint: Files, reset: str, name: str, told: Mapping[str, Any]) -> None:
    format_ = FORMAT if "number" in told else WITHOUT_NUMBERS
    data = json.dumps({"format": format_, **told}).encode()
    checkpoint.below(f"{RESETS}/{reset}").put_new(name, data)
