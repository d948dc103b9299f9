"""How a derived table's rows are made: by an aggregate, a query or a function, and of which columns of its inputs."""

from __future__ import annotations

import importlib
import inspect
import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from distributary.errors import DistributaryError, PipelineError, raised_at
from distributary.ingest.derived.grouping import expressions
from distributary.ingest.derived.inputs import EVERYTHING, Wanted
from distributary.ingest.derived.instances import ENTITY_GIVEN, Instance, within

# What of a query may mean columns that it does not name.
_UNNAMED = re.compile(
    r"\*|\|>|\b(natural|table|pivot|unpivot|transform|map|reduce|identifier)\b", re.IGNORECASE
)
_COUNTED = re.compile(r"count\s*\(\s*\*\s*\)", re.IGNORECASE)

# The same of an expression, in which a star between two values is a product.
_UNNAMED_VALUES = re.compile(r"(^|[(,.]|\bdistinct)\s*\*|\bidentifier\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Way:
    """How a table is made, with what decides its content.

    wanted  the columns of its inputs that it is made of
    """

    instance: Instance
    definition: str
    wanted: Wanted
    function: Callable[..., Any] | None = None

    @contextmanager
    def rows(self, spark: SparkSession, inputs: Mapping[str, DataFrame]) -> Iterator[DataFrame]:
        """The rows of one that is no aggregate, of all rows of its inputs."""
        if self.function is not None:
            yield _answer(self.instance, self.function, spark, inputs)
            return
        with ExitStack() as views:
            names = {name: views.enter_context(_view(frame)) for name, frame in inputs.items()}
            tables = ", ".join(f"`{name}` AS (TABLE {view})" for name, view in names.items())
            text = f"WITH {tables} {within(self.instance.query or '')}"
            entity = self.instance.entity
            yield spark.sql(text) if entity is None else spark.sql(text, args={ENTITY_GIVEN: entity})


# Times without a zone are in UTC wherever they are made; before, they were in the zone of whoever made them.
_IN_UTC = "2"


def way_of(one: Instance, otherwise: str = "") -> Way:
    """How a table is made, by a session that decides `otherwise` about values. Raises PipelineError where it is by a function that cannot be imported."""
    otherwise = _IN_UTC + otherwise
    if one.rule.aggregate is not None:
        return Way(one, one.definition(otherwise), _of_values(expressions(one.rule.aggregate)))
    if one.rule.stream is not None:
        # What is there stays as it was.
        return Way(one, one.definition(), _of_values(one.rule.stream.expressions))
    if one.rule.python is None:
        return Way(one, one.definition(otherwise), _of_query(one.query or "", one.inputs))
    function = _function(one.rule.python)
    try:
        source = inspect.getsource(function)
    except (OSError, TypeError):
        source = ""
    return Way(one, one.definition(source + otherwise), EVERYTHING, function)


def _of_values(texts: Sequence[str]) -> Wanted:
    named = not any(_UNNAMED_VALUES.search(_COUNTED.sub("", text)) for text in texts)
    return Wanted(tuple(texts)) if named else EVERYTHING


def _of_query(query: str, inputs: Sequence[str]) -> Wanted:
    by_place = any(re.search(_renamed(name), query, re.IGNORECASE) for name in inputs)
    return EVERYTHING if by_place or _UNNAMED.search(_COUNTED.sub("", query)) else Wanted((query,))


def _renamed(table: str) -> str:
    """A table whose columns get other names, by their places: `FROM t AS other(a, b)`."""
    return rf"\b{re.escape(table)}`?\s+(as\s+)?(\w+|`[^`]*`)\s*\("


def _function(name: str) -> Callable[..., Any]:
    module, _, attribute = name.partition(":")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise PipelineError(
            f"python: {name} cannot be imported ({error}); have its folder in PYTHONPATH, or install it"
        ) from error
    except Exception as error:
        # Whatever a module of the user's own does, the run goes on.
        raise PipelineError(f"python: {name} cannot be imported: {_where(error)}; mend it") from error
    if not callable(found):
        raise PipelineError(f"python: {name} is no function")
    function: Callable[..., Any] = found
    return function


def _answer(
    one: Instance, function: Callable[..., Any], spark: SparkSession, inputs: Mapping[str, DataFrame]
) -> DataFrame:
    try:
        answer = function(spark, dict(inputs))
    except (DistributaryError, PySparkException, Py4JError):
        raise
    except Exception as error:
        raise PipelineError(f"python: {one.rule.python} failed: {_where(error)}; mend it") from error
    if not hasattr(answer, "mapInArrow"):
        raise PipelineError(
            f"python: {one.rule.python} answers with {type(answer).__name__}; it must be a data frame of Spark"
        )
    frame: DataFrame = answer
    return frame


def _where(error: Exception) -> str:
    """An error's class and the line that raised it, and no value of a row."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__} in {error.filename}, line {error.lineno}"
    return raised_at(error)


@contextmanager
def _view(frame: DataFrame) -> Iterator[str]:
    """A name by which SQL finds a data frame, and which nobody else has."""
    name = f"distributary_{uuid.uuid4().hex}"
    frame.createOrReplaceTempView(name)
    try:
        yield name
    finally:
        frame.sparkSession.catalog.dropTempView(name)
