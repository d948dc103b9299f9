"""Whether Spark's JVM lives, and the one sentence for when it does not.

A JVM that died shows itself in many ways, by where Py4J notices: an error of Py4J's own, one of the socket, or the same as for
a name that Java does not know. So none of them is recognised: when something fails, the JVM is asked whether it answers.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from importlib import import_module
from typing import Any

from py4j.java_gateway import JavaClass, JavaGateway, java_import
from py4j.protocol import Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from distributary.errors import DistributaryError, PipelineError
from distributary.ingest.interruptible import Stopped

# What Java says at each start, as Spark asks for this module, for MLlib alone, and neither of them can be told not to.
_OF_EACH_START = "WARNING: Using incubator modules: jdk.incubator.vector"

# Takes one line away, if it is among the first ones, and is `cat` from there on: what comes goes by as it comes, also when who started it is
# dead. What cannot be written, as to a disk that is full, is lost, and what comes later is not: `cat` ends by it with 1, by the end of what comes
# with 0, and where nobody listens any more by a signal. It is nobody's child, and Ctrl-C does not reach it.
_SIFT = """
exec 3<&0
{
    exec >&2
    left=8
    while [ $left -gt 0 ]; do
        left=$((left - 1))
        if ! IFS= read -r line; then
            printf '%s' "$line"
            exit
        fi
        if [ "$line" = "$1" ]; then
            break
        fi
        printf '%s\\n' "$line"
    done
    until cat; do
        [ $? -eq 1 ] || exit
        sleep 1
    done
} <&3 3<&- &
"""


class JvmDied(PipelineError):
    """Spark's JVM died while it was needed. PySpark starts one a process, so that only another process can go on."""

    fatal = True

    def __init__(self) -> None:
        super().__init__(
            "Spark's JVM died, and no other can be started in this process; start the run again, it goes on where it was"
        )


def launch(conf: SparkConf) -> None:
    """Start the one JVM of this process, which says what it says of itself where this process does, but for what users can do nothing about."""
    with SparkContext._lock, sifted() as standard_error:
        if SparkContext._gateway is None:
            gateway = launch_gateway(conf, {"stderr": standard_error})  # type: ignore[no-untyped-call]
            SparkContext._ensure_initialized(gateway=gateway, conf=conf)
            _know(gateway.jvm)


# What PySpark asks a JVM for by these names alone, several times a batch.
_ASKED_FOR = (
    "PythonUtils",
    "PythonSQLUtils",
    "PythonRDD",
    "SimplePythonFunction",
    "PythonForeachBatchHelper",
)


def _know(jvm: Any) -> None:
    """Have a JVM know these classes by their names: it would look for each in one package after the other, through all jars, every time."""
    # As PySpark does with each query.
    java_import(jvm, "org.apache.spark.sql.execution.streaming.sources.*")
    for name in _ASKED_FOR:
        found = getattr(jvm, name)
        if isinstance(found, JavaClass):
            java_import(jvm, found._fqn)


@contextmanager
def sifted(line: str = _OF_EACH_START) -> Iterator[int | None]:
    """A handle by which a process says all but one of its first lines where this one does; None where there is no shell to sift them."""
    reading, writing = os.pipe()
    try:
        try:
            subprocess.run(
                ["/bin/sh", "-c", _SIFT, "sh", line], stdin=reading, start_new_session=True, check=True
            )
        except (OSError, subprocess.CalledProcessError):
            yield None
            return
        finally:
            os.close(reading)
        yield writing
    finally:
        os.close(writing)


@contextmanager
def jvm_needed() -> Iterator[None]:
    """Whatever fails in the block because the JVM is dead is raised as JvmDied; every other error is left alone.

    What we raise on purpose, and that the run is told to stop, says more than that the JVM died too. What fails there PySpark does not log.
    """
    _quieten_pyspark()
    try:
        yield
    except (DistributaryError, Stopped):
        raise
    except Exception as error:
        if jvm_answers():
            raise
        raise JvmDied from error


# By these PySpark logs an error of a query before it raises it, with its words, which quote values of rows.
_OF_QUERIES = ("SQLQueryContextLogger", "DataFrameQueryContextLogger")

_OURS = "distributary"


@cache
def _quieten_pyspark() -> None:
    """Have PySpark log no error of a query that this package asks; those of whoever uses PySpark beside it are his."""
    try:
        kind = import_module("pyspark.logger").PySparkLogger
    except ImportError:  # Spark 3.5 has none
        return
    for name in _OF_QUERIES:
        kind.getLogger(name).addFilter(_is_of_others)


def _is_of_others(record: logging.LogRecord) -> bool:
    """Whether nothing of this package is at work where it is logged, or somebody has asked its logger for all."""
    if logging.getLogger(_OURS).level == logging.DEBUG:
        return True
    frame = sys._getframe()
    while (before := frame.f_back) is not None:
        frame = before
        module = frame.f_globals.get("__name__", "")
        if module.startswith(f"{_OURS}.") and module != __name__:
            return False
    return True


def require_jvm() -> None:
    """Raises JvmDied where this process had a JVM that is dead by now."""
    if not jvm_answers():
        raise JvmDied


def stop_session(session: SparkSession) -> None:
    """End a session, and nothing where its JVM is dead: that is what the error on its way says."""
    if jvm_answers():
        with suppress(Exception):
            session.stop()


def stop_quietly(query: StreamingQuery) -> None:
    """End a query, if it can be ended: what went wrong before is known already."""
    with suppress(Exception):
        query.stop()


def jvm_answers() -> bool:
    """Whether this process's JVM answers a question; True where none was started yet."""
    gateway = SparkContext._gateway
    return gateway is None or gateway_answers(gateway)


def gateway_answers(gateway: JavaGateway) -> bool:
    """Whether the JVM behind a gateway answers a question."""
    try:
        gateway.jvm.java.lang.System.nanoTime()
    except Exception:  # noqa: BLE001 whatever it is, a JVM that lives does not raise it
        return False
    return True


def is_on_class_path(jvm: Any, class_name: str) -> bool:
    """Whether a JVM can load a class, by Py4J's view of it."""
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(class_name)
    except Py4JJavaError:  # ClassNotFoundException
        return False
    return True
