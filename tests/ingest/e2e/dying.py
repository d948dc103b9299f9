"""A run that does not get to its end: by an error in this process, or killed in one of its own."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Protocol

import pytest

from distributary.errors import BudgetSpent
from distributary.ingest.failpoints import Failpoint

# A process of its own is a JVM of its own; tests/ingest/e2e/test_crashes.py has one that is killed in `make test`.
WITHIN_OR_APART = pytest.mark.parametrize(
    "apart", [pytest.param(False, id="within"), pytest.param(True, id="apart", marks=pytest.mark.heavy)]
)


class Runs(Protocol):
    """A kit, as far as runs of it are ended here."""

    def run(self) -> object:
        """Ingest what is there now."""

    def run_apart(self, failpoints: str = "") -> object:
        """The same in a process of its own."""


def dies(kit: Runs, point: str, fail_at: Callable[..., None], *, apart: bool = False) -> None:
    """A run that ends at this point."""
    if apart:
        killed = kit.run_apart(f"{point}=kill")
        assert getattr(killed, "returncode", None) == -signal.SIGKILL, killed
        return
    fail_at(point)
    with pytest.raises((BudgetSpent, Failpoint), match="failpoint"):
        kit.run()
    fail_at()
