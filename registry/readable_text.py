"""A schema's text as people read it, one thing a line, so that two of them can be compared line by line."""

from __future__ import annotations

import base64
import json

from google.protobuf import text_format
from google.protobuf.descriptor_pb2 import FileDescriptorProto
from google.protobuf.message import DecodeError

from distributary.registry.base import Schema


def readable(schema: Schema) -> str:
    """JSON indented, its keys in their order; .proto text as it is; a base64 descriptor in Protobuf's text format."""
    if schema.type == "PROTOBUF":
        return _descriptor_text(schema.text) or schema.text.strip()
    try:
        return json.dumps(json.loads(schema.text), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return schema.text.strip()


def _descriptor_text(text: str) -> str | None:
    try:
        data = base64.b64decode("".join(text.split()), validate=True)
        file = FileDescriptorProto.FromString(data)
    except (ValueError, DecodeError):
        return None
    shown = text_format.MessageToString(file).strip()
    return f"# registered as a descriptor, not as text\n{shown}" if shown else None
