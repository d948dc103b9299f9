"""Upkeep that a run does by itself, in a process beside it, where `sink.maintain` says so."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.contract import Files

# In the checkpoint: when a run last did it is when this was written, whichever run that was.
MARK = "upkeep.json"

# A Python that is embedded in another program names none.
_COMMAND = (sys.executable or "python3", "-m", "distributary.ingest.upkeep.process")

_HOUR_SECONDS = 3600.0

# How often it is looked whether it is time, and how long a process is given to end.
_LOOK_SECONDS, _END_SECONDS = 60.0, 5.0

# How often who waits for its end looks for it.
_POLL_SECONDS = 0.05

# A request to a store has its answer, or an error, long before that: whoever has not needed a processor since will not go on, either.
_IDLE_SECONDS = 900.0


@dataclass(slots=True)
class _UnderWay:
    """Upkeep that is under way.

    worked  how long processors have worked for it, in the system's ticks; None where that is not told
    since   when it was looked at first, or `worked` was another one last
    """

    process: subprocess.Popen[bytes]
    output: IO[bytes]
    since: float
    worked: int | None = None

    def stands_still(self, now: float) -> bool:
        worked = _worked(self.process.pid)
        if worked is None or worked != self.worked:
            self.worked, self.since = worked, now
        return now - self.since > _IDLE_SECONDS


class UpkeepInRuns:
    """Begins upkeep where it is time, and tells what came of it. Nothing of it raises: a run goes on without."""

    def __init__(
        self, settings: Settings, checkpoint: Files, clock: Callable[[], float] = time.monotonic
    ) -> None:
        """For a pipeline with this checkpoint; `clock` is what it waits by."""
        self._settings, self._checkpoint, self._clock = settings, checkpoint, clock
        self._every_seconds = (
            0.0 if (rule := settings.sink.maintain) is None else rule.every_hours * _HOUR_SECONDS
        )
        self._look_at = clock()
        self._under_way: _UnderWay | None = None
        self._said: deque[str] = deque()

    def look(self) -> None:
        """Begin it if it is time and none is under way; take what one told that is done."""
        if self._under_way is not None:
            one = self._under_way
            if one.process.poll() is None:
                if one.stands_still(self._clock()):
                    self.close()
                    self._said.append(
                        f"upkeep has done nothing for {_IDLE_SECONDS / 60:g} minutes, as where a disk does not answer, and was ended; the next one goes on. "
                        "`distributary maintain` shows where"
                    )
                return
            self._under_way = None
            self._take(one.process.returncode, one.output)
        if self._every_seconds and self._clock() >= self._look_at and self._is_time():
            self._begin()

    def finish(self, stop: threading.Event) -> None:
        """The same, and wait until that is done, or the run is told to stop."""
        if not stop.is_set():
            self.look()
        while self._under_way is not None and not stop.wait(_POLL_SECONDS):
            self.look()

    def close(self) -> None:
        """End what is under way; what it has not done the next one does."""
        if self._under_way is None:
            return
        one, self._under_way = self._under_way, None
        for end in (one.process.terminate, one.process.kill):
            end()
            # One that waits for a disk does not end before that answers, whatever it is told.
            with suppress(subprocess.TimeoutExpired):
                one.process.wait(_END_SECONDS)
                break
        one.output.close()

    def told(self) -> list[str]:
        """What was done, or failed, since this was asked last, from any thread."""
        said = list[str]()
        with suppress(IndexError):
            while True:
                said.append(self._said.popleft())
        return said

    def _is_time(self) -> bool:
        self._look_at = self._clock() + min(_LOOK_SECONDS, self._every_seconds)
        try:
            info = self._checkpoint.info(MARK)
        except OSError:
            # Whoever writes to it tells of an outage.
            return False
        # One that a clock which was ahead has written says nothing.
        return info is None or not 0 <= time.time() - info.modified / 1000 < self._every_seconds

    def _begin(self) -> None:
        # However wrong the clock is, and whatever fails: not one after the other.
        self._look_at = self._clock() + min(_HOUR_SECONDS, self._every_seconds)
        try:
            self._under_way = self._started()
        except (OSError, ValueError, TypeError, pickle.PicklingError) as error:
            self._said.append(f"upkeep could not be begun: {error}")

    def _started(self) -> _UnderWay:
        # Not among its arguments, which all of the machine may read.
        told = pickle.dumps(self._settings)
        # It finds this package where the run has found it, in an archive, too.
        path = os.pathsep.join(one for one in sys.path if one and isinstance(one, str))
        with ExitStack() as opened:
            # No pipe: nobody reads it before the end.
            output = opened.enter_context(TemporaryFile())
            reading, writing = os.pipe()
            # Where it is dead already, that is told when it is looked at.
            with suppress(BrokenPipeError), os.fdopen(writing, "wb") as into:
                try:
                    process = subprocess.Popen(
                        _COMMAND,
                        stdin=reading,
                        stdout=output,
                        stderr=subprocess.DEVNULL,
                        env={**os.environ, "PYTHONPATH": path},
                    )
                finally:
                    os.close(reading)
                into.write(told)
            # Closed once it was read.
            opened.pop_all()
        return _UnderWay(process, output, self._clock())

    def _take(self, code: int, output: IO[bytes]) -> None:
        with output:
            output.seek(0)
            text = output.read()
        try:
            # A library may have said something before. It is the last word, whatever becomes of a process that ends behind it.
            told = json.loads(text.splitlines()[-1])
        except (IndexError, ValueError):
            told = {}
        if not isinstance(told, dict) or not told:
            self._said.append(
                f"upkeep ended with {code} before it was done; `distributary maintain` says more"
            )
            return
        self._said.append(f"upkeep: {'; '.join(told.values())}")
        if "done" not in told:
            return
        try:
            self._checkpoint.put(MARK, text)
        except OSError as error:
            self._said.append(f"upkeep is done, and nothing says so to the next run: {error}")


def _worked(pid: int) -> int | None:
    """How long processors have worked for a process; None where the system does not tell."""
    try:
        # Its name, in parentheses, may have a space.
        told = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return int(told[11]) + int(told[12])
    except (OSError, ValueError, IndexError):
        return None
