"""Which columns a JSON Schema describes: the one place where its types (drafts 4 to 2020-12) meet Arrow's.

docs/reference/json.md has the table. What is mixed, untyped or can contain itself becomes JSON text: a string column,
which takes any value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pyarrow as pa

from distributary.codecs.json_inference import MAX_LEAVES, MAX_LEVELS
from distributary.codecs.json_schema_references import Documents, Place
from distributary.codecs.struct_type import MICROSECONDS, list_of
from distributary.errors import BadSchema

JSON_TEXT = pa.string()

_PLAIN: dict[str, pa.DataType] = {"integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
_FORMATS: dict[str, pa.DataType] = {"date": pa.date32(), "date-time": MICROSECONDS}
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
    documents = Documents(text, imports)
    root = documents.root
    title = root.node.get("title") if isinstance(root.node, dict) else None
    try:
        fields = _Mapping(documents).record(root)
    except RecursionError:
        raise BadSchema("the schema is nested too deeply") from None
    return (title if isinstance(title, str) else "json"), pa.schema(fields)


class _Mapping:
    """Maps one schema, counting columns so that no schema can make it run for ever."""

    def __init__(self, documents: Documents) -> None:
        self._documents = documents
        self._columns = 0
        # The places that are being expanded: one that comes again contains itself.
        self._open: list[tuple[str, str]] = []

    def record(self, place: Place) -> list[pa.Field]:
        """The columns of the whole record; where it may be one of several objects, those of all."""
        properties = self._properties(self._plainest(place), every_branch=True)
        if properties is None:
            raise BadSchema("the schema describes no object: a record needs `type: object` and `properties`")
        return self._fields(properties)

    def _fields(self, properties: Mapping[str, list[Place]]) -> list[pa.Field]:
        return [pa.field(name, self._one_of(places)) for name, places in properties.items()]

    def _type(self, place: Place) -> pa.DataType:
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

    def _expanded(self, place: Place) -> pa.DataType:
        node = place.node
        if not isinstance(node, dict):
            return JSON_TEXT
        if "$ref" in node and not any(word in node for word in _TYPE_WORDS):
            return self._type(self._documents.target(place))
        if "$ref" in node or "allOf" in node:
            return self._all_of(place)
        for word in ("oneOf", "anyOf"):
            if word in node:
                return self._one_of([branch for branch in place.each(word) if not _is_null(branch.node)])
        return self._by_kind(place, _kind(node))

    def _by_kind(self, place: Place, kind: str) -> pa.DataType:
        if kind == "object":
            return self._object(place)
        if kind == "array":
            return self._array(place)
        if kind == "string":
            return _FORMATS.get(str(place.node.get("format")), pa.string())
        return _PLAIN.get(kind, JSON_TEXT)

    def _object(self, place: Place) -> pa.DataType:
        node = place.node
        if node.get("properties"):
            fields = self._fields({one.name: [one] for one in place.each_of("properties")})
            return pa.struct(fields)
        patterns = list(place.each_of("patternProperties"))
        rest = node.get("additionalProperties")
        if isinstance(rest, dict) and not patterns:
            return pa.map_(pa.string(), self._type(place.at("additionalProperties")))
        if len(patterns) == 1 and rest is False:
            return pa.map_(pa.string(), self._type(patterns[0]))
        return JSON_TEXT

    def _array(self, place: Place) -> pa.DataType:
        if isinstance(place.node.get("items"), list) or "prefixItems" in place.node:
            return JSON_TEXT
        items = place.at("items") if "items" in place.node else None
        return list_of(JSON_TEXT if items is None else self._type(items))

    def _all_of(self, place: Place) -> pa.DataType:
        properties = self._properties(place)
        if properties:
            return pa.struct(self._fields(properties))
        return self._one_of([part for part in self._parts(place) if _says_kind(part.node)])

    def _one_of(self, places: Iterable[Place]) -> pa.DataType:
        """The type of all these, JSON text where they differ."""
        found = {str(of): of for of in map(self._type, places)}
        return next(iter(found.values())) if len(found) == 1 else JSON_TEXT

    def _plainest(self, place: Place) -> Place:
        seen = set()
        while isinstance(place.node, dict) and set(place.node) & {"$ref"} and place.key not in seen:
            if any(word in place.node for word in _TYPE_WORDS):
                return place
            seen.add(place.key)
            place = self._documents.target(place)
        return place

    def _parts(self, place: Place) -> list[Place]:
        """What must hold together: a reference's target, the parts of allOf, and the schema's own words."""
        parts = [self._plainest(part) for part in place.each("allOf")]
        if "$ref" in place.node:
            parts.append(self._plainest(self._documents.target(place)))
        own = {word: of for word, of in place.node.items() if word not in ("$ref", "allOf")}
        return [*parts, place.with_node(own)]

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
        for part in parts:
            inside = self._properties(part, every_branch, level + 1)
            if inside is None:
                return None
            known = True
            for name, places in inside.items():
                found.setdefault(name, []).extend(places)
        return found if known else None


def _kind(node: dict[str, Any]) -> str:
    """The one type that values of a schema have besides null: "" where it does not say, "mixed" for several."""
    of = node.get("type")
    kinds = {of} if isinstance(of, str) else set(of) if isinstance(of, list) else _implied(node)
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
    return isinstance(node, dict) and any(word in node for word in (*_TYPE_WORDS, "$ref"))


def _is_null(node: Any) -> bool:
    return isinstance(node, dict) and (
        node.get("type") == "null" or node.get("enum") == [None] or node.get("const", 0) is None
    )
