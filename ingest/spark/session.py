"""A Spark session that has what distributary needs: on this machine, on a standalone cluster, in spark-submit."""

from __future__ import annotations

import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from py4j.protocol import Py4JError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from distributary.errors import SetupError
from distributary.ingest.interruptible import answer_to
from distributary.ingest.spark.artifacts import spark_jars
from distributary.ingest.spark.class_archive import JAVA_OPTIONS, is_parted, starting_from_archive
from distributary.ingest.spark.configuration import (
    REDACTED,
    laid_over,
    on_this_machine,
    retrying,
    settings,
)
from distributary.ingest.spark.delta import SUBMIT_WITH
from distributary.ingest.spark.java import find_java, have_paths_read_as_utf8, temporary_folder
from distributary.ingest.spark.jvm import is_on_class_path, launch, require_jvm
from distributary.ingest.spark.versions import check_running, installed_spark

KAFKA_SOURCE = "org.apache.spark.sql.kafka010.KafkaSourceProvider"

_TEMPORARY = "-Djava.io.tmpdir="
_FOR_JAVA = ("JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_SUBMIT_OPTS")

ZONE, ANSI = "spark.sql.session.timeZone", "spark.sql.ansi.enabled"

OURS: Mapping[str, str] = {ZONE: "UTC", ANSI: "true"}
"""What decides about values, as a session that distributary makes has it."""


def spark_session(
    name: str, master: str | None = None, conf: Mapping[str, str] | None = None
) -> SparkSession:
    """The Spark session of this process, with Kafka's source and Delta; made if there is none.

    name    what the application is called
    master  Spark's master; `local[*]` if nobody says otherwise. Local tasks are retried
    conf    settings of Spark, which win over those that distributary makes

    A session that exists already, such as a notebook's, is checked and used: then `master` is not considered, and of `conf`
    only what can change in a running session. Inside spark-submit, its master and settings win over those made here, and
    `conf` over both. A session without Delta is taken, too: only tables that delta-rs does not master need it, and say so.
    Raises SetupError where Java or a jar is missing, or versions do not belong together, and PipelineError where this process
    had a session whose JVM died.
    """
    if os.environ.get("SPARK_REMOTE"):
        raise SetupError("SPARK_REMOTE is set, but distributary needs a classic session: unset SPARK_REMOTE")
    installed_spark()
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
    java = find_java(line=installed_spark())
    if python := conf.get("spark.pyspark.python"):
        # PySpark itself asks the environment alone; it is spark-submit that knows the setting.
        os.environ["PYSPARK_PYTHON"] = python
    if on_this_machine(chosen):
        # Without it Spark looks its own host name up, which fails on many laptops and containers.
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        # Workers get this interpreter and so this environment, not whatever `python3` is first on PATH.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    have_paths_read_as_utf8(os.environ)
    ours = laid_over(settings(chosen, spark_jars()), starting_from_archive(java))
    ours = laid_over(laid_over(ours, _temporary_files()), conf)
    return _made({"spark.app.name": name}, ours | {"spark.master": chosen})


def _temporary_files() -> dict[str, str]:
    """The setting by which the JVM has a folder for what it puts away: rows that are shuffled, pickled functions, copies of jars.

    It takes them along when it ends by itself; one that is killed leaves them, and shuffled rows for everybody on the machine to read. Who names a
    folder in Java's own variables has that.
    """
    if any(_TEMPORARY in os.environ.get(name, "") for name in _FOR_JAVA):
        return {}
    folder = temporary_folder()
    # Java's own is used where an option cannot name it.
    return {} if is_parted(folder) else {JAVA_OPTIONS: f"{_TEMPORARY}{folder}"}


def _made(identity: Mapping[str, str], settings: Mapping[str, str]) -> SparkSession:
    given = {**identity, **settings}
    try:
        _start_jvm(given)
        session = SparkSession.builder.config(map={**given}).getOrCreate()
    except (PySparkRuntimeError, Py4JError, OSError) as error:
        raise SetupError(f"Spark does not start ({_reason(error)}); what it wrote above says why") from error
    try:
        _check(session)
    except SetupError:
        session.stop()
        raise
    return session


def _start_jvm(settings: Mapping[str, str]) -> None:
    """Have PySpark start its JVM aside, where Ctrl-C does not reach: PySpark would take away what the JVM waits for.

    That JVM would stay for ever; one that is left alone comes up, finds that nobody holds its input any more, and ends.
    """
    if SparkContext._gateway is None:
        # These stand in the JVM's command line, which everybody on the machine may read. The session is given all of them.
        open_ones = [(name, value) for name, value in settings.items() if not re.search(REDACTED, name)]
        conf = SparkConf().setAll(open_ones)
        answer_to(partial(launch, conf), threading.Event())


def _reason(error: Exception) -> str:
    java = getattr(error, "java_exception", None)
    lines = str(java.toString() if java is not None else error).splitlines()
    return lines[0] if lines else type(error).__name__


def _check(session: SparkSession) -> None:
    jvm: Any = session.sparkContext._jvm
    if not is_on_class_path(jvm, KAFKA_SOURCE):
        raise SetupError(
            f"Spark's Kafka source is not on the class path of this Spark session: start it with {SUBMIT_WITH}, or let"
            " distributary make the session"
        )
    scala = jvm.scala.util.Properties.versionNumberString()
    check_running(
        installed_spark(), session.version, scala, os.environ.get("SPARK_HOME", "PySpark's own folder")
    )


def that_decide(conf: Mapping[str, str]) -> dict[str, str]:
    """The same where a pipeline's settings of Spark say otherwise of some."""
    return {name: conf.get(name, ours) for name, ours in OURS.items()}


def with_settings(session: SparkSession, wanted: Mapping[str, str]) -> SparkSession:
    """The session; where its settings are others a copy of it that has these, and its functions and views."""
    if all(session.conf.get(name, None) == value for name, value in wanted.items()):
        return session
    java: Any = session._jsparkSession
    copy = SparkSession(session.sparkContext, java.cloneSession())
    for name, value in wanted.items():
        copy.conf.set(name, value)
    return copy


@contextmanager
def in_use(session: SparkSession) -> Iterator[None]:
    """Inside, it is this session that is in use in this thread.

    By its settings expressions are read, and by none of a session that Spark is given: what a text says of a time without a zone. A thread that
    Python has begun has none in use, and there the machine's zone counts.
    """
    java: Any = session._jsparkSession
    # Called otherwise by Spark 3.5.
    kind = getattr(session.sparkContext._jvm, java.getClass().getName())
    before = kind.getActiveSession()
    kind.setActiveSession(java)
    try:
        yield
    finally:
        if before.isDefined():
            kind.setActiveSession(before.get())
        else:
            kind.clearActiveSession()
