"""What objects of a JSON Schema are put together from: references, `allOf` and branches, and what all parts say together.

A few definitions can name each other on more ways than anybody can walk, so that no part is read twice for one object.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from distributary.codecs.json.inference import MAX_LEVELS
from distributary.codecs.json.text import is_unicode
from distributary.codecs.jsonschema.references import REFERENCES, Key, Place, ScopedKey, without_references
from distributary.errors import BadSchema

TYPE_WORDS = (
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

# Of all objects of a schema together; the largest that are in use need some thousands.
_MOST_READ = 100_000


@dataclass(slots=True)
class _Walk:
    """One object's parts under way.

    branches  whether those of `oneOf` and `anyOf` count, too
    found     the properties, each with the places that describe it
    read      the parts met, and whether they are read to their end
    """

    branches: bool
    found: dict[str, dict[ScopedKey, Place]] = field(default_factory=dict)
    read: dict[ScopedKey, bool] = field(default_factory=dict)


class Parts:
    """The parts of one schema's objects, and what they say together."""

    def __init__(self) -> None:
        self._read = 0
        self._known: dict[ScopedKey, list[Place]] = {}
        self._known_required: dict[Key, frozenset[str]] = {}

    def of(self, place: Place) -> list[Place]:
        """What must hold together: the parts of allOf, a reference's target, and last the schema's own words."""
        if place.scoped_key not in self._known:
            parts = [plainest(part) for part in (*place.each("allOf"), *place.targets())]
            self._known[place.scoped_key] = [*parts, without_references(place, "allOf")]
        return self._known[place.scoped_key]

    def properties(self, place: Place, branches: bool = False) -> dict[str, list[Place]] | None:
        """The properties of an object put together from parts, each with the places that describe it; None for others."""
        walk = _Walk(branches)
        if not self._gathered(place, walk):
            return None
        return {name: [*places.values()] for name, places in walk.found.items()}

    def required(self, place: Place) -> frozenset[str]:
        """What every object of a schema must have: by its own words, by all of its parts, by each of its branches."""
        if place.key not in self._known_required:
            # What a schema that contains itself asks of itself adds nothing.
            self._known_required[place.key] = frozenset()
            self._known_required[place.key] = self._found_required(place)
        return self._known_required[place.key]

    def _gathered(self, place: Place, walk: _Walk, level: int = 0) -> bool:
        """Adds a part's properties to those of the walk; False where it, or what it is put together from, is no object."""
        if not isinstance(place.node, dict) or level > MAX_LEVELS:
            return False
        if place.scoped_key in walk.read:
            # What is not read to its end contains itself.
            return walk.read[place.scoped_key]
        walk.read[place.scoped_key] = False
        self._count()
        *parts, own = (part for part in self.of(place) if part.node is not place.node)
        if kind(own.node) not in ("object", "") or (_has_branches(own.node) and not walk.branches):
            return False
        for one in named_properties(place):
            walk.found.setdefault(one.name, {})[one.scoped_key] = one
        # A part such as `{"required": ["a"]}` says nothing of what there may be.
        saying = [part for part in (*parts, *_branches(place, walk)) if says_kind(part.node)]
        known = kind(own.node) == "object" or bool(saying)
        walk.read[place.scoped_key] = known and all(self._gathered(part, walk, level + 1) for part in saying)
        return walk.read[place.scoped_key]

    def _count(self) -> None:
        self._read += 1
        if self._read > _MOST_READ:
            raise BadSchema(f"the schema puts its objects together from more than {_MOST_READ} parts")

    def _found_required(self, place: Place) -> frozenset[str]:
        if not isinstance(place.node, dict):
            return frozenset()
        own = place.node.get("required")
        names = (
            frozenset(one for one in own if isinstance(one, str)) if isinstance(own, list) else frozenset()
        )
        parts = (self.required(part) for part in self.of(place)[:-1])
        either = (self._required_by_each(place, word) for word in ("oneOf", "anyOf"))
        return names.union(*parts, *either)

    def _required_by_each(self, place: Place, word: str) -> frozenset[str]:
        branches = _which_are_not_null(place, word)
        return frozenset.intersection(*map(self.required, branches)) if branches else frozenset()


def plainest(place: Place) -> Place:
    """What a schema that is but a reference leads to in the end; any other is its own."""
    seen = set()
    while isinstance(place.node, dict) and place.key not in seen:
        targets = place.targets()
        if len(targets) != 1 or any(word in place.node for word in TYPE_WORDS):
            return place
        seen.add(place.key)
        place = targets[0]
    return place


def kind(node: dict[str, Any]) -> str:
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


def says_kind(node: Any) -> bool:
    """Whether a schema says anything of what its values are."""
    return isinstance(node, dict) and any(word in node for word in (*TYPE_WORDS, *REFERENCES))


def is_null(node: Any) -> bool:
    """Whether null alone meets a schema."""
    return isinstance(node, dict) and (
        node.get("type") == "null" or node.get("enum") == [None] or node.get("const", 0) is None
    )


def named_properties(place: Place) -> Iterator[Place]:
    """The properties that a schema lists itself. No column is called by half of a surrogate pair: what records have there is rescued."""
    return (one for one in place.each_of("properties") if is_unicode(one.name))


def _has_branches(node: dict[str, Any]) -> bool:
    return "oneOf" in node or "anyOf" in node


def _branches(place: Place, walk: _Walk) -> list[Place]:
    words = ("oneOf", "anyOf") if walk.branches else ()
    return [branch for word in words for branch in _which_are_not_null(place, word)]


def _which_are_not_null(place: Place, word: str) -> list[Place]:
    return [plainest(branch) for branch in place.each(word) if not is_null(branch.node)]


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
