"""Long-lived child processes that outlive us and are found again: by pid and start time, and by a mark."""

from __future__ import annotations

import os
import subprocess
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import psutil


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process and nothing else: a pid is given out again, a pid with its start time is not."""

    pid: int
    started: float


class Children:
    """Processes that this program started. Held, so that Python warns of none that is left running on purpose."""

    def __init__(self) -> None:
        self._held: dict[int, subprocess.Popen[bytes]] = {}

    def start(self, command: Sequence[str], log: Path, folder: Path) -> ProcessId:
        """Start a process in a session of its own, so that Ctrl-C does not reach it; its output goes to `log`."""
        for pid in list(self._held):
            self._reap(pid)
        with log.open("ab") as output:
            child = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=folder,
                start_new_session=True,
            )
        self._held[child.pid] = child
        with suppress(psutil.NoSuchProcess):
            return ProcessId(child.pid, psutil.Process(child.pid).create_time())
        return ProcessId(child.pid, 0.0)

    def stop(self, process: ProcessId, patience: float) -> None:
        """Ask the process to end, and kill it after `patience` seconds; one that is gone already is fine."""
        living = _living(process)
        if living is not None:
            with suppress(psutil.NoSuchProcess):
                _end(living, patience)
        self._reap(process.pid)

    def kill(self, process: ProcessId) -> None:
        """End the process at once, as a crash or `kill -9` would."""
        living = _living(process)
        if living is not None:
            with suppress(psutil.NoSuchProcess):
                living.kill()
                living.wait(10)
        self._reap(process.pid)

    def _reap(self, pid: int) -> None:
        """Let go of a child that ended, so that it does not stay a zombie."""
        child = self._held.get(pid)
        if child is not None and child.poll() is not None:
            del self._held[pid]


def alive(process: ProcessId) -> bool:
    """Whether exactly this process runs; a zombie does not, nor does another one that got its pid."""
    return _living(process) is not None


def find_process(mark: str) -> ProcessId | None:
    """The process of this user that has `mark` among its arguments, for when nobody wrote its pid down."""
    for candidate in psutil.process_iter():
        with suppress(psutil.Error):
            if candidate.uids().real == os.getuid() and mark in candidate.cmdline():
                found = ProcessId(candidate.pid, candidate.create_time())
                return found if alive(found) else None
    return None


def last_lines(log: Path, count: int = 12) -> str:
    """The end of a log, for error messages; empty if there is none."""
    return "\n".join(deque(_lines(log), maxlen=count))


def _lines(log: Path) -> Iterator[str]:
    if log.is_file():
        with log.open(encoding="utf-8", errors="replace") as handle:
            yield from (line.rstrip() for line in handle if line.strip())


def _living(process: ProcessId) -> psutil.Process | None:
    with suppress(psutil.NoSuchProcess):
        found = psutil.Process(process.pid)
        if found.create_time() == process.started and found.status() != psutil.STATUS_ZOMBIE:
            return found
    return None


def _end(living: psutil.Process, patience: float) -> None:
    living.terminate()
    try:
        living.wait(patience)
    except psutil.TimeoutExpired:
        living.kill()
        living.wait(10)
