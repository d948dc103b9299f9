"""Whether Spark's workers can do their part: that they run, have what the driver has, and see the folder that it writes to."""

from __future__ import annotations

import importlib
import pickle
import socket
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import distributary
from distributary.errors import SetupError
from distributary.ingest.spark.error_classes import causes
from distributary.ingest.spark.jvm import require_jvm
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.probe import sign

_OURS = distributary.__version__

_REMEDY = "give the workers what `distributary package` makes (docs/how-to/clusters)"


def require_workers(spark: SparkSession, places: Sequence[Files], modules: Sequence[str]) -> None:
    """Have Python workers started and `modules` imported there, which the first batch then need not wait for.

    places   where workers write, or read, what the driver does too

    As many tasks are run as there are slots, so that most workers are asked. Raises SetupError for one that cannot run, lacks
    distributary or has another version of it, or cannot see what the driver writes; JvmDied where it is Spark that is gone.
    """
    slots = spark.sparkContext.defaultParallelism
    asked = spark.range(0, slots, 1, slots)
    with ExitStack() as shown:
        signs = [(place, shown.enter_context(sign(place))) for place in places if _is_elsewhere(spark, place)]
        try:
            answers = asked.mapInArrow(_look(modules, signs), "problem string").collect()
        except (PySparkException, Py4JError) as error:
            require_jvm()
            raise SetupError(f"Spark's workers cannot run Python ({_reason(error)}); {_REMEDY}") from error
    for problem in sorted({row.problem for row in answers} - {""}):
        raise SetupError(problem)


def _is_elsewhere(spark: SparkSession, place: Files) -> bool:
    """Whether workers may not get there though the driver does: threads of its own have its folders."""
    return place.remote or not str(spark.sparkContext.master).startswith("local")


def _look(
    modules: Sequence[str], signs: Sequence[tuple[Files, str]]
) -> Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    # Who lacks distributary could not even be given one of its objects.
    ours, remedy = _OURS, _REMEDY
    wanted = [(str(place), pickle.dumps(place), name) for place, name in signs]

    def problem() -> str:
        try:
            for module in modules:
                importlib.import_module(module)
        except ImportError as error:
            return f"lacks distributary, or what it needs ({error}); {remedy}"
        found = sys.modules["distributary"].__version__
        if found != ours:
            return f"has distributary {found}, the driver {ours}; {remedy}"
        for place, sent, name in wanted:
            try:
                seen = pickle.loads(sent).info(name) is not None  # noqa: S301 the driver made it
            except Exception as error:  # noqa: BLE001 whatever it is, the worker cannot do its part
                return f"cannot use {place} ({error}); see who asks there (docs/how-to/object-stores.md)"
            if not seen:
                return (
                    f"does not see in {place} what the driver has written there; sink.root has to be in a store, or, and the "
                    "checkpoint then too, in a folder that all machines share (docs/how-to/clusters)"
                )
        return ""

    def look(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            pass
        found = problem()
        told = f"the worker on {socket.gethostname()} {found}" if found else ""
        yield pa.RecordBatch.from_pydict({"problem": pa.array([told], pa.string())})

    return look


def _reason(error: Exception) -> str:
    """What it all came of, in a line: of a Python worker's stack trace the last one."""
    found = [(str(one.getClass().getSimpleName()), one.getMessage()) for one in causes(error)]
    told = [(name, text.strip().splitlines()) for name, text in found if text and text.strip()]
    if not told:
        return type(error).__name__
    # What could not be run is said around what the system said of it.
    at = -2 if len(told) > 1 and told[-2][0] == told[-1][0] else -1
    name, lines = told[at]
    return str(lines[-1 if name == "PythonException" else 0]).strip()
