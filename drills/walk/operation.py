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
    settled   whether it is only done where everything is in its place
    refusals  the errors by which it may be refused amid what has died; where everything is in its place none is let pass
    """

    does: Act
    weight: int = 2
    settled: bool = False
    refusals: Refusals = ()

    @property
    def name(self) -> str:
        """As it is chosen by."""
        return self.does.__name__

    def fits(self, walk: Walk) -> bool:
        """Whether it may be done now."""
        return walk.state.is_settled or not self.settled


# What a command says that has to wait until the pipeline has run once more, or until another one is said again.
NOT_NOW: Refusals = (PipelineError,)
