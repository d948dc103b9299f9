"""Events as JSON in Confluent's wire format, with a JSON Schema in the registry."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from distributary.producer_sim.corruption import HEADER, HEADER_CORRUPTIONS
from distributary.producer_sim.encode_json import TEXT_CORRUPTIONS, JsonEncoder, as_json
from distributary.producer_sim.encode_json import TYPES as JSON_TYPES
from distributary.producer_sim.event_json_schema import json_schema_text, part_text, reference
from distributary.producer_sim.event_model import ARROW_TYPES, TIMESTAMP, EventSchema, Field, typed_column
from distributary.producer_sim.formats import Corruption
from distributary.registry.base import SchemaType

# What JSON Schema can tell of besides maps: timestamps.
TYPES: Mapping[str, pa.DataType] = {**JSON_TYPES, TIMESTAMP: ARROW_TYPES[TIMESTAMP]}


class JsonSchemaFormat:
    """The header and an object."""

    schema_type: SchemaType | None = "JSON"
    types: Mapping[str, pa.DataType] = TYPES
    infers = False
    corruptions: Mapping[str, Corruption] = {**HEADER_CORRUPTIONS, **TEXT_CORRUPTIONS}

    def record_name(self, schema: EventSchema) -> str:
        """The schema's title."""
        return schema.record

    def schema_text(self, schema: EventSchema, imported: bool = False) -> str:
        """The JSON Schema of these events."""
        return json_schema_text(schema, imported)

    def part_text(self, part: str, schema: EventSchema) -> str:
        """The JSON Schema of one object inside."""
        return part_text(part, schema)

    def import_name(self, part: str) -> str:
        """What `$ref` says."""
        return reference(part)

    def header(self, schema_id: int | None) -> bytes:
        """The wire header."""
        return HEADER.pack(0, schema_id or 0)

    def encoder(self, schema: EventSchema) -> JsonSchemaEncoder:
        """The writer of a schema's events."""
        return JsonSchemaEncoder(schema)


class JsonSchemaEncoder(JsonEncoder):
    """Plain JSON's writer, whose columns have the types that the schema tells; what is null is always left out."""

    def __init__(self, schema: EventSchema) -> None:
        super().__init__(schema, writes_nulls=False)
        self._schema = schema

    def column(self, field: Field, values: Sequence[Any]) -> pa.Array:
        """The values in a column of the field's type, and last a null."""
        spoken = [as_json(value) if isinstance(value, bytes) else value for value in values]
        return typed_column(field, spoken, self._schema, TYPES)
