"""Records held to all of their JSON Schema, not only to its types: patterns, ranges, required properties."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast
from urllib.parse import urljoin

import numpy as np
import pyarrow as pa

from distributary.codecs import reasons
from distributary.codecs.base import Decoded, Failure
from distributary.errors import BadSchema, DecoderUnavailable

# What a schema refers to others by; not every draft knows each of them.
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")


class Validator:
    """Checks records by the `jsonschema` library. Raises DecoderUnavailable without it, BadSchema for a bad schema."""

    def __init__(self, text: str, imports: Mapping[str, str]) -> None:
        self._library = _validator(json.loads(text), {name: json.loads(one) for name, one in imports.items()})

    def checked(self, decoded: Decoded, payloads: pa.BinaryArray) -> Decoded:
        """The same without those records that do not meet the schema, which are failures then."""
        found = [(row, self._broken(payloads[row].as_py())) for row in decoded.source.tolist()]
        failures = [Failure(row, reasons.INVALID, detail) for row, detail in found if detail is not None]
        if not failures:
            return decoded
        kept = decoded.without(np.array([failure.row for failure in failures], np.int64))
        return replace(kept, failures=sorted([*kept.failures, *failures], key=lambda failure: failure.row))

    def _broken(self, payload: bytes) -> str | None:
        """Why the payload does not meet the schema, or None if it does. Says nothing of the payload itself."""
        # Only what was decoded comes here, so it is JSON; of huge numbers only the kind matters.
        value = json.loads(payload, parse_int=_whole)
        try:
            error = next(iter(self._library.iter_errors(value)), None)
        except Exception:  # noqa: BLE001 the library's arithmetic and recursion end in errors of many kinds, quoting values
            return "the record cannot be checked against its JSON Schema"
        return None if error is None else f"the record does not meet `{error.validator}` of its JSON Schema"


def _whole(text: str) -> int | float:
    return int(text) if len(text) < 400 else float("inf")


def _validator(schema: Any, imports: Mapping[str, Any]) -> Any:
    try:
        from jsonschema import validators  # type: ignore[import-untyped]  # noqa: PLC0415
        from referencing.jsonschema import DRAFT202012, specification_with  # noqa: PLC0415
    except ImportError:
        raise DecoderUnavailable(
            "validation needs the package `jsonschema`: install distributary[validation], or do not validate"
        ) from None
    kind: Any = validators.validator_for(schema, default=validators.Draft202012Validator)
    _check(kind, schema)
    draft = (
        specification_with(kind.META_SCHEMA["$schema"], default=DRAFT202012)
        if "$schema" in kind.META_SCHEMA
        else DRAFT202012
    )
    try:
        known = _registry(draft, schema, imports)
        _follow(kind, draft, known.resolver_with_root(draft.create_resource(schema)), schema)
    except BadSchema:
        raise
    except Exception as error:  # noqa: BLE001 nothing has checked what references lead to, nor how ids are written
        raise BadSchema(
            f"an id of the schema, or what it refers to, is no JSON Schema's ({type(error).__name__})"
        ) from None
    return cast("Any", kind)(schema, registry=known)


def _check(kind: Any, schema: Any) -> None:
    from jsonschema import SchemaError  # noqa: PLC0415

    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise BadSchema(f"the text is no JSON Schema: its word {error.validator!r} is used wrongly") from None
    except Exception as error:  # noqa: BLE001 such as a schema too deep, or a pattern too large, for the library
        raise BadSchema(f"records cannot be held to this JSON Schema ({type(error).__name__})") from None


def _registry(draft: Any, schema: Any, imports: Mapping[str, Any]) -> Any:
    """The registry's references, under their names and what these are beside any of the documents' own ids."""
    from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # noqa: PLC0415

    resources = {name: draft.create_resource(one) for name, one in imports.items()}
    ids = [_id(one) for one in (schema, *imports.values())]
    # A registry of our own: the library's default one asks the network.
    named = {urljoin(base, name): one for base in ids for name, one in resources.items()} | resources
    return REGISTRY.with_resources(named.items())


def _id(document: Any) -> str:
    found = document.get("$id", document.get("id")) if isinstance(document, dict) else None
    return found if isinstance(found, str) else ""


def _follow(kind: Any, draft: Any, resolver: Any, schema: Any) -> None:
    """Look at every schema that this one has or refers to. Raises BadSchema for a reference that leads nowhere."""
    words = [word for word in _REFERENCES if word in kind.VALIDATORS]
    waiting, seen = [(schema, resolver)], set()
    while waiting:
        node, resolver = waiting.pop()
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        found = [_found(resolver, node[word]) for word in words if word in node]
        waiting += [(one.contents, one.resolver) for one in found]
        inside = [(one, draft.create_resource(one)) for one in draft.subresources_of(node)]
        waiting += [(one, resolver.in_subresource(resource)) for one, resource in inside]


def _found(resolver: Any, reference: str) -> Any:
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    try:
        found = resolver.lookup(reference)
    except Unresolvable:
        raise BadSchema(
            f"the schema refers to {reference!r}, and there is nothing at that place; "
            "correct it, or register the schema with that reference"
        ) from None
    if not isinstance(found.contents, dict | bool):
        raise BadSchema(f"the schema refers to {reference!r}, and what is there is no JSON Schema")
    return found
