"""Queries and expressions that Spark itself works out, as of derived tables, read by its parser before anything runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from distributary.errors import ConfigError
from distributary.ingest.routing.kinds import ExpressionRefused
from distributary.ingest.routing.parser import parsed_by, query_parsed_by
from distributary.ingest.routing.read_ahead import jvm_ahead

# What has Spark read otherwise than its own parser does by itself.
_READS_OTHERWISE = ("spark.sql.extensions", "spark.sql.ansi.", "spark.sql.parser.", "spark.sql.legacy.")

# What a session fills in before it reads a text.
_FILLED_IN = "${"


@dataclass(frozen=True, slots=True)
class InSql:
    """A text that Spark works out: an expression, or what is asked as a query."""

    text: str
    query: str = ""


def are_read_alike(conf: Mapping[str, str]) -> bool:
    """Whether a session with these options reads a text as Spark's parser does by itself."""
    return not any(name.startswith(_READS_OTHERWISE) for name in conf)


def require_readable(texts: Iterable[tuple[str, InSql]]) -> None:
    """Have Spark's parser read these, each given with the setting that it is of.

    Raises ConfigError for one that cannot be read, and SetupError where there is no Java.
    """
    with jvm_ahead() as jvm:
        # As a session has it, which reads more than that of expressions, such as CLUSTER BY.
        parser = jvm.org.apache.spark.sql.execution.SparkSqlParser()
        for setting, one in texts:
            if _FILLED_IN in one.text:
                continue
            try:
                _read(parser, one)
            except ExpressionRefused as error:
                raise ConfigError(f"{setting}: {error.why}") from None


def _read(parser: Any, one: InSql) -> None:
    if not one.query:
        parsed_by(parser, one.text)
        return
    try:
        query_parsed_by(parser, one.query)
    except ExpressionRefused:
        # By itself once more: so the place that is told is that in the settings.
        query_parsed_by(parser, one.text)
        raise
