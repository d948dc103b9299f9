"""Plainer Avro schemas for the same bytes: what the two fast decoders are handed, so that they cannot disagree.

Types are written out where they are used, and called by numbers: no name, alias, default or logical type of a user's
schema reaches a decoder that might stumble over it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from distributary.codecs.avro.types.columns import Column, Shape
from distributary.codecs.avro.types.schema import Kind, Logical

# The field behind a framed record's own: see avro/decode/fast.py.
NONCE_SIZE = 16


def native_schema(columns: Column) -> str:
    """What polars-avro reads: one record of the columns and a nonce.

    It takes any byte but 0 for true, any index but 0 for "not null", and logical types its own way; here a boolean
    is one byte, all whole numbers are long, and a union has one branch more than the user's, which nothing may be of.
    Fields that take no byte are left out.
    """
    writer = _Native()
    record = writer.struct(columns)
    record["fields"].append({"name": "nonce", "type": writer.fixed(NONCE_SIZE)})
    return json.dumps(record)


def spark_schema(columns: Column) -> str:
    """What Spark's `from_avro` reads: the same types as the user's, in a record of one field.

    So null is told from a record of nulls, which is what `from_avro` makes of a broken payload if it is lenient.
    """
    writer = _Spark()
    return json.dumps(writer.record(writer.struct(columns)))


def is_in_a_record(element: Column) -> bool:
    """Whether this type, as an array's elements, is in a record of one field for Spark.

    The bytes are the same, and `from_avro` (3.4 to 4.0) rounds doubles to floats that are an array's elements themselves.
    """
    return element.shape is Shape.SCALAR and element.avro.kind is Kind.DOUBLE


class _Writer:
    """Writes schemas; each type it names is named once."""

    def __init__(self) -> None:
        self.types = 0

    def named(self, kind: str, **more: Any) -> dict[str, Any]:
        self.types += 1
        return {"type": kind, "name": f"T{self.types}", **more}

    def fixed(self, size: int) -> dict[str, Any]:
        return self.named("fixed", size=size)

    def record(self, *types: Any) -> dict[str, Any]:
        fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(types)]
        return self.named("record", fields=fields)

    def struct(self, column: Column) -> dict[str, Any]:
        return self.record(*map(self.value, column.children))

    def value(self, column: Column) -> Any:
        raise TypeError(f"a kind of writer decides how {column.shape} is written")

    def scalar(self, column: Column) -> Any:
        kind = column.avro.kind
        return self.fixed(column.avro.size) if kind is Kind.FIXED else kind.value

    def list_of(self, column: Column) -> Any:
        return {"type": "array", "items": self.value(column.children[0])}

    def map_of(self, column: Column) -> Any:
        return {"type": "map", "values": self.value(column.children[0])}


class _Native(_Writer):
    def value(self, column: Column) -> Any:
        return self._by_shape[column.shape](self, column)

    def struct(self, column: Column) -> dict[str, Any]:
        return self.record(*(self.value(child) for child in column.children if child.smallest))

    def union(self, column: Column) -> Any:
        # Each in a record of its own, since no two branches may be of one type.
        branches = [
            "null" if branch.is_null else self.record(self.value(branch)) for branch in column.children
        ]
        return [*branches, self.record("long")]

    _by_shape: Mapping[Shape, Callable[[_Native, Column], Any]] = {
        Shape.BOOLEAN: lambda self, _: self.fixed(1),
        **dict.fromkeys((Shape.INT, Shape.ENUM, Shape.DATE, Shape.TIMESTAMP), lambda _, __: "long"),
        Shape.SCALAR: _Writer.scalar,
        Shape.DECIMAL: _Writer.scalar,
        Shape.STRUCT: struct,
        Shape.LIST: _Writer.list_of,
        Shape.MAP: _Writer.map_of,
        **dict.fromkeys((Shape.OPTIONAL, Shape.WIDER, Shape.MEMBERS), union),
    }


class _Spark(_Writer):
    def value(self, column: Column) -> Any:
        return self._by_shape[column.shape](self, column)

    def scalar(self, column: Column) -> Any:
        plain = super().scalar(column)
        logical = column.avro.logical
        if logical is None:
            return plain
        typed = {**(plain if isinstance(plain, dict) else {"type": plain}), "logicalType": logical.value}
        if logical is Logical.DECIMAL:
            typed |= {"precision": column.avro.precision, "scale": column.avro.scale}
        return typed

    def list_of(self, column: Column) -> Any:
        (element,) = column.children
        items = self.value(element)
        return {"type": "array", "items": self.record(items) if is_in_a_record(element) else items}

    def union(self, column: Column) -> Any:
        return [self.value(branch) for branch in column.children]

    _by_shape: Mapping[Shape, Callable[[_Spark, Column], Any]] = {
        Shape.NULL: lambda _, __: "null",
        Shape.EMPTY: lambda self, _: self.record("null"),
        Shape.ENUM: lambda self, column: self.named("enum", symbols=list(column.avro.names)),
        **dict.fromkeys((Shape.BOOLEAN, Shape.INT, Shape.DATE, Shape.TIMESTAMP, Shape.DECIMAL), scalar),
        Shape.SCALAR: scalar,
        Shape.STRUCT: _Writer.struct,
        Shape.LIST: list_of,
        Shape.MAP: _Writer.map_of,
        **dict.fromkeys((Shape.OPTIONAL, Shape.WIDER, Shape.MEMBERS), union),
    }
