"""delta-rs' handle on a table, wherever that is: the one place that knows what delta-rs needs to get there."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as NotInTime
from contextlib import contextmanager
from typing import TypeVar

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError

from distributary.ingest.interruptible import answer_to
from distributary.ingest.log_paths import LOG
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.tables.log import is_version, last_checkpoint, newest_version
from distributary.values import without_logins

T = TypeVar("T")

# By what it says of a store that refuses who asks.
_REFUSED = re.compile(r"lacked the necessary privileges|status code: 40[13]\b")

_ARROW = re.compile(r"(?:\x1b\[\d+m)?\u21b3(?:\x1b\[0m)?")


def opened(table: At) -> DeltaTable:
    """The table as it is now, whatever its log says of a checkpoint that is not there yet: that is a hint, and may be wrong.

    https://github.com/delta-io/delta/blob/master/PROTOCOL.md#last-checkpoint-file Raises TableNotFoundError, other DeltaErrors where delta-rs cannot open it, and OSError where the place does not answer.
    """
    files = files_at(table)
    return answered(files, lambda: _opened(files))


def _opened(files: Files) -> DeltaTable:
    try:
        return DeltaTable(files.url, storage_options=options(files))
    except DeltaError:
        # delta-rs looks for entries only from where the log says that its checkpoint is, unless an older version is asked for.
        newest = newest_version(files)
        if newest is None or last_checkpoint(files).version <= newest:
            raise
        return DeltaTable(files.url, version=newest, storage_options=options(files))


def answered(files: Files, ask: Callable[[], T]) -> T:
    """What delta-rs answers that asks the place, told as in `told`. Raises ConnectionError where nobody answers that at all."""
    with told(files):
        if files.patience is None:
            return ask()
        try:
            return answer_to(ask, threading.Event(), files.patience)
        except NotInTime:
            raise ConnectionError(f"no answer came within {files.patience:g} seconds") from None


@contextmanager
def told(files: Files) -> Iterator[None]:
    """Inside, delta-rs asks the place, as it also does to make a table and to change one: its OSErrors say where, on one line, and hold no secret."""
    try:
        yield
    except OSError as error:
        # It says why on the lines behind the first, with arrows in colour, and what the store quotes of the request.
        why = ": ".join(part.strip() for part in _ARROW.split(str(error)))
        kind = PermissionError if _REFUSED.search(why) else type(error)
        raise kind(f"{files}: {without_logins(' '.join(why.split()))}") from None


def is_there(table: At) -> bool:
    """Whether there is a table, readable or not.

    delta-rs' own answer keeps the interpreter until the store has given it: no sign of life, and no signal, gets through meanwhile.
    """
    # Behind it the names begin, so that a store tells one page of them.
    return any(map(is_version, files_at(table).names(LOG, after="0")))


def options(table: At) -> dict[str, str] | None:
    """What delta-rs needs to get there; None for a folder, which takes nothing."""
    return dict(files_at(table).options) or None
