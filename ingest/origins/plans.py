"""Which columns of which tables a data frame's columns are made of, by the plan that Spark has of it.

Spark tells a plan as JSON: its nodes one behind the other, each before those below it, with its expressions as lists of the same form. An
attribute has a number that no other one of the plan has, so that who made it can be found wherever it is used.
https://github.com/apache/spark/blob/master/sql/catalyst/src/main/scala/org/apache/spark/sql/catalyst/trees/TreeNode.scala
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

from pyspark.sql import DataFrame

How: TypeAlias = Literal["IDENTITY", "TRANSFORMATION", "AGGREGATION"]

_RANK: Mapping[How, int] = {"IDENTITY": 0, "TRANSFORMATION": 1, "AGGREGATION": 2}

MARK = "rows of "
"""What the name of a function begins with that reads a table, in front of what the table is called; of a table that is to count for nothing, nothing stands behind it."""


@dataclass(frozen=True, slots=True)
class Origin:
    """A column of a table that another one is made of, and how: as it is, by an expression, or of several rows."""

    table: str
    column: str
    how: How


# None where a part of it is of nobody knows what.
_Origins: TypeAlias = frozenset[Origin] | None
_Node: TypeAlias = dict[str, Any]
_Below: TypeAlias = Sequence[list[int] | None]

_READERS = {"MapInArrow", "PythonMapInArrow"}

# Nodes whose columns are those of the one below them.
_SAME = {
    *(
        "Filter",
        "Sort",
        "LocalLimit",
        "GlobalLimit",
        "Limit",
        "Offset",
        "Repartition",
        "RepartitionByExpression",
    ),
    *("RebalancePartitions", "ResolvedHint", "SubqueryAlias", "Distinct", "Deduplicate", "Sample"),
}

_LEFT_ALONE = ("LeftSemi", "LeftAnti")


def marked(run: Callable[..., Any], table: str) -> None:
    """Have a function that reads a table say so in the plan."""
    run.__name__ = f"{MARK}{table}"


def origins(frame: DataFrame) -> dict[str, tuple[Origin, ...]]:
    """Of which columns of tables each column of a frame is; those of which that is not known are left out."""
    try:
        return origins_in(json.loads(frame._jdf.queryExecution().optimizedPlan().toJSON()), frame.columns)
    except Exception:  # noqa: BLE001 what is only told of must not keep a table from being made
        return {}


def origins_in(plan: Sequence[_Node], names: Sequence[str]) -> dict[str, tuple[Origin, ...]]:
    """The same of a plan as JSON has it, whose columns are called so."""
    tree, _ = _tree(plan, 0)
    known = _Known({})
    ids = known.output(tree)
    if ids is None or len(ids) != len(names):
        return {}
    told = {name: known.of.get(number) for name, number in zip(names, ids, strict=True)}
    return {name: tuple(sorted(found, key=_order)) for name, found in told.items() if found}


def _order(one: Origin) -> tuple[str, str]:
    return one.table, one.column


@dataclass(frozen=True, slots=True)
class _Tree:
    node: _Node
    below: tuple[_Tree, ...]

    @property
    def kind(self) -> str:
        return str(self.node["class"]).rpartition(".")[2]

    def parts(self) -> Iterator[_Tree]:
        yield self
        for one in self.below:
            yield from one.parts()


def _tree(nodes: Sequence[_Node], at: int) -> tuple[_Tree, int]:
    """The tree that begins at a place, and the place behind it."""
    node, below, end = nodes[at], list[_Tree](), at + 1
    for _ in range(node["num-children"]):
        one, end = _tree(nodes, end)
        below.append(one)
    return _Tree(node, tuple(below)), end


def _expressions(value: Any) -> list[_Tree]:
    """A field's expressions."""
    if not isinstance(value, list) or not value:
        return []
    if all(isinstance(one, dict) and "class" in one for one in value):
        return [_tree(value, 0)[0]]
    return [tree for one in value for tree in _expressions(one)]


def _number(node: _Node) -> int:
    return int(node["exprId"]["id"])


@dataclass(frozen=True, slots=True)
class _Known:
    """What is known of attributes, by their numbers."""

    of: dict[int, _Origins]

    def output(self, tree: _Tree) -> list[int] | None:
        """The numbers of a node's columns, of which all that is known is noted; None of a node of another kind."""
        below = [self.output(one) for one in tree.below]
        kind, node = tree.kind, tree.node
        if kind in _SAME:
            return below[0]
        makes = _MAKERS.get(kind)
        return None if makes is None else makes(self, node, below)

    def _read(self, node: _Node) -> list[int]:
        called = [
            str(part.node.get("name", ""))
            for tree in _expressions(node.get("functionExpr"))
            for part in tree.parts()
            if part.kind == "PythonUDF"
        ]
        table = next((one.removeprefix(MARK) for one in called if one.startswith(MARK)), None)
        found = [one.node for one in _expressions(node["output"])]
        for one in found:
            origin: _Origins = None
            if table is not None:
                origin = frozenset({Origin(table, str(one["name"]), "IDENTITY")} if table else ())
            self.of[_number(one)] = origin
        return [_number(one) for one in found]

    def _made(self, value: Any) -> list[int]:
        found = _expressions(value)
        for one in found:
            if one.kind == "Alias":
                self.of[_number(one.node)] = self._origins(one.below)
        return [_number(one.node) for one in found]

    def _origins(self, trees: Iterable[_Tree]) -> _Origins:
        found = list[Origin]()
        for tree in trees:
            how: How = "IDENTITY" if tree.kind == "AttributeReference" else "TRANSFORMATION"
            if any(part.kind == "AggregateExpression" for part in tree.parts()):
                how = "AGGREGATION"
            for part in tree.parts():
                if part.kind.endswith("Subquery") or part.kind.endswith("SubqueryExpression"):
                    return None
                if part.kind != "AttributeReference":
                    continue
                of = self.of.get(_number(part.node))
                if of is None:
                    return None
                found += (replace(one, how=max(one.how, how, key=_RANK.__getitem__)) for one in of)
        return _strongest(found)

    def _united(self, below: Sequence[list[int] | None]) -> list[int] | None:
        alike = [one for one in below if one is not None]
        if len(alike) < len(below) or len({len(one) for one in alike}) != 1:
            return None
        for numbers in zip(*alike, strict=True):
            self.of[numbers[0]] = _together(self.of.get(number) for number in numbers)
        return alike[0]

    def _expanded(self, node: _Node) -> list[int]:
        found = [_number(one.node) for one in _expressions(node["output"])]
        ways = [_expressions(one) for one in node["projections"]]
        for place, number in enumerate(found):
            self.of[number] = _together(self._origins([way[place]]) for way in ways)
        return found

    def _given(
        self, below: list[int] | None, output: Sequence[_Tree], asked: Sequence[Sequence[_Tree]]
    ) -> list[int] | None:
        for place, one in enumerate(output):
            self.of[_number(one.node)] = self._origins(asked[min(place, len(asked) - 1)])
        return _both(below, [_number(one.node) for one in output])


def _both(left: list[int] | None, right: list[int] | None) -> list[int] | None:
    return None if left is None or right is None else [*left, *right]


def _together(several: Iterable[_Origins]) -> _Origins:
    found = list[Origin]()
    for one in several:
        if one is None:
            return None
        found += one
    return _strongest(found)


def _strongest(several: Iterable[Origin]) -> frozenset[Origin]:
    """Each column once, as it is that is most made of."""
    weakest_first = sorted(several, key=lambda one: _RANK[one.how])
    return frozenset({(one.table, one.column): one for one in weakest_first}.values())


def _joined(_: _Known, node: _Node, below: _Below) -> list[int] | None:
    alone = any(name in json.dumps(node.get("joinType")) for name in _LEFT_ALONE)
    return below[0] if alone else _both(below[0], below[1])


_MAKERS: Mapping[str, Callable[[_Known, _Node, _Below], list[int] | None]] = {
    **dict.fromkeys(_READERS, lambda known, node, _: known._read(node)),
    "Project": lambda known, node, _: known._made(node["projectList"]),
    "Aggregate": lambda known, node, _: known._made(node["aggregateExpressions"]),
    "Window": lambda known, node, below: _both(below[0], known._made(node["windowExpressions"])),
    "Join": _joined,
    "Union": lambda known, _, below: known._united(below),
    "Expand": lambda known, node, _: known._expanded(node),
    "Generate": lambda known, node, below: known._given(
        below[0], _expressions(node["generatorOutput"]), [_expressions(node["generator"])]
    ),
    **dict.fromkeys(
        ("BatchEvalPython", "ArrowEvalPython"),
        lambda known, node, below: known._given(
            below[0], _expressions(node["resultAttrs"]), [[one] for one in _expressions(node["udfs"])]
        ),
    ),
}
