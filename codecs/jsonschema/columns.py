"""Which columns a JSON Schema describes, and what it says of them: the one place where its types (drafts 4 to 2020-12) meet Arrow's.

docs/reference/json.md has the table. What is mixed, untyped or can contain itself becomes JSON text: a string column,
which takes any value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from distributary.codecs.changes.description import (
    FieldDescription,
    RecordDescription,
    TypeDescription,
    described_column,
)
from distributary.codecs.json.inference import MAX_LEAVES, MAX_LEVELS
from distributary.codecs.jsonschema.references import REFERENCES, Documents, Place, without_references
from distributary.codecs.types.struct_type import MICROSECONDS, list_of
from distributary.errors import BadSchema

JSON_TEXT = TypeDescription(pa.string())

_PLAIN = {
    "integer": TypeDescription(pa.int64()),
    "number": TypeDescription(pa.float64()),
    "boolean": TypeDescription(pa.bool_()),
}

_FORMATS = {"date": TypeDescription(pa.date32()), "date-time": TypeDescription(MICROSECONDS)}

_TYPE_WORDS = (
    "type",
    "properties",
    "items",
    "enum",
    "const",
    "oneOf",
    "anyOf",
    "allOf",
    "additionalProperties",
)


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
    return RecordDescription("JSON", title if isinstance(title, str) else "json", fields)


class _Mapping:
    """Maps one schema, counting columns so that no schema can make it run for ever."""

    def __init__(self) -> None:
        self._columns = 0
        # The places that are being expanded: one that comes again contains itself.
        self._open: list[tuple[int, bool]] = []
        self._known_required: dict[tuple[int, bool], frozenset[str]] = {}

    def record(self, place: Place) -> tuple[FieldDescription, ...]:
        """The columns of the whole record; where it may be one of several objects, those of all."""
        plainest = self._plainest(place)
        properties = self._properties(plainest, every_branch=True)
        if properties is None:
            raise BadSchema("the schema describes no object: a record needs `type: object` and `properties`")
        return self._fields(properties, self._required(plainest))

    def _fields(
        self, properties: Mapping[str, list[Place]], required: frozenset[str]
    ) -> tuple[FieldDescription, ...]:
        return tuple(
            FieldDescription(name, self._one_of(places), required=name in required)
            for name, places in properties.items()
        )

    def _struct(self, place: Place, properties: Mapping[str, list[Place]]) -> TypeDescription:
        fields = self._fields(properties, self._required(place))
        return TypeDescription(pa.struct([(field.name, field.type.column) for field in fields]), fields)

    def _type(self, place: Place) -> TypeDescription:
        self._columns += 1
        if self._columns > MAX_LEAVES * 2 or len(self._open) > MAX_LEVELS:
            raise BadSchema(
                f"the schema describes more than {MAX_LEAVES} columns or {MAX_LEVELS} levels, which no table can hold"
            )
        if place.key in self._open:
            return JSON_TEXT
        self._open.append(place.key)
        try:
            return self._expanded(place)
        finally:
            self._open.pop()

    def _expanded(self, place: Place) -> TypeDescription:
        node = place.node
        if not isinstance(node, dict):
            return JSON_TEXT
        targets = place.targets()
        if len(targets) == 1 and not any(word in node for word in _TYPE_WORDS):
            return self._type(targets[0])
        if targets or "allOf" in node:
            return self._all_of(place)
        for word in ("oneOf", "anyOf"):
            if word in node:
                return self._one_of([branch for branch in place.each(word) if not _is_null(branch.node)])
        return self._by_kind(place, _kind(node))

    def _by_kind(self, place: Place, kind: str) -> TypeDescription:
        if kind == "object":
            return self._object(place)
        if kind == "array":
            return self._array(place)
        if kind == "string":
            plain = TypeDescription(pa.string(), symbols=_symbols(place.node))
            return _FORMATS.get(str(place.node.get("format")), plain)
        return _PLAIN.get(kind, JSON_TEXT)

    def _object(self, place: Place) -> TypeDescription:
        node = place.node
        properties = {one.name: [one] for one in place.each_of("properties")}
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
        properties = self._properties(place)
        if properties:
            return self._struct(place, properties)
        return self._one_of([part for part in self._parts(place) if _says_kind(part.node)])

    def _one_of(self, places: Iterable[Place]) -> TypeDescription:
        """The type of all these, JSON text where they differ; no more than the column where only that is the same."""
        found = list(map(self._type, places))
        if len({str(of.column) for of in found}) != 1:
            return JSON_TEXT
        return found[0] if all(of == found[0] for of in found) else described_column(found[0].column)

    def _plainest(self, place: Place) -> Place:
        seen = set()
        while isinstance(place.node, dict) and place.key not in seen:
            targets = place.targets()
            if len(targets) != 1 or any(word in place.node for word in _TYPE_WORDS):
                return place
            seen.add(place.key)
            place = targets[0]
        return place

    def _parts(self, place: Place) -> list[Place]:
        """What must hold together: a reference's target, the parts of allOf, and the schema's own words."""
        parts = [self._plainest(part) for part in (*place.each("allOf"), *place.targets())]
        return [*parts, without_references(place, "allOf")]

    def _properties(
        self, place: Place, every_branch: bool = False, level: int = 0
    ) -> dict[str, list[Place]] | None:
        """The properties of an object put together from parts, each with the places that describe it; None for others."""
        node = place.node
        if not isinstance(node, dict) or level > MAX_LEVELS:
            return None
        parts = [part for part in self._parts(place) if part.node is not node]
        own = parts.pop().node
        if _kind(own) not in ("object", ""):
            return None
        if every_branch:
            branches = [branch for word in ("oneOf", "anyOf") for branch in place.each(word)]
            parts += [self._plainest(branch) for branch in branches if not _is_null(branch.node)]
        elif "oneOf" in own or "anyOf" in own:
            return None
        found = {one.name: [one] for one in place.each_of("properties")}
        known = _kind(own) == "object"
        # A part such as `{"required": ["a"]}` says nothing of what there may be.
        for part in filter(lambda part: _says_kind(part.node), parts):
            inside = self._properties(part, every_branch, level + 1)
            if inside is None:
                return None
            known = True
            for name, places in inside.items():
                found.setdefault(name, []).extend(places)
        return found if known else None

    def _required(self, place: Place) -> frozenset[str]:
        """What every object of a schema must have: by its own words, by all of its parts, by each of its branches."""
        if place.key not in self._known_required:
            # What a schema that contains itself asks of itself adds nothing.
            self._known_required[place.key] = frozenset()
            self._known_required[place.key] = self._found_required(place)
        return self._known_required[place.key]

    def _found_required(self, place: Place) -> frozenset[str]:
        if not isinstance(place.node, dict):
            return frozenset()
        own = place.node.get("required")
        names = (
            frozenset(one for one in own if isinstance(one, str)) if isinstance(own, list) else frozenset()
        )
        parts = (self._required(part) for part in self._parts(place)[:-1])
        either = (self._required_by_each(place, word) for word in ("oneOf", "anyOf"))
        return names.union(*parts, *either)

    def _required_by_each(self, place: Place, word: str) -> frozenset[str]:
        branches = [self._plainest(branch) for branch in place.each(word) if not _is_null(branch.node)]
        return frozenset.intersection(*map(self._required, branches)) if branches else frozenset()


def _map_of(value: TypeDescription) -> TypeDescription:
    return TypeDescription(pa.map_(pa.string(), value.column), value=value)


def _symbols(node: dict[str, Any]) -> tuple[str, ...]:
    """The only texts that there may be; none where a schema does not list them."""
    listed = node.get("enum", [node["const"]] if "const" in node else [])
    values = [one for one in listed if one is not None] if isinstance(listed, list) else []
    return tuple(dict.fromkeys(values)) if all(isinstance(one, str) for one in values) else ()


def _kind(node: dict[str, Any]) -> str:
    """The one type that values of a schema have besides null: "" where it does not say, "mixed" for several."""
    of = node.get("type")
    if isinstance(of, list):
        kinds = {one if isinstance(one, str) else "mixed" for one in of}
    else:
        kinds = {of} if isinstance(of, str) else _implied(node)
    kinds.discard("null")
    if kinds == {"integer", "number"}:
        return "number"
    return str(kinds.pop()) if len(kinds) == 1 else "mixed" if kinds else ""


def _implied(node: dict[str, Any]) -> set[str]:
    if "properties" in node or "additionalProperties" in node or "patternProperties" in node:
        return {"object"}
    if "items" in node or "prefixItems" in node:
        return {"array"}
    values = node.get("enum", [node["const"]] if "const" in node else [])
    return {_kind_of_value(value) for value in values} if isinstance(values, list) else set()


def _kind_of_value(value: Any) -> str:
    names = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "mixed", list: "mixed"}
    return names.get(type(value), "null")


def _says_kind(node: Any) -> bool:
    return isinstance(node, dict) and any(word in node for word in (*_TYPE_WORDS, *REFERENCES))


def _is_null(node: Any) -> bool:
    return isinstance(node, dict) and (
        node.get("type") == "null" or node.get("enum") == [None] or node.get("const", 0) is None
    )
