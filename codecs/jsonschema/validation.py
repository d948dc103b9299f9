"""Records held to all of their JSON Schema, not only to its types: patterns, ranges, required properties."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import Any, cast
from urllib.parse import urljoin

import numpy as np
import pyarrow as pa

from distributary.codecs import reasons
from distributary.codecs.base import Decoded, Failure
from distributary.codecs.jsonschema.references import Documents, Key, Place
from distributary.errors import BadSchema, DecoderUnavailable

# Of the processor's time, so that a process that stands still finds no record wrong. Far beyond what any record takes, unless its schema
# has a pattern by which a text can be read in ever more ways: forty characters take days then, and no other record would come to its place.
LONGEST_SECONDS = 30.0

_AGAIN_SECONDS = 0.1

# What a record gets at the least, and for each of its bytes, however many of its schema took too long: many times what one takes.
_FEWEST_SECONDS = 0.1
_SECONDS_A_BYTE = 1e-4


class Validator:
    """Checks records by the `jsonschema` library. Raises DecoderUnavailable without it, BadSchema for a bad schema."""

    def __init__(self, text: str, imports: Mapping[str, str]) -> None:
        self._library = _validator(Documents(text, imports))
        # A producer that sends one such record sends thousands.
        self._overdue = 0

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
            with _at_most(self._seconds_for(payload)):
                error = next(iter(self._library.iter_errors(value)), None)
        except _TooLong:
            self._overdue += 1
            return "the record cannot be checked against its JSON Schema in time"
        except Exception:  # noqa: BLE001 the library's arithmetic and recursion end in errors of many kinds, quoting values
            return "the record cannot be checked against its JSON Schema"
        return None if error is None else f"the record does not meet `{error.validator}` of its JSON Schema"

    def _seconds_for(self, payload: bytes) -> float:
        """How long a record may take: half as long after each that took too long, down to what is plenty for all others."""
        fewest = _FEWEST_SECONDS + _SECONDS_A_BYTE * len(payload)
        return min(LONGEST_SECONDS, max(fewest, LONGEST_SECONDS * 0.5**self._overdue))


class _TooLong(Exception):
    """The time is up."""


@contextmanager
def _at_most(seconds: float) -> Iterator[None]:
    """Inside, Python's code, regular expressions among it, is stopped by _TooLong; only a process's main thread can be."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGVTALRM, _stop)
    try:
        # And again: what is raised amid a collection of garbage is lost.
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds, _AGAIN_SECONDS)
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def _stop(*_: object) -> None:
    raise _TooLong


def _whole(text: str) -> int | float:
    return int(text) if len(text) < 400 else float("inf")


def _validator(documents: Documents) -> Any:
    try:
        from jsonschema import validators  # type: ignore[import-untyped]  # noqa: PLC0415
        from jsonschema_specifications import REGISTRY  # type: ignore[import-untyped]  # noqa: PLC0415
    except ImportError:
        raise DecoderUnavailable(
            "validation needs the package `jsonschema`: install distributary[validation], or do not validate"
        ) from None
    schema = documents.root.node
    try:
        kind: Any = validators.validator_for(schema, default=validators.Draft202012Validator)
    except Exception:  # noqa: BLE001 the library asks for it as a URL, whatever it is
        raise BadSchema("the schema's $schema is no URL; correct it, or leave it out") from None
    _check(kind, schema)
    # A registry of our own, and the drafts' own schemas: the library's default one asks the network.
    known = REGISTRY.combine(documents.registry)
    try:
        urljoin(documents.base, "#")  # fails for what is no URL
        _follow(replace(documents.root, scope=known.resolver(documents.base)))
    except BadSchema:
        raise
    except Exception as error:  # noqa: BLE001 nothing has checked what references lead to, nor how ids are written
        raise BadSchema(
            f"an id of the schema, or what it refers to, is no JSON Schema's ({type(error).__name__})"
        ) from None
    return cast("Any", validators).extend(kind, {"multipleOf": _multiple_of})(schema, registry=known)


def _multiple_of(library: Any, of: float, value: Any, _schema: Any) -> Iterator[Exception]:
    """The word by the digits that are written: the library divides doubles, by which 0.07 is no multiple of 0.01."""
    from jsonschema import ValidationError  # noqa: PLC0415

    if library.is_type(value, "number") and _as_written(value) % _as_written(of):
        yield ValidationError("")


def _as_written(number: float) -> Fraction:
    return Fraction(number) if float(number).is_integer() else Fraction(repr(number))


def _check(kind: Any, schema: Any) -> None:
    from jsonschema import SchemaError  # noqa: PLC0415

    try:
        kind.check_schema(schema)
    except SchemaError as error:
        raise BadSchema(f"the text is no JSON Schema: its word {error.validator!r} is used wrongly") from None
    except Exception as error:  # noqa: BLE001 such as a schema too deep, or a pattern too large, for the library
        raise BadSchema(f"records cannot be held to this JSON Schema ({type(error).__name__})") from None


# At one value, by one schema and all that it is put together from. A look takes microseconds.
_MOST_LOOKS = 10_000


def _looks_at_one_value(place: Place, known: dict[Key, int]) -> int:
    """How often the library looks at a value with a schema or one of those that hold for the same value, on all ways there."""
    if not isinstance(place.node, dict):
        return 1
    if place.key not in known:
        # On a way that comes back the library finds no end, and says so of each record.
        known[place.key] = 0
        known[place.key] = 1 + sum(_looks_at_one_value(one, known) for one in _of_the_same_value(place))
    return known[place.key]


def _of_the_same_value(place: Place) -> Iterator[Place]:
    yield from place.targets()
    for word in ("allOf", "anyOf", "oneOf"):
        yield from place.each(word)
    yield from place.each_of("dependentSchemas")
    yield from (place.at(word) for word in ("not", "if", "then", "else") if word in place.node)


def _follow(root: Place) -> None:
    """Look at every schema that this one has or refers to.

    Raises BadSchema for a reference that leads nowhere, and for parts that are looked at without end.
    """
    waiting, seen = [root], set()
    looks: dict[Key, int] = {}
    while waiting:
        place = waiting.pop()
        if place.key in seen or not isinstance(place.node, dict):
            continue
        seen.add(place.key)
        targets = place.targets()
        if not all(isinstance(target.node, dict | bool) for target in targets):
            raise BadSchema("the schema refers to what is no JSON Schema")
        if _looks_at_one_value(place, looks) > _MOST_LOOKS:
            raise BadSchema(
                f"records cannot be held to this JSON Schema: it leads to its parts on more than {_MOST_LOOKS} ways"
            )
        waiting += [*targets, *place.schemas()]
