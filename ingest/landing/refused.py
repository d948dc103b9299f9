"""Files and folders that are there and cannot be read: told once, left for later, and no reason not to read others."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeVar

from distributary.ingest.landing.told import shown
from distributary.ingest.storage.clients import UnreadableName
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.posix import is_away

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
        self._untold, self._told_of_none = list[str](), set[bool]()
        # What was listed, and not there when it was read: in this look, and in the one before.
        self._missed, self._missed_before = set[str](), set[str]()
        self._is_away = False

    def begin(self) -> None:
        """A look begins."""
        self.met, self._missed, self._missed_before = [], set(), self._missed
        was_away, self._is_away = self._is_away, is_away(self._folder)
        if self._is_away and not was_away:
            _log.warning(
                "%s is not there, and nothing is read until it is: make it, mount what it is on, or correct source.files.path",
                self._folder,
            )

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

    def tell_of_none(self, there: int, why: str | None) -> None:
        """Tell once why no file was ever taken, and once more where files came meanwhile; not where the folder itself is not there, which was told."""
        if why is None or bool(there) in self._told_of_none or self._is_away:
            return
        self._told_of_none.add(bool(there))
        _log.warning("%s: %s", self._folder, why)

    def add(self, path: str, error: OSError) -> None:
        """Take note of what cannot be read, or not even be asked about."""
        self.met.append(error)
        if path not in self.paths:
            self._untold.append(f"{path} ({error})")
        self.paths.add(path)
