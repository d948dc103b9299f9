"""A function on its way to Spark's Python workers, which says what to do where these have no distributary to run it with."""

from __future__ import annotations

import pickle
import sys
from collections.abc import Callable
from typing import TypeVar

from pyspark import cloudpickle

F = TypeVar("F", bound=Callable[..., object])


def shipped(function: F) -> Callable[[], F]:
    """What gives the function in a worker, once a task. There it raises ModuleNotFoundError, with the remedy, where something is missing.

    Packed by itself: a worker that lacks what it needs could not even be told so by the function.
    """
    packed: bytes = cloudpickle.dumps(function)  # type: ignore[no-untyped-call]
    driver = sys.executable
    held: list[F] = []

    def unpacked() -> F:
        if not held:
            try:
                held.append(pickle.loads(packed))  # noqa: S301 the driver made it
            except ModuleNotFoundError as error:
                raise ModuleNotFoundError(
                    f"Spark's workers run {sys.executable}, which lacks what decoding takes ({error}). Set PYSPARK_PYTHON (or spark.pyspark.python) "
                    f"to the Python that the driver runs, {driver}, before the session is made; on a cluster give the workers what "
                    "`distributary package` makes"
                ) from None
        return held[0]

    return unpacked
