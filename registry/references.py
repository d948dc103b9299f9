"""Which other texts a schema needs: its references, followed to their end."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from distributary.errors import BadSchema
from distributary.registry.base import Reference

MAX_IMPORTS = 500

MAX_DEPTH = 64

# What a subject and version hold: the text and its own, direct references.
Fetch: TypeAlias = "Callable[[Reference], tuple[str, Sequence[Reference]]]"


def resolve(references: Iterable[Reference], fetch: Fetch) -> Mapping[str, str]:
    """Each import name, transitive ones too, with its text: dependencies before dependants.

    Registries list only direct references. The first text met under a name stands, as in Confluent's own
    resolver, which also ends every cycle. Raises BadSchema beyond MAX_IMPORTS names or MAX_DEPTH levels.
    """
    texts: dict[str, str] = {}
    met: set[str] = set()

    def visit(level: Iterable[Reference], depth: int) -> None:
        if depth > MAX_DEPTH:
            raise BadSchema(f"its references nest deeper than {MAX_DEPTH} levels")
        for reference in level:
            if reference.name in met:
                continue
            met.add(reference.name)
            if len(met) > MAX_IMPORTS:
                raise BadSchema(f"it imports more than {MAX_IMPORTS} other schemas")
            text, further = fetch(reference)
            visit(further, depth + 1)
            texts[reference.name] = text

    visit(references, 1)
    return texts
