"""Which files of a folder are taken, by what the settings say."""

from __future__ import annotations

import heapq
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property

from distributary.ingest.settings.source.landing import FilesSource
from distributary.ingest.storage.contract import Files, Info

# Of a clock, in milliseconds.
_MOST_AHEAD = 86_400_000


@dataclass
class Wanted:
    """Chooses files.

    now       the time, in seconds since the epoch
    unfit     how many of a look did not fit the pattern
    settling  how many of them are taken later
    """

    chosen: FilesSource
    now: Callable[[], float] = time.time
    unfit: int = field(default=0, init=False)
    settling: int = field(default=0, init=False)

    def begin(self) -> None:
        """A look begins."""
        self.unfit = self.settling = 0

    def takes(self, info: Info) -> bool:
        """Whether a file is taken now: one that is settling is later."""
        # Of no bytes there is nothing to read, and many may be written to yet.
        # Of a key that is nothing but a slash no name is left.
        if not info.size or any(part[:1] in "._" for part in info.path.split("/")):
            return False
        name = info.name if "/" not in (self.chosen.glob or "/") else info.path
        if self._glob is not None and not self._glob.fullmatch(name):
            self.unfit += 1
            return False
        is_settling = self.is_settling(info)
        self.settling += is_settling
        return not is_settling

    def why_none(self, there: int) -> str | None:
        """Why none of the files of a look is taken, of which there are so many; None where some will be once they have settled."""
        if self.settling:
            return None
        if not there:
            return "no file is there yet: see that source.files.path means it"
        if not self.unfit:
            return (
                f"of {there:,} files none is taken: empty ones and those whose name, or a folder's, begins with a dot or _ never are, nor are those that "
                "source.files.ignore_older_than leaves out"
            )
        return f"of {there:,} files none is taken: {self.unfit:,} do not fit source.files.glob, {self.chosen.glob}, in which *, ? and **/ alone stand for others"

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
