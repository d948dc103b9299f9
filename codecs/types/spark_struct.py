"""Spark's StructType as JSON (`df.schema.json()`) and the Arrow schema that it means; no Spark session needed."""

from __future__ import annotations

import json
import re
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from distributary.errors import BadSchema

MICROSECONDS = pa.timestamp("us", tz="UTC")

_DECIMAL = re.compile(r"decimal\((\d{1,2}),(\d{1,2})\)")

_BY_NAME: dict[str, pa.DataType] = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "short": pa.int16(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": MICROSECONDS,
    "timestamp_ntz": pa.timestamp("us"),
}

_NAMES = {of: name for name, of in _BY_NAME.items()}


def arrow_schema(text: str) -> pa.Schema:
    """The Arrow schema that a StructType's JSON means, every field nullable. Raises BadSchema."""
    try:
        found = json.loads(text)
        if found["type"] != "struct":
            raise BadSchema(f"the schema is of the type {found['type']!r}; a record needs a struct")
        return pa.schema(_fields(found, ""))
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        if isinstance(error, BadSchema):
            raise
        raise BadSchema(
            f"the schema is not the JSON of a Spark StructType ({type(error).__name__}); write what df.schema.json() gives"
        ) from None


def struct_json(schema: pa.Schema) -> str:
    """The StructType's JSON of an Arrow schema, as Spark writes it. Raises BadSchema for types that Spark lacks."""
    found = {"type": "struct", "fields": [_field_json(one) for one in schema]}
    return json.dumps(found, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def type_name(of: pa.DataType) -> str:
    """A type as Spark's `simpleString` has it, such as `array<struct<id:bigint>>`."""
    if kinds.is_struct(of):
        return "struct<" + ",".join(f"{one.name}:{type_name(one.type)}" for one in of) + ">"
    if kinds.is_list(of):
        return f"array<{type_name(of.value_type)}>"
    if kinds.is_map(of):
        return f"map<{type_name(of.key_type)},{type_name(of.item_type)}>"
    if kinds.is_decimal128(of):
        return f"decimal({of.precision},{of.scale})"
    name = _NAMES.get(of, str(of))
    return {"byte": "tinyint", "short": "smallint", "integer": "int", "long": "bigint"}.get(name, name)


def _fields(struct: dict[str, Any], above: str) -> list[pa.Field]:
    names = [one["name"] for one in struct["fields"]]
    if len(set(names)) < len(names) or not all(isinstance(name, str) for name in names):
        raise BadSchema(f"two fields of {above or 'the schema'} have one name, or a name is no text")
    return [pa.field(one["name"], _type(one["type"], f"{above}{one['name']}")) for one in struct["fields"]]


def _type(found: Any, where: str) -> pa.DataType:
    if isinstance(found, str):
        return _plain_type(found, where)
    if found["type"] == "struct":
        return pa.struct(_fields(found, f"{where}."))
    if found["type"] == "array":
        return list_of(_type(found["elementType"], f"{where}.element"))
    if found["type"] == "map":
        return pa.map_(_type(found["keyType"], f"{where}.key"), _type(found["valueType"], f"{where}.value"))
    raise BadSchema(f"field {where!r} has the type {found['type']!r}, which is not known")


def _plain_type(name: str, where: str) -> pa.DataType:
    decimal = _DECIMAL.fullmatch(name)
    if decimal:
        precision, scale = int(decimal[1]), int(decimal[2])
        if 1 <= precision <= 38 and scale <= precision:
            return pa.decimal128(precision, scale)
    if name.startswith(("varchar(", "char(")):
        return pa.string()
    if name not in _BY_NAME:
        raise BadSchema(
            f"field {where!r} has the type {name!r}, which is not known, or which no table stores"
        )
    return _BY_NAME[name]


def list_of(element: pa.DataType) -> pa.ListType:
    """A list as tables have it: its elements are called `element`."""
    return pa.list_(pa.field("element", element, nullable=True))


def _field_json(one: pa.Field) -> dict[str, Any]:
    return {"name": one.name, "type": _type_json(one.type, one.name), "nullable": True, "metadata": {}}


def _type_json(of: pa.DataType, where: str) -> Any:
    if kinds.is_struct(of):
        return {"type": "struct", "fields": [_field_json(one) for one in of]}
    if kinds.is_list(of):
        return {"type": "array", "elementType": _type_json(of.value_type, where), "containsNull": True}
    if kinds.is_map(of):
        return {
            "type": "map",
            "keyType": _type_json(of.key_type, where),
            "valueType": _type_json(of.item_type, where),
            "valueContainsNull": True,
        }
    if kinds.is_decimal128(of):
        return f"decimal({of.precision},{of.scale})"
    if of not in _NAMES:
        raise BadSchema(f"field {where!r} has the type {of}, which Spark does not have")
    return _NAMES[of]
