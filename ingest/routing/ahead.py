"""A routing expression read by Spark's parser as a run would read it, without starting Spark."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway
from pyspark import SparkContext

from distributary.errors import SetupError
from distributary.ingest.expression_fit import ReadExpression
from distributary.ingest.expression_parser import attributes, native, parsed_by
from distributary.ingest.java import find_java
from distributary.ingest.settings import Settings

_JARS = Path(pyspark.__file__).parent / "jars"
# A JVM that lives for one expression: what makes it good at long work would only cost it time.
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")


def read_ahead(settings: Settings) -> ReadExpression | None:
    """The pipeline's routing expression; None where it has none.

    Raises ConfigError with what a run says of an expression that cannot be read, and SetupError where there is no Java.
    """
    text = settings.route.expression
    if text is None:
        return None
    with _jvm() as jvm:
        parser = getattr(getattr(jvm.org.apache.spark.sql.catalyst.parser, "CatalystSqlParser$"), "MODULE$")
        java_tree = parsed_by(parser, text)
        tree = native(java_tree) if settings.decode.engine == "arrow" else None
        return ReadExpression(tree, tuple(dict.fromkeys(found.path for found in attributes(java_tree))))


@contextmanager
def _jvm() -> Iterator[Any]:
    """That of this process where it has one, else one with Spark's classes alone, which starts in a second."""
    if SparkContext._gateway is not None:
        yield SparkContext._gateway.jvm
        return
    with subprocess.Popen(
        _command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        answered = iter(process.stdout or ())
        port, token = (next(answered, "").strip() for _ in range(2))
        if not port.isdecimal():
            raise SetupError("Java does not start with the jars of pyspark; reinstall pyspark and try again")
        gateway = JavaGateway(gateway_parameters=GatewayParameters(port=int(port), auth_token=token))
        try:
            yield gateway.jvm
        finally:
            # It ends with its standard input, which is closed on the way out.
            gateway.close()


def _command() -> list[str]:
    java = str(find_java().path)
    server = ("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")
    return [java, *_SHORT_LIVED, "-classpath", str(_JARS / "*"), *server]
