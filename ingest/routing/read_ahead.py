"""What a routing expression reads and can be evaluated on, by Spark's own parser, without Spark or within its session."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import takewhile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
from py4j.java_gateway import GatewayParameters, JavaGateway
from pyspark import SparkContext
from pyspark.sql import SparkSession

from distributary.codecs.types.fit import is_list
from distributary.errors import ConfigError, SetupError
from distributary.ingest.columns.layout import source_of
from distributary.ingest.routing.parser import Steps, parsed, parsed_by, reads
from distributary.ingest.routing.parser import native as native_of
from distributary.ingest.routing.tree import Node, evaluate
from distributary.ingest.spark.java import find_java
from distributary.ingest.spark.jvm import gateway_answers, jvm_needed

_JARS = Path(pyspark.__file__).parent / "jars"

# A JVM that lives for one expression: what makes it good at long work would only cost it time.
# What an expression says of a time without a zone is in UTC, as in our sessions.
_SHORT_LIVED = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Duser.timezone=UTC")


def read_ahead(text: str, *, native: bool) -> ReadExpression:
    """A routing expression; `native` says whether workers evaluate it.

    Raises ConfigError with what a run says of an expression that cannot be read, and SetupError where there is no Java.
    """
    with parser_ahead() as parser:
        return _read(parsed_by(parser, text), native)


@contextmanager
def parser_ahead() -> Iterator[Any]:
    """Spark's parser, a Java object, without Spark. Raises SetupError where there is no Java."""
    with jvm_ahead() as jvm:
        yield getattr(getattr(jvm.org.apache.spark.sql.catalyst.parser, "CatalystSqlParser$"), "MODULE$")


def read_in_session(spark: SparkSession, text: str, *, native: bool) -> ReadExpression:
    """The same by the parser of a session. Raises ConfigError for an expression that cannot be read."""
    return _read(parsed(spark, text), native)


def _read(java_tree: Any, native: bool) -> ReadExpression:
    try:
        tree = native_of(java_tree) if native else None
        return ReadExpression(tree, tuple(dict.fromkeys(reads(java_tree))))
    except RecursionError:
        raise ConfigError(
            "route.expression is nested too deeply; write it shorter, such as || as one concat"
        ) from None


@contextmanager
def jvm_ahead() -> Iterator[Any]:
    """The JVM of this process where it has one, else one with Spark's classes alone, which starts in a second. Raises SetupError where there is no Java."""
    if SparkContext._gateway is not None:
        with jvm_needed():
            yield SparkContext._gateway.jvm
        return
    with subprocess.Popen(
        _command(), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        answered = iter(process.stdout or ())
        port, token = (next(answered, "").strip() for _ in range(2))
        if not port.isdecimal():
            raise SetupError("Java does not start with the jars of pyspark; reinstall pyspark and try again")
        # It ends before what Python has of it is collected, amid whatever that is, and nobody is there to be told.
        told = GatewayParameters(port=int(port), auth_token=token, enable_memory_management=False)
        gateway = JavaGateway(gateway_parameters=told)
        try:
            yield gateway.jvm
        except ConfigError:
            raise
        except Exception as error:
            if gateway_answers(gateway):
                raise
            raise SetupError("Java died while it read an expression; try again") from error
        finally:
            # It ends with its standard input, which is closed on the way out.
            gateway.close()


def _command() -> list[str]:
    java = str(find_java().path)
    server = ("py4j.GatewayServer", "--die-on-broken-pipe", "--enable-auth", "0")
    return [java, *_SHORT_LIVED, "-classpath", str(_JARS / "*"), *server]


@dataclass(frozen=True)
class ReadExpression:
    """A routing expression that Spark's parser has read.

    tree   what workers evaluate; None where Spark evaluates it
    reads  what it reads of the payload, each as steps inwards
    """

    tree: Node | None
    reads: tuple[Steps, ...]

    @cached_property
    def fields(self) -> tuple[tuple[str, ...], ...]:
        """The paths of the fields that it names."""
        named = (tuple(takewhile(lambda step: isinstance(step, str), steps)) for steps in self.reads)
        return tuple(dict.fromkeys(named))  # type: ignore[arg-type]

    def refusal(self, columns: pa.Schema) -> str | None:
        """Why records with these columns have no entity; None where they go with it, as far as is known."""
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

    def touches(self, path: tuple[str, ...], columns: pa.Schema) -> bool:
        """Whether it reads what is at this path in the payload's names, something within it or something around it.

        `columns` tell the types on the way; where they have none, rather once too often than too seldom.
        """
        return any(_touches(pa.struct(list(columns)), path, steps) for steps in self.reads)


def has_field(columns: pa.Schema, path: tuple[str, ...]) -> bool:
    """Whether an expression's field is there, whatever its case; what is within a map or a list counts as there."""
    return _has(pa.struct(list(columns)), path)


def _has(dtype: pa.DataType, path: tuple[str, ...]) -> bool:
    if not path or not pa.types.is_struct(dtype):
        return True
    inner = [field.type for field in dtype if field.name.lower() == path[0].lower()]
    return bool(inner) and _has(inner[0], path[1:])


# What a path goes through without a word of it in an expression, which says `tags[0].id`.
_NAMELESS = frozenset({"element", "key", "value"})


def _touches(dtype: pa.DataType | None, path: tuple[str, ...], steps: Steps) -> bool:
    """`dtype` is what path and steps have come to; None where nobody knows."""
    if not path or not steps:
        return True
    if dtype is not None and is_list(dtype):
        # A name reaches through a list into each of its elements, an index into one.
        by_name = isinstance(steps[0], str) or steps[0].key is not None
        return _touches(dtype.value_type, path[1:], steps if by_name else steps[1:])
    if dtype is not None and pa.types.is_map(dtype):
        # Whoever looks something up in a map compares its keys.
        return path[0] == "key" or _touches(dtype.item_type, path[1:], steps[1:])
    name = steps[0] if isinstance(steps[0], str) else steps[0].key
    if dtype is None and (path[0] in _NAMELESS or name is None):
        return True
    if name is None or name.lower() != path[0].lower():
        return False
    return _touches(_inside(dtype, path[0]), path[1:], steps[1:])


def _inside(dtype: pa.DataType | None, name: str) -> pa.DataType | None:
    if dtype is None or not pa.types.is_struct(dtype):
        return None
    return next((field.type for field in dtype if source_of(field) == name), None)
