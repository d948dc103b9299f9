"""A routing expression read by Spark's parser as a run would read it, without starting Spark."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway
from pyspark import SparkContext

from distributary.errors import ConfigError, SetupError
from distributary.ingest.routing.parser import attributes, native, parsed_by
from distributary.ingest.routing.tree import Node, evaluate
from distributary.ingest.settings.model import Settings
from distributary.ingest.spark.java import find_java

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


@dataclass(frozen=True, slots=True)
class ReadExpression:
    """A routing expression that Spark's parser has read.

    tree    what workers evaluate; None where Spark evaluates it
    fields  the paths of the fields that it names
    """

    tree: Node | None
    fields: tuple[tuple[str, ...], ...]

    def refusal(self, columns: pa.Schema) -> str | None:
        """What stops a run that meets records with these columns; None where they go with it, as far as is known."""
        if self.tree is None:
            return None
        arrays = [pa.nulls(0, field.type) for field in columns]
        try:
            # Types alone decide about that, so that no row is needed.
            evaluate(self.tree, pa.RecordBatch.from_arrays(arrays, schema=columns))
        except ConfigError as error:
            return str(error)
        return None

    def lacked_by(self, columns: pa.Schema) -> list[tuple[str, ...]]:
        """The fields that records with these columns do not have, so that they are null."""
        return [path for path in self.fields if not has_field(columns, path)]


def has_field(columns: pa.Schema, path: tuple[str, ...]) -> bool:
    """Whether an expression's field is there, whatever its case; what is within a map or a list counts as there."""
    return _has(pa.struct(list(columns)), path)


def _has(dtype: pa.DataType, path: tuple[str, ...]) -> bool:
    if not path or not pa.types.is_struct(dtype):
        return True
    inner = [field.type for field in dtype if field.name.lower() == path[0].lower()]
    return bool(inner) and _has(inner[0], path[1:])
