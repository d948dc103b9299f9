"""What Spark's Python workers hold in memory together, looked at again and again while something runs."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import psutil

_EVERY_SECONDS = 0.05
# Listing all processes is dearer than asking a few for their memory.
_LOOKS_A_LISTING = 10
# Whatever daemon a session has: it and the workers that it forks are started as `python -m … pyspark.worker`.
_MARK = "pyspark.worker"


class WorkerMemory:
    """The peak of all children of this process that are Spark's Python workers; see `watched_workers`.

    RSS counts a page once for every worker that shares it; PSS divides it among them, and is None where the system
    does not tell.
    """

    def __init__(self) -> None:
        self.peak_rss = 0
        self.peak_pss: int | None = None
        self.most_processes = 0
        self.samples = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="worker-memory", daemon=True)

    def start(self) -> None:
        """Begin to look."""
        self._thread.start()

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        workers: list[psutil.Process] = []
        while not self._ended.is_set():
            if self.samples % _LOOKS_A_LISTING == 0:
                workers = python_workers()
            self._look(workers)
            self._ended.wait(_EVERY_SECONDS)

    def _look(self, workers: list[psutil.Process]) -> None:
        found = [held for held in map(_memory, workers) if held is not None]
        shared = [pss for _, pss in found if pss is not None]
        self.samples += 1
        self.most_processes = max(self.most_processes, len(found))
        self.peak_rss = max(self.peak_rss, sum(rss for rss, _ in found))
        if shared:
            self.peak_pss = max(self.peak_pss or 0, sum(shared))


@contextmanager
def watched_workers() -> Iterator[WorkerMemory]:
    """The peak while the block lasts."""
    memory = WorkerMemory()
    memory.start()
    try:
        yield memory
    finally:
        memory.end()


def python_workers() -> list[psutil.Process]:
    """Spark's Python daemon and the workers it forked, as far as they are children of this process's JVM."""
    return [child for child in psutil.Process().children(recursive=True) if _is_worker(child)]


def _is_worker(process: psutil.Process) -> bool:
    try:
        return _MARK in process.cmdline()
    except psutil.Error:
        return False


def _memory(process: psutil.Process) -> tuple[int, int | None] | None:
    """RSS and PSS in bytes; None for a process that is gone."""
    try:
        held = process.memory_full_info()
    except psutil.Error:
        return None
    return held.rss, getattr(held, "pss", None)
