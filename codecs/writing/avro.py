"""Rows as Avro: the schema that a column's type makes, and values as bytes. The inverse of reading them.

docs/reference/avro.md has which type becomes which column; here it is read backwards.
"""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from datetime import time
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

from fastavro import parse_schema, schemaless_writer
from fastavro.schema import SchemaParseException
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from distributary.codecs.writing.values import (
    Misfit,
    below,
    days_of,
    decimal_of,
    fields_of,
    float_of,
    local_micros_of,
    micros_of,
    micros_of_day,
    require_known,
    truth_of,
    whole_of,
)
from distributary.errors import BadSchema
from distributary.registry.base import Schema

Node: TypeAlias = Any
"""A part of an Avro schema, as its JSON has it."""

# https://avro.apache.org/docs/1.12.0/specification/#names
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

_PLAIN: dict[type[DataType], Node] = {
    BooleanType: "boolean",
    ByteType: "int",
    ShortType: "int",
    IntegerType: "int",
    LongType: "long",
    FloatType: "float",
    DoubleType: "double",
    StringType: "string",
    BinaryType: "bytes",
    DateType: {"type": "int", "logicalType": "date"},
    TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
}

_LOGICAL: dict[str, Callable[[Any], Any]] = {
    "date": days_of,
    "timestamp-micros": micros_of,
    "timestamp-millis": lambda moment: micros_of(moment) // 1000,
    # Columns that were read of either are numbers, which stay as they are.
    "time-micros": lambda of: micros_of_day(of) if isinstance(of, time) else of,
    "time-millis": lambda of: micros_of_day(of) // 1000 if isinstance(of, time) else of,
    "local-timestamp-micros": local_micros_of,
    "local-timestamp-millis": lambda moment: local_micros_of(moment) // 1000,
}

# Unions of these are one number, of the type before them.
_WIDER = {"long": {"int", "long"}, "double": {"float", "double"}}


def schema_text(kind: DataType, name: str) -> str:
    """The schema of values of a type, every field of which may be null; a struct is a record of this name. Raises BadSchema."""
    return json.dumps(_node(kind, name, name, set()))


def _node(kind: DataType, name: str, where: str, taken: set[str]) -> Node:
    for plain, node in _PLAIN.items():
        if isinstance(kind, plain):
            return node
    if isinstance(kind, DecimalType):
        return {
            "type": "bytes",
            "logicalType": "decimal",
            "precision": kind.precision,
            "scale": kind.scale,
        }
    if isinstance(kind, ArrayType):
        return {"type": "array", "items": _nullable(kind.elementType, f"{name}_element", where, taken)}
    if isinstance(kind, MapType) and isinstance(kind.keyType, StringType):
        return {"type": "map", "values": _nullable(kind.valueType, f"{name}_value", where, taken)}
    if isinstance(kind, StructType):
        # `a_b` is both the field `b` of `a` and another field of that name, and a schema has no two records of one name.
        while name in taken:
            name += "_"
        taken.add(name)
        return {"type": "record", "name": name, "fields": [_field(one, name, where, taken) for one in kind]}
    raise BadSchema(f"{where} is of type {kind.simpleString()}, which Avro has none for; cast it to another")


def _field(one: Any, name: str, where: str, taken: set[str]) -> Node:
    if not _NAME.fullmatch(one.name):
        raise BadSchema(
            f"{where}: Avro takes no field called {one.name!r}; give it a name of letters, digits and _"
        )
    place = f"{where}.{one.name}"
    return {
        "name": one.name,
        "type": _nullable(one.dataType, f"{name}_{one.name}", place, taken),
        "default": None,
    }


def _nullable(kind: DataType, name: str, where: str, taken: set[str]) -> Node:
    return ["null", _node(kind, name, where, taken)]


def encoder(schema: Schema) -> Callable[[Any], bytes]:
    """What makes a record's bytes, without its header, of a value as Spark hands it to Python; it raises Misfit. Raises BadSchema."""
    named: dict[str, Any] = {}
    try:
        for text in schema.imports.values():
            parse_schema(json.loads(text), named_schemas=named)
        parsed = parse_schema(json.loads(schema.text), named_schemas=named)
    except (SchemaParseException, ValueError, TypeError, KeyError) as error:
        raise BadSchema(f"schema {schema.id} is no Avro schema: {type(error).__name__}") from None
    return partial(_encoded, parsed, named)


def _encoded(parsed: Node, named: Mapping[str, Any], value: Any) -> bytes:
    out = io.BytesIO()
    try:
        schemaless_writer(out, parsed, _datum(value, parsed, named, ""))
    except Misfit:
        raise
    except Exception as error:  # noqa: BLE001 - its words would tell the value
        raise Misfit(f"it does not fit the schema ({type(error).__name__})") from None
    return out.getvalue()


def _datum(value: Any, node: Node, named: Mapping[str, Any], where: str) -> Any:
    """A value as the library takes it."""
    if isinstance(node, list):
        return _member(value, node, named, where)
    if value is None and node != "null":
        raise Misfit(f"{where or 'the value'} is null, which the schema has no place for")
    if isinstance(node, str):
        # A name, which stands for what it was given to, or a plain type.
        return _datum(value, named[node], named, where) if node in named else _plain(value, node, where)
    return _of_type(value, node, named, where)


def _of_type(value: Any, node: Node, named: Mapping[str, Any], where: str) -> Any:
    kind = node["type"]
    if kind == "record":
        fields = fields_of(value, where)
        types = {one["name"]: one["type"] for one in node["fields"]}
        require_known(fields, types, where)
        return {name: _datum(one, types[name], named, below(where, name)) for name, one in fields.items()}
    if kind == "array":
        return [_datum(one, node["items"], named, where) for one in value]
    if kind == "map":
        return {key: _datum(one, node["values"], named, where) for key, one in value.items()}
    if node.get("logicalType") == "decimal" and isinstance(value, Decimal):
        # The library writes one of more digits than the schema has all the same, which nobody reads.
        return decimal_of(value, node["precision"], node.get("scale", 0), where)
    logical = _LOGICAL.get(str(node.get("logicalType")))
    return _plain(value if logical is None else logical(value), kind, where)


def _member(value: Any, node: list[Node], named: Mapping[str, Any], where: str) -> Any:
    branches = [one for one in node if one != "null"]
    if value is None:
        if len(branches) == len(node):
            raise Misfit(f"{where or 'the value'} is null, which the schema has no place for")
        return None
    if len(branches) == 1:
        return _chosen(branches[0], _datum(value, branches[0], named, where))
    for widest, wider in _WIDER.items():
        if all(isinstance(one, str) and one in wider for one in branches):
            return _plain(value, widest, where)
    members = fields_of(value, where)
    found = [
        (place, member)
        for place in range(len(branches))
        if (member := members.get(f"member{place}")) is not None
    ]
    if len(found) != 1:
        raise Misfit(f"of the members of {where or 'the value'} one is to be set, not {len(found)}")
    ((place, member),) = found
    return _chosen(branches[place], _datum(member, branches[place], named, where))


def _chosen(branch: Node, datum: Any) -> Any:
    """The datum as the library takes it for a branch that was chosen already."""
    if isinstance(branch, str):
        return (branch, datum)
    return (branch.get("name", branch["type"]), datum)


# The library writes what is not of these types all the same, cut off or as another value.
_CHECKED: dict[str, Callable[[Any, str], Any]] = {
    "boolean": truth_of,
    "int": lambda value, where: whole_of(value, 32, where),
    "long": lambda value, where: whole_of(value, 64, where),
    "float": lambda value, where: float_of(value, where, single=True),
    "double": lambda value, where: float_of(value, where, single=False),
}


def _plain(value: Any, kind: Node, where: str) -> Any:
    if isinstance(kind, str) and kind in _CHECKED:
        return _CHECKED[kind](value, where)
    return bytes(value) if isinstance(value, bytearray) else value
