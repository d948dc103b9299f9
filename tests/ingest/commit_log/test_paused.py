"""A real process that is stopped while others run and close its log: woken, it finds out before anything rests on what it does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.ingest.commit_log import sleeper
from tests.ingest.commit_log.logs import TOPIC, begun, data_file, decided, entries, swept

from distributary.ingest.commit_log.entries import Batch
from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.commit_log.writing import Writer
from distributary.ingest.storage.posix import PosixFiles

SLEEPER = Path(sleeper.__file__)
ROOT = SLEEPER.parents[3]

# In the middle of a batch's entry: before it is put, when it is there, between the two questions that follow.
DECIDING = [
    ("put_new", "log", "before"),
    ("put_new", "log", "after"),
    ("names", "closed", "after"),
    ("names", "log", "before"),
]

# In the middle of closing: before that is written down, after it, amid the deletes of entries and of older closings.
CLOSING = [
    ("put_new", "closed", "before"),
    ("put_new", "closed", "after"),
    ("delete", "log", "after"),
    ("delete", "closed", "after"),
]


@pytest.mark.parametrize("where", [*DECIDING, *CLOSING], ids=" ".join)
@pytest.mark.usefixtures("closing_soon")
def test_who_wakes_is_shut_out_and_the_log_is_one_line(tmp_path: Path, where: tuple[str, str, str]) -> None:
    files = PosixFiles(tmp_path)
    with stopped(tmp_path, 6, where) as process:
        newest = CommitLog(files).state().next - 1
        writer, _ = taken_over(files)
        committed = batches(files, writer, 12)
        assert CommitLog(files).closed() > newest, "the number that it is to put is closed, too"
        said = woken(process)
    assert said == "fenced"
    assert committed <= {info.path for info in files.list("data")}
    committed |= batches(files, writer, 6)
    assert ends_of(files) == writer.so_far.ends[TOPIC][0]
    after, gone = taken_over(files)
    assert not gone & committed
    assert decided(after).offsets[TOPIC][0][0] == writer.so_far.ends[TOPIC][0]


@pytest.mark.usefixtures("closing_soon")
@pytest.mark.parametrize("where", DECIDING[:2], ids=" ".join)
def test_who_wakes_beside_the_one_that_took_over_is_shut_out_too(
    tmp_path: Path, where: tuple[str, str, str]
) -> None:
    """Nothing is closed meanwhile: what lies behind its number gives it away."""
    files = PosixFiles(tmp_path)
    with stopped(tmp_path, 1, where) as process:
        writer, _ = taken_over(files)
        decided(writer, data_file(files, writer))
        assert woken(process) == "fenced"
    decided(writer, data_file(files, writer))
    assert ends_of(files) == writer.so_far.ends[TOPIC][0]


def taken_over(files: PosixFiles) -> tuple[Writer, set[str]]:
    """Somebody who runs the log from here on, and what he swept."""
    writer = begun(files)
    return writer, swept(files, writer)


def batches(files: PosixFiles, writer: Writer, number: int) -> set[str]:
    """So many batches; the paths of their files."""
    paths = set()
    for _ in range(number):
        path = data_file(files, writer)
        writer.settle(decided(writer, path).number)
        writer.close()
        paths.add(path)
    return paths


def ends_of(files: PosixFiles) -> int:
    """Where the newest batch ends, those that are not closed held against each other."""
    return next(entry.offsets[TOPIC][0][1] for entry in reversed(entries(files)) if isinstance(entry, Batch))


@contextmanager
def stopped(folder: Path, number: int, where: tuple[str, str, str]) -> Iterator[subprocess.Popen[str]]:
    """A sleeper that has stopped itself; killed if it is not done when the block ends."""
    command = [sys.executable, str(SLEEPER), str(folder), str(number), *where]
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}:{ROOT / 'src'}"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as process:
        try:
            _, status = os.waitpid(process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status), "it did not come to where it is to stop"
            yield process
        finally:
            process.kill()


def woken(process: subprocess.Popen[str]) -> str:
    """What it comes to."""
    os.kill(process.pid, signal.SIGCONT)
    return process.communicate(timeout=60)[0].strip()
