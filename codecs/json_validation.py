"""Records held to all of their JSON Schema, not only to its types: patterns, ranges, required properties."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
import pyarrow as pa

from distributary.codecs import reasons
from distributary.codecs.base import Decoded, Failure
from distributary.errors import BadSchema, DecoderUnavailable


class Validator:
    """Checks records by the `jsonschema` library. Raises DecoderUnavailable without it, BadSchema for a bad schema."""

    def __init__(self, text: str, imports: Mapping[str, str]) -> None:
        self._library = _validator(json.loads(text), {name: json.loads(one) for name, one in imports.items()})

    def checked(self, decoded: Decoded, payloads: pa.BinaryArray) -> Decoded:
        """The same without those records that do not meet the schema, which are failures then."""
        failures = []
        for row in decoded.source.tolist():
            keyword = self._broken(payloads[row].as_py())
            if keyword is not None:
                detail = f"the record does not meet `{keyword}` of its JSON Schema"
                failures.append(Failure(row, reasons.INVALID, detail))
        if not failures:
            return decoded
        kept = decoded.without(np.array([failure.row for failure in failures], np.int64))
        return replace(kept, failures=sorted([*kept.failures, *failures], key=lambda failure: failure.row))

    def _broken(self, payload: bytes) -> str | None:
        """The schema's word that the payload does not meet. Says nothing of the payload itself."""
        # Only what was decoded comes here, so it is JSON; of huge numbers only the kind matters.
        value = json.loads(payload, parse_int=_whole)
        error = next(iter(self._library.iter_errors(value)), None)
        return None if error is None else str(error.validator)


def _whole(text: str) -> int | float:
    return int(text) if len(text) < 400 else float("inf")


def _validator(schema: Any, imports: Mapping[str, Any]) -> Any:
    try:
        from jsonschema import SchemaError, validators  # type: ignore[import-untyped]  # noqa: PLC0415
        from referencing import Registry  # noqa: PLC0415
        from referencing.jsonschema import DRAFT202012, specification_with  # noqa: PLC0415
    except ImportError:
        raise DecoderUnavailable(
            "validation needs the package `jsonschema`: install distributary[validation], or do not validate"
        ) from None
    kind: Any = validators.validator_for(schema, default=validators.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise BadSchema(f"the text is no JSON Schema: its word {error.validator!r} is used wrongly") from None
    draft = (
        specification_with(kind.META_SCHEMA["$schema"], default=DRAFT202012)
        if "$schema" in kind.META_SCHEMA
        else DRAFT202012
    )
    # A registry of our own: the library's default one asks the network.
    known: Any = Registry()
    for name, one in imports.items():
        known = known.with_resource(name, draft.create_resource(one))
    return cast("Any", kind)(schema, registry=known)
