from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.errors import BadSchema
from distributary.registry.base import Reference
from distributary.registry.references import MAX_DEPTH, MAX_IMPORTS, resolve

Graph = dict[int, list[int]]


def references(targets: Sequence[int]) -> list[Reference]:
    return [Reference(f"{target}.proto", f"s{target}", 1) for target in targets]


def resolved(graph: Graph, roots: Sequence[int]) -> list[str]:
    def fetch(reference: Reference) -> tuple[str, list[Reference]]:
        target = int(reference.subject[1:])
        return f"text of {target}", references(graph.get(target, []))

    texts = resolve(references(roots), fetch)
    assert all(text == f"text of {name.removesuffix('.proto')}" for name, text in texts.items())
    return [name.removesuffix(".proto") for name in texts]


def test_a_diamond_is_fetched_once_and_comes_before_what_needs_it() -> None:
    assert resolved({1: [3], 2: [3], 3: []}, [1, 2]) == ["3", "1", "2"]


def test_a_cycle_ends() -> None:
    assert sorted(resolved({1: [2], 2: [1]}, [1])) == ["1", "2"]


@settings(deadline=None)
@given(st.dictionaries(st.integers(0, 20), st.lists(st.integers(0, 20), max_size=5), max_size=20))
def test_without_cycles_everything_reachable_comes_after_its_dependencies(graph: Graph) -> None:
    upwards = {node: [target for target in targets if target > node] for node, targets in graph.items()}
    order = resolved(upwards, [0])
    position = {int(name): place for place, name in enumerate(order)}
    assert len(position) == len(order)
    for node, place in position.items():
        assert all(position[target] < place for target in upwards.get(node, []))


@pytest.mark.parametrize(
    ("graph", "roots"),
    [
        ({node: [node + 1] for node in range(MAX_DEPTH + 5)}, [0]),
        ({}, list(range(MAX_IMPORTS + 1))),
    ],
)
def test_what_is_too_deep_or_too_wide_is_a_bad_schema(graph: Graph, roots: list[int]) -> None:
    with pytest.raises(BadSchema, match=r"nest deeper|imports more"):
        resolved(graph, roots)
