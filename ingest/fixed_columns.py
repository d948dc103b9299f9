"""Columns of a table whose types Delta lets nobody change, because the table's own rules speak of them."""

from __future__ import annotations

import re
from collections.abc import Iterator

from distributary.ingest.tables import TableState

_CONSTRAINT = "delta.constraints."
# What Delta keeps readable for Iceberg, whose types grow by other rules.
_ICEBERG = ("delta.enableIcebergCompatV1", "delta.enableIcebergCompatV2")


def fixed_columns(state: TableState) -> frozenset[str]:
    """Top-level columns that must keep their types: those that constraints and generated columns name, and generated ones.

    By the words of the expressions, so that rather one too many is fixed than one too few.
    """
    if any(state.properties.get(name, "").lower() == "true" for name in _ICEBERG):
        return frozenset(state.layout.names)
    words = {word for expression in _expressions(state) for word in words_of(expression)}
    named = {name for name in state.layout.names if words and words_of(name) <= words}
    return frozenset({*named, *state.generated, *state.identity})


def _expressions(state: TableState) -> Iterator[str]:
    yield from (text for key, text in state.properties.items() if key.startswith(_CONSTRAINT))
    yield from state.generated.values()


def words_of(text: str) -> set[str]:
    """The words of an expression or a name, in small letters; what stands between them in a quoted name does not count."""
    return set(re.findall(r"\w+", text.lower()))
