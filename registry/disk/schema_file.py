"""A schema as one JSON document, whole with its imports, so that it can be read back without a registry."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from distributary.registry.base import Guid, Reference, Schema

FORMAT = 1


def to_document(schema: Schema) -> dict[str, Any]:
    """The schema as plain JSON values."""
    return {
        "id": schema.id,
        "type": schema.type,
        "guid": schema.guid,
        "rules": list(schema.rules),
        "references": [[one.name, one.subject, one.version] for one in schema.references],
        # As pairs: dependencies come before dependants, and JSON promises no order of keys.
        "imports": [list(pair) for pair in schema.imports.items()],
        "text": schema.text,
        **({} if schema.entity is None else {"entity": schema.entity}),
    }


def from_document(document: Mapping[str, Any]) -> Schema:
    """The schema that was written. Raises KeyError, TypeError or ValueError for anything else."""
    return Schema(
        id=document["id"],
        type=document["type"],
        text=document["text"],
        references=tuple(Reference(*one) for one in document["references"]),
        imports=dict(document["imports"]),
        guid=None if document["guid"] is None else Guid(document["guid"]),
        rules=tuple(document["rules"]),
        entity=document.get("entity"),
    )


def sealed(content: Mapping[str, Any]) -> bytes:
    """A document with its digest, so that damage is noticed when it is read."""
    whole = {"format": FORMAT, **content}
    return json.dumps({**whole, "sha256": _digest(whole)}, indent=1).encode()


def unsealed(data: bytes) -> dict[str, Any]:
    """The content of a sealed document. Raises ValueError for one that is cut off, edited, or of another format."""
    try:
        whole = json.loads(data)
    except RecursionError:
        raise ValueError("it is no document of ours") from None
    if not isinstance(whole, dict) or whole.get("format") != FORMAT:
        raise ValueError("it is of another format")
    seal = whole.pop("sha256", None)
    if seal != _digest(whole):
        raise ValueError("it was cut off or edited")
    return whole


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
