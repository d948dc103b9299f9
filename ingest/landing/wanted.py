"""Which files of a folder are taken, by what the settings say."""

from __future__ import annotations

import heapq
import logging
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from distributary.ingest.settings.source.landing import FilesSource
from distributary.ingest.storage.contract import Files, Info

_log = logging.getLogger(__name__)

# Of a clock, in milliseconds.
_MOST_AHEAD = 86_400_000


@dataclass
class Wanted:
    """Chooses files.

    now     the time, in seconds since the epoch
    unfit   how many did not fit the pattern, as long as none did
    """

    chosen: FilesSource
    now: Callable[[], float] = time.time
    unfit: int | None = field(default=0, init=False)

    def takes(self, info: Info) -> bool:
        """Whether a file is taken now: one that is settling is later."""
        # Of no bytes there is nothing to read, and many may be written to yet.
        # Of a key that is nothing but a slash no name is left.
        if not info.size or any(part[:1] in "._" for part in info.path.split("/")):
            return False
        name = info.name if "/" not in (self.chosen.glob or "/") else info.path
        if self._glob is not None and not self._glob.fullmatch(name):
            self.unfit = None if self.unfit is None else self.unfit + 1
            return False
        self.unfit = None
        return not self.is_settling(info)

    def tell_of_none(self, folder: Files) -> None:
        """Tell, once, of a pattern that none of the files fits which were looked at."""
        if self.unfit:
            _log.warning(
                "none of %s files in %s fits source.files.glob, %s, in which *, ? and **/ alone stand for others",
                *(self.unfit, folder, self.chosen.glob),
            )
            self.unfit = None

    def is_settling(self, info: Info) -> bool:
        """Whether a file was written to so short a time ago that more may come; a time that no clock is wrong by tells nothing of that."""
        age = self.now() * 1000 - info.modified
        return bool(self.chosen.settle) and -_MOST_AHEAD <= age < self.chosen.settle * 1000

    @cached_property
    def _glob(self) -> re.Pattern[str] | None:
        return None if self.chosen.glob is None else as_regex(self.chosen.glob)


def newest(folder: Files, chosen: FilesSource, most: int) -> list[Info]:
    """The files that were written last of those that are taken, so many of them, the oldest first."""
    taken = filter(Wanted(chosen).takes, folder.walk(passing=lambda _: None))
    return heapq.nlargest(most, taken, key=lambda one: (one.modified, one.path))[::-1]


def as_regex(glob: str) -> re.Pattern[str]:
    """What a pattern of paths means."""
    found, at = "", 0
    while at < len(glob):
        if glob.startswith("**/", at):
            found, at = f"{found}(?:[^/]+/)*", at + 3
        elif glob.startswith("**", at):
            found, at = f"{found}.*", at + 2
        else:
            found += {"*": "[^/]*", "?": "[^/]"}.get(glob[at], re.escape(glob[at]))
            at += 1
    return re.compile(found, re.DOTALL)
