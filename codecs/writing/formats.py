"""In which formats rows can be written."""

from __future__ import annotations

JSON_TEXT = "json"
"""Text that names no schema."""

WITH_SCHEMA = {"avro": "AVRO", "protobuf": "PROTOBUF"}
"""The formats that need a schema, with the registry's own word for it."""

FORMATS = (JSON_TEXT, *WITH_SCHEMA)
"""All of them."""
