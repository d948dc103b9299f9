"""What is told of an error that a run meets, in one sentence."""

from __future__ import annotations

from collections.abc import Mapping

from py4j.protocol import Py4JError
from pyspark.errors import PythonException

from distributary.errors import DistributaryError
from distributary.ingest.kafka.java import refused
from distributary.ingest.kafka.java_errors import said_by_kafka
from distributary.ingest.spark.error_classes import named, told_by_worker
from distributary.values import without_logins


def sentence(error: BaseException, kafka: Mapping[str, str]) -> str:
    """An error's first line; of Spark's the class alone, as its words quote rows, and what Kafka's client says: --debug has the rest.

    `kafka` are the client's options, whose secrets are not told.
    """
    if isinstance(error, DistributaryError):
        return str(error).strip()
    if met := _met_by_worker(error):
        return met
    # Of a worker's exception Python may have no more than its stack trace.
    why = named(error) or ("PythonException" if isinstance(error, PythonException) else "")
    if why:
        if denied := _denied(error, kafka):
            return denied
        said = said_by_kafka(error, kafka)
        return f"Spark failed: {why}{f' ({said})' if said else ''}; --debug shows all"
    return without_logins(f"{type(error).__name__}: {error}".splitlines()[0])[:500]


def _met_by_worker(error: BaseException) -> str:
    try:
        found = told_by_worker(error)
    except (Py4JError, OSError):
        # The JVM is gone.
        return ""
    return f"a worker met {found}" if found else ""


def _denied(error: BaseException, kafka: Mapping[str, str]) -> str:
    """Which credential the brokers do not accept, if that is what an error of Spark's came of; empty otherwise."""
    try:
        return str(refused(error, kafka) or "")
    except (Py4JError, OSError):
        # The JVM is gone.
        return ""
