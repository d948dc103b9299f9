"""A Spark session that has what distributary needs: on this machine, on a standalone cluster, in spark-submit."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from distributary.errors import SetupError
from distributary.ingest.spark.artifacts import spark_jars
from distributary.ingest.spark.configuration import (
    DELTA_CATALOG,
    DELTA_EXTENSION,
    laid_over,
    on_this_machine,
    retrying,
    settings,
)
from distributary.ingest.spark.java import find_java
from distributary.ingest.spark.jvm import require_jvm
from distributary.ingest.spark.versions import check_installed, check_running

KAFKA_SOURCE = "org.apache.spark.sql.kafka010.KafkaSourceProvider"

_EXTENSIONS, _CATALOG = "spark.sql.extensions", "spark.sql.catalog.spark_catalog"

_SUBMIT_WITH = 'spark-submit --jars "$(distributary jars --paths)"'


def spark_session(
    name: str, master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """The Spark session of this process, with Kafka's source and Delta; made if there is none.

    name    what the application is called
    master  Spark's master; `local[*]` if nobody says otherwise. Local tasks are retried
    conf    settings of Spark, which win over those that distributary makes

    A session that exists already, such as a notebook's, is checked and used: then `master` is not considered, and of `conf`
    only what can change in a running session. Inside spark-submit, its master and settings win over those made here, and
    `conf` over both. Raises SetupError where Java or a jar is missing, or versions do not belong together, and
    PipelineError where this process had a session whose JVM died.
    """
    if os.environ.get("SPARK_REMOTE"):
        raise SetupError("SPARK_REMOTE is set, but distributary needs a classic session: unset SPARK_REMOTE")
    check_installed()
    require_jvm()
    if SparkContext._active_spark_context is not None:
        return _existing(conf or {})
    return _submitted(name, master, conf or {}) if _in_spark_submit() else _launched(name, master, conf or {})


def _existing(conf: Mapping[str, str]) -> SparkSession:
    session = SparkSession.builder.getOrCreate()
    _check(session)
    for key, value in conf.items():
        if session.conf.isModifiable(key):
            session.conf.set(key, value)
    return session


def _in_spark_submit() -> bool:
    return "PYSPARK_GATEWAY_PORT" in os.environ


def _submitted(name: str, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    # Ask the JVM that spark-submit started what it was given. Jars added now would reach the executors but not
    # the driver, so none are: `_check` says how to submit them.
    SparkContext._ensure_initialized()
    given = dict(SparkConf().getAll())
    chosen = given.get("spark.master") or retrying(master or "local[*]")
    ours = {key: value for key, value in settings(chosen, []).items() if value}
    return _made({"spark.app.name": name, "spark.master": chosen}, laid_over(laid_over(ours, given), conf))


def _launched(name: str, master: str | None, conf: Mapping[str, str]) -> SparkSession:
    chosen = retrying(conf.get("spark.master") or master or "local[*]")
    find_java()
    if on_this_machine(chosen):
        # Without it Spark looks its own host name up, which fails on many laptops and containers.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Workers get this interpreter and so this environment, not whatever `python3` is first on PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    ours = laid_over(settings(chosen, spark_jars()), conf)
    return _made({"spark.app.name": name}, ours | {"spark.master": chosen})


def _made(identity: Mapping[str, str], settings: Mapping[str, str]) -> SparkSession:
    try:
        session = SparkSession.builder.config(map={**identity, **settings}).getOrCreate()
    except (PySparkRuntimeError, Py4JError, OSError) as error:
        raise SetupError(f"Spark does not start ({_reason(error)}); what it wrote above says why") from error
    try:
        _check(session)
    except SetupError:
        session.stop()
        raise
    return session


def _reason(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    lines = str(java.toString() if java is not None else error).splitlines()
    return lines[0] if lines else type(error).__name__


def _check(session: SparkSession) -> None:
    jvm: Any = session.sparkContext._jvm
    for wanted, kind in ((DELTA_EXTENSION, "Delta"), (KAFKA_SOURCE, "Spark's Kafka source")):
        if not _loadable(jvm, wanted):
            raise SetupError(
                f"{kind} is not on the class path of this Spark session: start it with {_SUBMIT_WITH}, or let"
                " distributary make the session"
            )
    _check_versions(session.version, jvm)
    for key, value in ((_EXTENSIONS, DELTA_EXTENSION), (_CATALOG, DELTA_CATALOG)):
        if value not in (session.conf.get(key, "") or "").split(","):
            raise SetupError(
                f"this Spark session was made without {key}={value}, which Delta needs: set it before the session"
                " is made, or let distributary make the session"
            )


def _check_versions(spark: str, jvm: Any) -> None:
    scala = jvm.scala.util.Properties.versionNumberString()
    # VERSION is in a Scala package object, whose names are no Python identifiers.
    delta = getattr(getattr(jvm.io.delta, "package$"), "MODULE$").VERSION()
    check_running(spark, scala, delta, os.environ.get("SPARK_HOME", "PySpark's own folder"))


def _loadable(jvm: Any, class_name: str) -> bool:
    try:
        jvm.java.lang.Thread.currentThread().getContextClassLoader().loadClass(class_name)
    except Py4JJavaError:  # ClassNotFoundException
        return False
    return True
