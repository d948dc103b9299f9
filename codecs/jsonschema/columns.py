"""Which columns a JSON Schema describes, and what it says of them: the one place where its types (drafts 4 to 2020-12) meet Arrow's.

docs/reference/json.md has the table. What is mixed, untyped or can contain itself becomes JSON text: a string column,
which takes any value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from distributary.codecs.changes.description import (
    FieldDescription,
    RecordDescription,
    TypeDescription,
    described_column,
)
from distributary.codecs.json.inference import MAX_LEAVES, MAX_LEVELS
from distributary.codecs.json.text import is_unicode
from distributary.codecs.jsonschema.parts import (
    TYPE_WORDS,
    Parts,
    is_null,
    kind,
    named_properties,
    plainest,
    says_kind,
)
from distributary.codecs.jsonschema.references import Documents, Key, Place, ScopedKey
from distributary.codecs.types.spark_struct import MICROSECONDS, list_of
from distributary.errors import BadSchema

JSON_TEXT = TypeDescription(pa.string())

_PLAIN = {
    "integer": TypeDescription(pa.int64()),
    "number": TypeDescription(pa.float64()),
    "boolean": TypeDescription(pa.bool_()),
}

_FORMATS = {"date": TypeDescription(pa.date32()), "date-time": TypeDescription(MICROSECONDS)}

# Of places that come back to none that is open: below all levels.
_NONE = MAX_LEVELS + 1


def columns_of(text: str, imports: Mapping[str, str]) -> tuple[str, pa.Schema]:
    """The record's title and the columns that a JSON Schema describes. Raises BadSchema."""
    record = described(text, imports)
    return record.name, pa.schema([(field.name, field.type.column) for field in record.fields])


def described(text: str, imports: Mapping[str, str]) -> RecordDescription:
    """What a JSON Schema says of its records, in words that all formats share. Raises BadSchema."""
    documents = Documents(text, imports)
    root = documents.root
    title = root.node.get("title") if isinstance(root.node, dict) else None
    try:
        fields = _Mapping().record(root)
    except RecursionError:
        raise BadSchema("the schema is nested too deeply") from None
    name = title if isinstance(title, str) and is_unicode(title) else "json"
    return RecordDescription("JSON", name, fields)


@dataclass(frozen=True, slots=True)
class _Known:
    """A type that was found already, and how many columns and levels it makes."""

    type: TypeDescription
    columns: int
    levels: int


class _Mapping:
    """Maps one schema, each place of it once, and counts columns so that no schema can make it run for ever."""

    def __init__(self) -> None:
        self._columns = 0
        # The places that are being expanded: one that comes again contains itself.
        self._open: list[Key] = []
        # Of the place being expanded: the deepest level it reaches, and the highest of the open places it comes back to.
        self._deepest, self._highest = 0, _NONE
        self._known: dict[ScopedKey, _Known] = {}
        self._parts = Parts()

    def record(self, place: Place) -> tuple[FieldDescription, ...]:
        """The columns of the whole record; where it may be one of several objects, those of all."""
        root = plainest(place)
        properties = self._parts.properties(root, branches=True)
        if properties is None:
            raise BadSchema("the schema describes no object: a record needs `type: object` and `properties`")
        return self._fields(properties, self._parts.required(root))

    def _fields(
        self, properties: Mapping[str, list[Place]], required: frozenset[str]
    ) -> tuple[FieldDescription, ...]:
        return tuple(
            FieldDescription(name, self._one_of(places), required=name in required)
            for name, places in properties.items()
        )

    def _struct(self, place: Place, properties: Mapping[str, list[Place]]) -> TypeDescription:
        fields = self._fields(properties, self._parts.required(place))
        return TypeDescription(pa.struct([(field.name, field.type.column) for field in fields]), fields)

    def _type(self, place: Place) -> TypeDescription:
        if place.key in self._open:
            self._highest = min(self._highest, self._open.index(place.key))
            self._take(1, 0)
            return JSON_TEXT
        known = self._known.get(place.scoped_key)
        if known is None:
            return self._found(place)
        self._take(known.columns, known.levels)
        return known.type

    def _found(self, place: Place) -> TypeDescription:
        columns, outer = self._columns, (self._deepest, self._highest)
        self._deepest, self._highest = 0, _NONE
        self._take(1, 0)
        self._open.append(place.key)
        found = self._expanded(place)
        self._open.pop()
        level = len(self._open)
        # What contains itself, or what it is in, is another type where it is met again.
        if self._highest > level:
            self._known[place.scoped_key] = _Known(found, self._columns - columns, self._deepest - level)
        self._deepest, self._highest = max(self._deepest, outer[0]), min(self._highest, outer[1])
        return found

    def _take(self, columns: int, levels: int) -> None:
        """Counts columns, the deepest of them so many levels below where we are."""
        self._columns += columns
        self._deepest = max(self._deepest, len(self._open) + levels)
        if self._columns > MAX_LEAVES * 2 or self._deepest > MAX_LEVELS:
            raise BadSchema(
                f"the schema describes more than {MAX_LEAVES} columns or {MAX_LEVELS} levels, which no table can hold"
            )

    def _expanded(self, place: Place) -> TypeDescription:
        node = place.node
        if not isinstance(node, dict):
            return JSON_TEXT
        targets = place.targets()
        if len(targets) == 1 and not any(word in node for word in TYPE_WORDS):
            return self._type(targets[0])
        if targets or "allOf" in node:
            return self._all_of(place)
        for word in ("oneOf", "anyOf"):
            branches = [branch for branch in place.each(word) if not is_null(branch.node)]
            # Branches such as `{"required": ["a"]}` say nothing of what there may be.
            if word in node and (not kind(node) or any(says_kind(branch.node) for branch in branches)):
                return self._one_of(branches)
        return self._by_kind(place, kind(node))

    def _by_kind(self, place: Place, of: str) -> TypeDescription:
        if of == "object":
            return self._object(place)
        if of == "array":
            return self._array(place)
        if of == "string":
            plain = TypeDescription(pa.string(), symbols=_symbols(place.node))
            return _FORMATS.get(str(place.node.get("format")), plain)
        return _PLAIN.get(of, JSON_TEXT)

    def _object(self, place: Place) -> TypeDescription:
        node = place.node
        properties = {one.name: [one] for one in named_properties(place)}
        if properties:
            return self._struct(place, properties)
        patterns = list(place.each_of("patternProperties"))
        rest = node.get("additionalProperties")
        if isinstance(rest, dict) and not patterns:
            return _map_of(self._type(place.at("additionalProperties")))
        if len(patterns) == 1 and rest is False:
            return _map_of(self._type(patterns[0]))
        return JSON_TEXT

    def _array(self, place: Place) -> TypeDescription:
        if isinstance(place.node.get("items"), list) or "prefixItems" in place.node:
            return JSON_TEXT
        items = place.at("items") if "items" in place.node else None
        element = JSON_TEXT if items is None else self._type(items)
        return TypeDescription(list_of(element.column), element=element)

    def _all_of(self, place: Place) -> TypeDescription:
        properties = self._parts.properties(place)
        if properties:
            return self._struct(place, properties)
        return self._one_of([part for part in self._parts.of(place) if says_kind(part.node)])

    def _one_of(self, places: Iterable[Place]) -> TypeDescription:
        """The type of all these, JSON text where they differ; no more than the column where only that is the same."""
        found = list(map(self._type, places))
        if len({str(of.column) for of in found}) != 1:
            return JSON_TEXT
        return found[0] if all(of == found[0] for of in found) else described_column(found[0].column)


def _map_of(value: TypeDescription) -> TypeDescription:
    return TypeDescription(pa.map_(pa.string(), value.column), value=value)


def _symbols(node: dict[str, Any]) -> tuple[str, ...]:
    """The only texts that there may be; none where a schema does not list them."""
    listed = node.get("enum", [node["const"]] if "const" in node else [])
    values = [one for one in listed if one is not None] if isinstance(listed, list) else []
    return (
        tuple(dict.fromkeys(values))
        if all(isinstance(one, str) and is_unicode(one) for one in values)
        else ()
    )
