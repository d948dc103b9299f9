"""Conditions over records' fields, as of deletes: read by Spark's own parser, and evaluated by workers as Spark would."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
from pyspark.sql import SparkSession

from distributary.errors import ConfigError
from distributary.ingest.expectations.checking import Met
from distributary.ingest.routing.kinds import ExpressionRefused
from distributary.ingest.routing.parser import native, parsed, parsed_by
from distributary.ingest.routing.read_ahead import parser_ahead
from distributary.ingest.routing.tree import Call, Field, Literal, Node, truth, truth_of_each

# Types of a record's fields are not known yet: each field is null.
_NO_FIELDS = pa.RecordBatch.from_arrays([pa.nulls(1)], ["\ud7ff"])


@dataclass(frozen=True, slots=True)
class ReadCondition:
    """A condition that Spark's parser has read."""

    tree: Node

    def met(self, rows: pa.RecordBatch) -> pa.BooleanArray:
        """For which rows it is true; it is not where it is null. Raises ConfigError where types do not go with it."""
        try:
            return truth(self.tree, rows)
        except ExpressionRefused as error:
            raise ConfigError(f"the condition does not go with these records: {error.why}") from None

    def tried(self, rows: pa.RecordBatch) -> Met:
        """The same of each by itself: what has no value for one, or does not go with all of them, is told and not raised."""
        try:
            found, failed = truth_of_each(self.tree, rows)
        except ExpressionRefused as error:
            why = f"the condition does not go with these records: {error.why}"
            return Met(np.zeros(rows.num_rows, np.bool_), every=why)
        return Met(found.to_numpy(zero_copy_only=False), failed)

    def to_json(self) -> list[Any]:
        """The same as JSON values."""
        return _to_json(self.tree)

    @classmethod
    def from_json(cls, value: list[Any]) -> ReadCondition:
        """What `to_json` gave. Raises ValueError for anything else."""
        return cls(_from_json(value))


def conditions_in_session(
    spark: SparkSession, texts: Iterable[tuple[str, str]], *, each: bool = False
) -> dict[str, ReadCondition]:
    """Conditions by their texts, each given with the setting that it is of. Raises ConfigError for one that cannot be read.

    each  whether they are tried on each record by itself, so that one may be without a value, as by arithmetic
    """
    return {text: _read(setting, partial(parsed, spark, text), each) for setting, text in texts}


def conditions_ahead(texts: Iterable[tuple[str, str]], *, each: bool = False) -> dict[str, ReadCondition]:
    """The same without Spark's session. Raises SetupError where there is no Java."""
    found = list(texts)
    if not found:
        return {}
    with parser_ahead() as parser:
        return {text: _read(setting, partial(parsed_by, parser, text), each) for setting, text in found}


def _read(setting: str, parse: Callable[[], Any], each: bool) -> ReadCondition:
    try:
        tree = native(parse(), each=each)
        truth(tree, _NO_FIELDS)
    except ExpressionRefused as error:
        raise ConfigError(f"{setting}: {error.why}") from None
    except RecursionError:
        raise ConfigError(f"{setting}: it is nested too deeply; write it shorter") from None
    return ReadCondition(tree)


def _to_json(node: Node) -> list[Any]:
    if isinstance(node, Field):
        return ["field", list(node.path)]
    if isinstance(node, Literal):
        # Versions before know of no kind.
        return ["literal", node.value, node.kind] if node.kind else ["literal", node.value]
    return ["call", node.function, [_to_json(one) for one in node.arguments], list(node.options)]


_READ: Mapping[str, Callable[..., Node]] = {
    "field": lambda path: Field(tuple(path)),
    "literal": Literal,
    "call": lambda function, arguments, options: Call(
        function, tuple(map(_from_json, arguments)), tuple(options)
    ),
}


def _from_json(value: list[Any]) -> Node:
    kind, *parts = value
    if kind not in _READ:
        raise ValueError(f"a condition has a part of the unknown kind {kind!r}")
    return _READ[kind](*parts)
