"""Files and folders that are there and cannot be read: told once, left for later, and no reason not to read others."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from distributary.ingest.landing.told import shown
from distributary.ingest.storage.clients import UnreadableName
from distributary.ingest.storage.contract import Files

_log = logging.getLogger(__name__)

T = TypeVar("T")


class Refused:
    """What one run could not read of a folder.

    paths  of it
    met    what the look that is going on met
    """

    def __init__(self, folder: Files) -> None:
        """Nothing is known yet."""
        self._folder = folder
        self.paths, self.met = set[str](), list[OSError]()
        self._untold, self._told_of_none = list[str](), False
        # What was listed, and not there when it was read: in this look, and in the one before.
        self._missed, self._missed_before = set[str](), set[str]()

    def begin(self) -> None:
        """A look begins."""
        self.met, self._missed, self._missed_before = [], set(), self._missed

    def missed(self, path: str) -> None:
        """Take note of what is not there any more, as was listed; once more at the next look, it cannot be asked for."""
        self._missed.add(path)
        if path in self._missed_before:
            self.beyond_reach(path)

    def beyond_reach(self, path: str) -> None:
        """Take note of what is listed and cannot be asked for: a store's client leaves out a slash that a key ends with."""
        if not self._folder.remote:
            # It comes and goes, as a file may.
            return
        told = "it is listed, and is not there when it is asked for: its key ends with a slash"
        self.add(f"{path}/", UnreadableName(told))

    def tried(self, path: str, size: int, use: Callable[[Any], T]) -> T | None:
        """What is made of an open file; None where it cannot be read. Raises FileNotFoundError, ConnectionError."""
        try:
            with self._folder.reader(path, size) as opened:
                used = use(opened)
        except (FileNotFoundError, ConnectionError):
            raise
        except OSError as error:
            self.add(path, error)
            return None
        self.paths.discard(path)
        return used

    def pass_by(self, error: OSError) -> None:
        """Take note of a folder that may not be looked into, or that has something in it that nobody can ask for."""
        path = error.path if isinstance(error, UnreadableName) else error.filename
        self.add(str(path or "a folder"), error)

    def tell(self) -> None:
        """Tell of what nobody was told of yet."""
        if self._untold:
            _log.warning(
                "%s: %s files or folders cannot be read, and are left for later, while others are read: %s. Mend their rights, or take them away: where a batch of "
                "them was to come that ends the run, unless source.on_data_loss: record has quarantine name each",
                self._folder,
                len(self._untold),
                shown(self._untold),
            )
        self._untold = []

    def tell_of_none(self, there: int) -> None:
        """Tell once that no file was ever taken: a folder that is misspelt has none, and neither has a pattern."""
        if self._told_of_none:
            return
        self._told_of_none = True
        why = (
            f"of {there:,} files that are there none is taken: see `source.files.glob`, `settle` and `ignore_older_than`; names that begin with a dot or _, and empty files, never are"
            if there
            else "no file is there yet: see that `source.files.path` means it"
        )
        _log.warning("%s: %s", self._folder, why)

    def add(self, path: str, error: OSError) -> None:
        """Take note of what cannot be read, or not even be asked about."""
        self.met.append(error)
        if path not in self.paths:
            self._untold.append(f"{path} ({error})")
        self.paths.add(path)
