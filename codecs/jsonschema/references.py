"""Where a JSON Schema's references lead: within the schema, or to one of the registry's references. Never to the network.

The library `referencing` follows them, by the scopes of the schema's draft: an `$id` inside of a document is a base of its own, an
anchor belongs to the nearest one, a dynamic reference looks at where it came from. Columns and validation both ask here.
https://json-schema.org/draft/2020-12/json-schema-core#section-8
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias
from urllib.parse import urljoin, urlsplit

from referencing import Registry, Resource, Specification
from referencing.exceptions import InvalidAnchor, NoSuchAnchor, PointerToNowhere, Unresolvable
from referencing.jsonschema import (
    DRAFT3,
    DRAFT4,
    DRAFT6,
    DRAFT7,
    DRAFT201909,
    DRAFT202012,
    lookup_recursive_ref,
    specification_with,
)

from distributary.errors import BadSchema

# The library's Resolver: a base, and the bases that led to it. It has no name to import it by.
_Scope: TypeAlias = Any

_Draft: TypeAlias = Specification[Any]

Key: TypeAlias = tuple[int, bool]

ScopedKey: TypeAlias = tuple[Key, str, str, tuple[str, ...]]

# A document or a schema within one, and the draft that it is of.
_Part: TypeAlias = "tuple[Any, _Draft]"

REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")

# As the library has them, strictly.
_DRAFTS = {one.name: one for one in (DRAFT3, DRAFT4, DRAFT6, DRAFT7, DRAFT201909, DRAFT202012)}

# To these `$defs` is no keyword, and what is in it nothing at all. But many a schema of theirs has it for `definitions`,
# whose new name it is: anchors and ids in it count as they do there.
# https://json-schema.org/draft/2019-09/release-notes
_WITHOUT_DEFS = {one.name for one in (DRAFT3, DRAFT4, DRAFT6, DRAFT7)}

# Every draft has `$ref`.
_MORE_REFERENCES = {DRAFT201909.name: ("$recursiveRef",), DRAFT202012.name: ("$dynamicRef",)}


@dataclass(frozen=True, slots=True)
class Place:
    """A schema within a document: its JSON, what it is called there, and the scope that its references are read in.

    whole  the schema of which this is but the own words; None where it is one itself
    """

    node: Any
    name: str
    scope: _Scope
    draft: _Draft
    whole: Any = None

    @property
    def key(self) -> Key:
        """What tells this place from all others while the documents are held, of which each node is an object."""
        return id(self.node if self.whole is None else self.whole), self.whole is not None

    @property
    def scoped_key(self) -> ScopedKey:
        """The same, with all that decides where references lead from here."""
        bases = tuple(uri for uri, _ in self.scope.dynamic_scope())
        return self.key, self.draft.name, self.scope._base_uri, bases

    def at(self, *steps: str | int) -> Place:
        """The schema under these names and indexes."""
        node = self.node
        for step in steps:
            node = node[step]
        return self._inside(node, str(steps[-1]))

    def each(self, word: str) -> Iterator[Place]:
        """The schemas of a list such as `oneOf`."""
        found = self.node.get(word)
        if isinstance(found, list):
            yield from (self.at(word, index) for index in range(len(found)))

    def each_of(self, word: str) -> Iterator[Place]:
        """The schemas of an object such as `properties`."""
        found = self.node.get(word)
        if isinstance(found, dict):
            yield from (self.at(word, name) for name in found)

    def schemas(self) -> list[Place]:
        """All schemas right below this one. Raises BadSchema where a keyword that holds schemas has a wrong shape."""
        try:
            found = list(_DRAFTS[self.draft.name].subresources_of(self.node))
        except (AttributeError, TypeError):
            raise BadSchema(
                "a keyword of the schema, or of what it refers to, holds no schemas and has to; correct it"
            ) from None
        return [self._inside(node, "") for node in found]

    def targets(self) -> list[Place]:
        """What the place's references lead to; a schema has one at most, nearly always. Raises BadSchema."""
        words = ("$ref", *_MORE_REFERENCES.get(self.draft.name, ()))
        return [self._target(word) for word in words if word in self.node]

    def _target(self, word: str) -> Place:
        reference = self.node[word]
        if not isinstance(reference, str):
            raise BadSchema(f"a {word} of the schema is no text")
        try:
            found = (
                lookup_recursive_ref(self.scope) if word == "$recursiveRef" else self.scope.lookup(reference)
            )
        except Exception as error:  # noqa: BLE001 documents may be anything, and the library takes all for schemas
            raise _leads_nowhere(reference, error) from None
        target = replace(self, node=found.contents, name="", scope=found.resolver, whole=None)
        # What was found by the name of a registry reference goes by its own id from there on, if nothing else does.
        return target._inside(found.contents, "") if target._is_at_its_id() else target

    def _is_at_its_id(self) -> bool:
        id_ = _id_of(self.draft, self.node)
        if id_ is None or not _is_whole(id_):
            return False
        try:
            return self.scope.lookup(id_.rstrip("#")).contents is self.node
        except Unresolvable:
            return False

    def _inside(self, node: Any, name: str) -> Place:
        draft = _draft_of(node, self.draft)
        try:
            scope = self.scope.in_subresource(draft.create_resource(node))
        except ValueError:  # the document's own id is no URL, so that nothing is beside it
            scope = self.scope
        return Place(node, name, scope, draft)


def without_references(place: Place, *more: str) -> Place:
    """The same place with its own words alone: no references, and none of these words."""
    own = {word: of for word, of in place.node.items() if word not in (*REFERENCES, *more)}
    return replace(place, node=own, whole=place.node)


class Documents:
    """A schema and what it may refer to: the registry's references, by the names they are imported by or by `$id`.

    root      the schema itself, where pointers that only lead somewhere from a document's root say so
    base      its id, or ""
    registry  all that its references may lead to, for `jsonschema`
    """

    def __init__(self, text: str, imports: Mapping[str, str]) -> None:
        schema = _parsed(text, "the schema")
        draft = _draft_of(schema, _UNSAID)
        others = {name: _parsed(imported, f"the reference {name!r}") for name, imported in imports.items()}
        named = {name: (one, _draft_of(one, draft)) for name, one in others.items()}
        self.base = _own_address(schema, named)
        ids = {id_: named[name] for name, one in others.items() if (id_ := _top_id(one))}
        self.registry = _known({**ids, **named, self.base: (schema, draft)}, named)
        self.root = Place(schema, "", self.registry.resolver(self.base), draft)


def _known(documents: Mapping[str, _Part], named: Mapping[str, _Part]) -> Registry[Any]:
    """The documents, and those that have a name under what it is beside any id, too: for a `$ref` is beside one."""
    found = _addressed(documents)
    beside = {_joined(base, name): one for base in found for name, one in named.items()}
    registry = Registry().with_resources({**_addressed(beside), **found}.items()).crawl()
    _lead_to_root(documents, registry)
    return registry


def _lead_to_root(documents: Mapping[str, _Part], registry: Registry[Any]) -> None:
    """Say which document is meant in pointers such as `#/definitions/a` that lead somewhere from its root alone.

    A pointer begins at the nearest id. Some generators write an id for every property, and pointers as if it were none.
    The schema itself is changed, so that columns and validation, whose library takes no rules of ours, read the same.
    """
    waiting = [(base, base, part) for uri, part in documents.items() if _is_whole(base := _base(uri, part))]
    while waiting:
        document, outer, (node, draft) = waiting.pop()
        base = _base(outer, (node, draft))
        pointer = node.get("$ref") if isinstance(node, dict) and base != document else None
        if isinstance(pointer, str) and pointer.startswith("#/"):
            scope, from_root = registry.resolver(base), document + pointer
            if not _leads_somewhere(scope, pointer) and _leads_somewhere(scope, from_root):
                node["$ref"] = from_root
        waiting += [(document, base, (one, _draft_of(one, draft))) for one in draft.subresources_of(node)]


def _leads_somewhere(scope: _Scope, reference: str) -> bool:
    try:
        scope.lookup(reference)
    except Exception:  # noqa: BLE001 documents may be anything, and the library takes all for schemas
        return False
    return True


def _addressed(documents: Mapping[str, _Part]) -> dict[str, Resource[Any]]:
    """What has an address, with the anchors that belong to it: the documents, and each schema with an id within them.

    The library's own search gives all anchors up where one keyword of any document has a wrong shape.
    """
    at = {uri: (_base(uri, part), part) for uri, part in documents.items()}
    anchors: dict[str, list[Any]] = defaultdict(list)
    waiting = list(documents.items())
    while waiting:
        outer, (node, draft) = waiting.pop()
        base = _base(outer, (node, draft))
        if base != outer:
            # Of two with one id the first stays: files copied from another often keep its id.
            at.setdefault(base, (base, (node, draft)))
        anchors[base] += draft.anchors_in(node)
        waiting += [(base, (one, _draft_of(one, draft))) for one in draft.subresources_of(node)]
    return {uri: _resource(part, anchors[base]) for uri, (base, part) in at.items()}


def _base(outer: str, part: _Part) -> str:
    """What the references of a schema are relative to: its id, or that of the schema around it."""
    node, draft = part
    id_ = draft.id_of(node)
    return outer if id_ is None else _joined(outer, id_.rstrip("#"))


def _resource(part: _Part, anchors: list[Any]) -> Resource[Any]:
    """A document or schema at its address, for the library to follow references from: it has nothing left to search for."""
    node, draft = part
    make: Any = Specification  # attrs makes its arguments, of which mypy knows nothing
    own: _Draft = make(
        name=draft.name,
        id_of=lambda inner: None if inner is node else draft.id_of(inner),
        subresources_of=lambda _: [],
        maybe_in_subresource=draft.maybe_in_subresource,
        anchors_in=lambda *_: anchors,
    )
    return own.create_resource(node)


def _is_whole(id_: str | None) -> bool:
    """Whether an id says by itself what it is, and not beside another."""
    return id_ is not None and _is_url(id_) and bool(urlsplit(id_).scheme)


def _own_address(schema: Any, named: Mapping[str, _Part]) -> str:
    """The schema's id; where a registry reference is called by it, one beside it, as who writes that name means the reference.

    The schema itself is changed then, for `jsonschema`, which knows it by its id.
    """
    base = _top_id(schema)
    if not base or not any(_joined(base, name) == base for name in named):
        return base
    apart = f"{base}?itself"
    word = next(word for word in _ID_WORDS if isinstance(schema.get(word), str))
    schema[word] = apart
    return apart


def _joined(base: str, name: str) -> str:
    try:
        return urljoin(base, name)
    except ValueError:
        return name


def _leads_nowhere(reference: str, error: Exception) -> BadSchema:
    if isinstance(error, RecursionError):
        return BadSchema("the schema is nested too deeply")
    within = InvalidAnchor | NoSuchAnchor | PointerToNowhere
    if isinstance(error, Unresolvable) and not isinstance(error, within):
        return BadSchema(
            f"the schema refers to {reference!r}, which is neither within it nor among its registry references; "
            "register it with that reference (schemas are never fetched from a URL)"
        )
    return BadSchema(f"the schema refers to {reference!r}, and there is nothing at that place; correct it")


def _draft_of(node: Any, default: _Draft) -> _Draft:
    """The draft that a document says it is of."""
    said = node.get("$schema") if isinstance(node, dict) else None
    found = specification_with(said, default=default) if isinstance(said, str) else default
    return default if found is default else _lenient(found)


def _lenient(draft: _Draft, *also: _Draft) -> _Draft:
    """The draft where ids that are none are not seen: a number, or `#/properties/a`, which some generators write everywhere.

    What is no schema, such as a boolean of draft-04 or a number, has no id, no anchors and no subschemas; nor has a
    keyword of a wrong shape, such as `"properties": null`, which hides none of the others.
    `also` are drafts whose words for an anchor are right, too.
    """
    make: Any = Specification  # attrs makes its arguments, of which mypy knows nothing
    found: _Draft = make(
        name=draft.name,
        id_of=lambda node: _id_of(draft, node),
        subresources_of=lambda node: _subschemas(draft, node),
        maybe_in_subresource=draft.maybe_in_subresource,
        anchors_in=lambda own, node: [
            anchor for one in (draft, *also) for anchor in _anchors(one, own, node)
        ],
    )
    return found


def _id_of(draft: _Draft, node: Any) -> str | None:
    if not isinstance(node, dict):
        return None
    try:
        found = draft.id_of(node)
    except AttributeError:
        return None
    return found if isinstance(found, str) and not found.startswith("#") and _is_url(found) else None


def _is_url(id_: str) -> bool:
    try:
        urlsplit(id_)
    except ValueError:
        return False
    return True


def _subschemas(draft: _Draft, node: Any) -> list[Any]:
    # A list of `items`, which 2020-12 calls `prefixItems`: many schemas that do not say their draft still have it.
    if not isinstance(node, dict):
        return node if isinstance(node, list) else []
    newer = node.get("$defs") if draft.name in _WITHOUT_DEFS else None
    return [*_subschemas_of(draft, node), *(newer.values() if isinstance(newer, dict) else ())]


def _subschemas_of(draft: _Draft, node: dict[str, Any]) -> list[Any]:
    try:
        return list(draft.subresources_of(node))
    except (AttributeError, TypeError):
        # A keyword has a wrong shape. The library says not which one, so each is asked about alone.
        alone = [{word: of} for word, of in node.items()]
        return [found for one in alone for found in _subschemas_of(draft, one)] if len(alone) > 1 else []


def _anchors(draft: _Draft, own: _Draft, node: Any) -> list[Any]:
    """A schema's anchors by the words of the draft; what they lead to is read by `own`, which is lenient."""
    if not isinstance(node, dict):
        return []
    try:
        found = [one for one in draft.anchors_in(node) if isinstance(one.name, str)]
    except AttributeError:  # an id that is no text
        return []
    return [type(one)(name=one.name, resource=own.create_resource(node)) for one in found]


# Of a schema that does not say its draft.
_UNSAID = _lenient(DRAFT202012, DRAFT7)


_ID_WORDS = ("$id", "id")


def _top_id(document: Any) -> str:
    """The id of a whole document, by any draft's word for it; "" where it has none."""
    said = [document.get(word) for word in _ID_WORDS] if isinstance(document, dict) else []
    return next((id_.rstrip("#") for id_ in said if isinstance(id_, str)), "")


def _parsed(text: str, name: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise BadSchema(f"{name} is not JSON") from None
