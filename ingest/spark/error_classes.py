"""What is recognised of Spark's errors: the one place that knows their classes, as the supported Sparks and Deltas name them.

An error that a task met reaches the driver within others, so that all its causes are looked at. None is told by its words.
https://spark.apache.org/docs/4.0.0/sql-error-conditions.html
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterator
from typing import Any

import pyspark
from py4j.java_gateway import is_instance_of
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PythonException

from distributary.values import without_logins

# Error classes that the same rows meet again however often they are written.
_ROW_REFUSED = re.compile(
    r"DELTA_VIOLATE_CONSTRAINT\w*|DELTA_NOT_NULL_CONSTRAINT\w*|DELTA_MISSING_NOT_NULL\w*|DELTA_GENERATED_COLUMN\w*"
    r"|DELTA_IDENTITY_COLUMNS_\w*|DELTA_FAILED_TO_MERGE_FIELDS\w*|DELTA_EXCEED_CHAR_VARCHAR_LIMIT|EXCEED_LIMIT_LENGTH"
    r"|CAST_OVERFLOW\w*|CAST_INVALID_INPUT|NUMERIC_VALUE_OUT_OF_RANGE\w*|INVALID_ARRAY_INDEX\w*|DATETIME_OVERFLOW"
    # An expression of the table's, of a constraint or of a generated column, that cannot be worked out for the row.
    r"|ARITHMETIC_OVERFLOW|BINARY_ARITHMETIC_OVERFLOW|DIVIDE_BY_ZERO|REMAINDER_BY_ZERO"
)

# What Spark 4 calls a condition was an error class before.
_CONDITION = "getErrorClass" if pyspark.__version__.startswith("3.") else "getCondition"

# https://db.apache.org/derby/docs/10.16/ref/rrefexcept71493.html: another instance has the database open.
_DERBY_IS_HELD = "XSDB6"

# Where Spark talks to its Python workers.
_RUNNER = "org.apache.spark.api.python."


def worker_died(error: BaseException) -> bool:
    """Whether a Python worker's process ended without an exception of its own, such as by a crash of a native decoder.

    Spark has no error class for it: its runner of workers loses the connection, and says so by an exception around that; of
    Spark 3.5, where the connection may be reset before it ends, by nothing but what the runner met.
    """
    return any(_told_by_runner(one) or _reset(one) for one in causes(error))


def refused_row(error: BaseException) -> str | None:
    """The error class by which a writer refuses a row for good; None for an error that another try may not meet."""
    conditions = (_condition(one) for one in causes(error))
    return next((found for found in conditions if found and _ROW_REFUSED.fullmatch(found)), None)


def overflowed(error: BaseException) -> bool:
    """Whether a value was too large for the type it was to become: Java's own arithmetic, which has no error class."""
    return any(_is(one, "java.lang.ArithmeticException") and not _condition(one) for one in causes(error))


def overflowed_in(error: BaseException, *packages: str) -> bool:
    """Whether arithmetic overflowed on behalf of the classes of these packages, whoever says so."""
    return any(
        _is(one, "java.lang.ArithmeticException")
        and any(str(frame.getClassName()).startswith(packages) for frame in one.getStackTrace())
        for one in causes(error)
    )


def derby_is_held(error: BaseException) -> bool:
    """Whether another process has the database of an embedded Derby open, which one may."""
    sql = (one for one in causes(error) if _is(one, "java.sql.SQLException"))
    return any(one.getSQLState() == _DERBY_IS_HELD for one in sql)


def named(error: BaseException) -> str:
    """What failed in the JVM, by the innermost error class and what that came of; empty for an error of Python's own.

    Never the words: those of Spark and Delta quote rows.
    """
    try:
        found = [(_name(one), _condition(one) is not None) for one in causes(error)]
    except (Py4JError, OSError):
        # The JVM is gone.
        return type(error).__name__
    first = max((place for place, (_, told) in enumerate(found) if told), default=len(found) - 1)
    return ", ".join(name for name, _ in found[max(first, 0) :])


def told_by_worker(error: BaseException) -> str:
    """What a Python worker met that was no fault of a row: an error of a file's, with its words, which name that; empty for any other."""
    if isinstance(error, PythonException):
        text = str(error)
    else:
        found = [one for one in causes(error) if str(one.getClass().getSimpleName()) == "PythonException"]
        text = str(found[-1].getMessage()) if found else ""
    last = (text.strip().splitlines() or [""])[-1]
    kind = getattr(builtins, last.partition(":")[0], None)
    is_of_a_file = isinstance(kind, type) and issubclass(kind, OSError)
    return without_logins(last)[:500] if is_of_a_file else ""


def _name(raised: Any) -> str:
    name = str(raised.getClass().getSimpleName())
    condition = _condition(raised)
    return name if condition is None else f"{name} [{condition}]"


def causes(error: BaseException) -> Iterator[Any]:
    """The exceptions of the JVM that an error is of, from the outermost in; none of an error that is Python's own."""
    return chain(java_exception(error))


def java_exception(error: BaseException) -> Any:
    """The JVM's exception that an error tells of; None where there is none."""
    # Py4J's errors have the one, PySpark's own the other.
    raised = getattr(error, "java_exception", None)
    return getattr(error, "_origin", None) if raised is None else raised


def chain(raised: Any) -> Iterator[Any]:
    """An exception of the JVM and what it came of, from the outermost in; nothing of None."""
    while raised is not None:
        yield raised
        raised = raised.getCause()


def _condition(raised: Any) -> str | None:
    if not _is(raised, "org.apache.spark.SparkThrowable"):
        return None
    found = getattr(raised, _CONDITION)()
    return None if found is None else str(found)


def _is_of(raised: Any, name: str) -> bool:
    """Whether it came of an exception of this class."""
    cause = raised.getCause()
    return cause is not None and _is(cause, name)


def _told_by_runner(raised: Any) -> bool:
    return (
        _is(raised, "org.apache.spark.SparkException")
        and _frames(raised)[:1] == [True]
        and _is_of(raised, "java.io.IOException")
    )


def _reset(raised: Any) -> bool:
    return _is(raised, "java.net.SocketException") and any(_frames(raised))


def _frames(raised: Any) -> list[bool]:
    """For each call that an exception came through, the innermost first, whether it is of what talks to workers."""
    return [str(frame.getClassName()).startswith(_RUNNER) for frame in raised.getStackTrace()]


def _is(raised: Any, name: str) -> bool:
    return bool(is_instance_of(SparkContext._gateway, raised, name))
