"""Where a JSON Schema's `$ref` points to: within the schema, or to one of the registry's references. Never to the network."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote, urljoin

from distributary.errors import BadSchema


@dataclass(frozen=True, slots=True)
class Place:
    """A part of a document: its JSON, and the document's name and JSON pointer, which tell it from all others."""

    document: str
    pointer: str
    node: Any

    @property
    def key(self) -> tuple[str, str]:
        """What tells this place from all others."""
        return self.document, self.pointer

    @property
    def name(self) -> str:
        """The last step of the pointer, such as a property's name."""
        return _unescaped(self.pointer.rpartition("/")[2])

    def at(self, step: str | int) -> Place:
        """What stands under this name or index."""
        escaped = str(step).replace("~", "~0").replace("/", "~1")
        return Place(self.document, f"{self.pointer}/{escaped}", self.node[step])

    def each(self, word: str) -> Iterator[Place]:
        """The schemas of a list such as `oneOf`."""
        found = self.node.get(word)
        if isinstance(found, list):
            inside = self.at(word)
            yield from (inside.at(index) for index in range(len(found)))

    def each_of(self, word: str) -> Iterator[Place]:
        """The schemas of an object such as `properties`."""
        found = self.node.get(word)
        if isinstance(found, dict):
            inside = self.at(word)
            yield from (inside.at(name) for name in found)

    def with_node(self, node: Any) -> Place:
        """The same place with another content, which only a part of its words make."""
        return replace(self, pointer=f"{self.pointer}/~", node=node)


class Documents:
    """A schema and what it may refer to: the registry's references, by the names they are imported by or by `$id`."""

    def __init__(self, text: str, imports: Mapping[str, str]) -> None:
        self._texts = {"": _parsed(text, "the schema")}
        self._texts |= {
            name: _parsed(imported, f"the reference {name!r}") for name, imported in imports.items()
        }
        self._ids: dict[str, str] = {}
        for name, document in self._texts.items():
            if isinstance(document, dict):
                id_ = document.get("$id", document.get("id"))
                if isinstance(id_, str):
                    self._ids.setdefault(id_.rstrip("#"), name)

    @property
    def root(self) -> Place:
        """The schema itself."""
        return Place("", "", self._texts[""])

    def target(self, place: Place) -> Place:
        """What the place's `$ref` points to. Raises BadSchema."""
        reference = place.node["$ref"]
        if not isinstance(reference, str):
            raise BadSchema("a $ref of the schema is no text")
        where, _, fragment = reference.partition("#")
        document = self._document(where, place.document)
        if document is None:
            raise BadSchema(
                f"the schema refers to {reference!r}, which is neither within it nor among its registry references; "
                "register it with that reference (schemas are never fetched from a URL)"
            )
        start = Place(document, "", self._texts[document])
        found = (
            self._anchored(start, fragment) if fragment[:1] not in ("", "/") else _pointed(start, fragment)
        )
        if found is None:
            raise BadSchema(f"the schema refers to {reference!r}, and there is nothing at that place")
        return found

    def _document(self, where: str, current: str) -> str | None:
        if not where:
            return current
        base = next((id_ for id_, name in self._ids.items() if name == current), "")
        for name in (where, urljoin(base, where)):
            if name in self._texts:
                return name
            if name in self._ids:
                return self._ids[name]
        return None

    def _anchored(self, start: Place, anchor: str) -> Place | None:
        waiting = [start]
        while waiting:
            place = waiting.pop()
            if isinstance(place.node, dict):
                names = (place.node.get("$anchor"), place.node.get("$id"), place.node.get("id"))
                if names[0] == anchor or f"#{anchor}" in names[1:]:
                    return place
                waiting += [place.at(step) for step in place.node]
            elif isinstance(place.node, list):
                waiting += [place.at(step) for step in range(len(place.node))]
        return None


def _pointed(place: Place, fragment: str) -> Place | None:
    for step in fragment.split("/")[1:]:
        name = _unescaped(unquote(step))
        if isinstance(place.node, dict) and name in place.node:
            place = place.at(name)
        elif isinstance(place.node, list) and name.isdecimal() and int(name) < len(place.node):
            place = place.at(int(name))
        else:
            return None
    return place


def _unescaped(step: str) -> str:
    return step.replace("~1", "/").replace("~0", "~")


def _parsed(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadSchema(f"{name} is not JSON") from None
