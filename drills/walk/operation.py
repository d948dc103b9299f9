"""What a step of a walk may be."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass

from drills.walk.pipeline import Walk

from distributary.errors import DistributaryError, PipelineError

Act = Callable[[Walk, random.Random], None]

Refusals = tuple[type[DistributaryError], ...]


@dataclass(frozen=True)
class Operation:
    """One kind of step.

    does      does it, and tells the model; raises what the pipeline raises
    weight    how often it is chosen, beside the others
    when      where it may be done
    refusals  the errors by which it may be refused amid what has died; where everything is in its place none is let pass
    """

    does: Act
    weight: int = 2
    when: Callable[[Walk], bool] = lambda _: True
    refusals: Refusals = ()

    @property
    def name(self) -> str:
        """As it is chosen by."""
        return self.does.__name__


def settled(walk: Walk) -> bool:
    """Where everything is in its place."""
    return walk.state.is_settled


def unsettled(walk: Walk) -> bool:
    """Where something has died."""
    return not walk.state.is_settled


def backed_up(walk: Walk) -> bool:
    """Where there is a copy of everything."""
    return walk.state.backup is not None


# What a command says that has to wait until the pipeline has run once more, or until another one is said again.
NOT_NOW: Refusals = (PipelineError,)
