"""What a picture of a pipeline shows: of many tables those with the most rows, and what stands in each box."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from distributary.views.terminal import one_line

if TYPE_CHECKING:
    from distributary.ingest.lineage.flow import Flow, FlowNode

_REST = "table:*"

_WITHOUT_NUMBER = {
    "table": "rows of an entity",
    "derived": "made of tables",
    "bronze": "every record as it came",
    "static": "looked up in",
    "sent": "what was derived, sent on",
    "pattern": "a table an entity, none made yet",
}

_ONE = {"records": "record", "rows": "row", "batches": "batch", "changes": "change", "schemas": "schema"}


def with_most(flow: Flow, most: int) -> Flow:
    """The same with so many tables at most; one that stands for the others comes behind them."""
    tables = [one for one in flow.nodes if one.kind == "table"]
    if len(tables) <= most:
        return flow
    kept = {one.id for one in sorted(tables, key=lambda one: -(one.rows or 0))[: most - 1]}
    others = [one for one in tables if one.id not in kept]
    rows = [one.rows for one in others]
    rest = replace(
        others[-1],
        id=_REST,
        name=f"{len(others):,} more tables",
        about="",
        entity=None,
        rows=None if None in rows else sum(one or 0 for one in rows),
    )
    gone = {one.id for one in others[:-1]}
    nodes = [rest if one is others[-1] else one for one in flow.nodes if one.id not in gone]
    ends = {one.id: _REST for one in others}
    edges = [
        replace(one, source=ends.get(one.source, one.source), target=ends.get(one.target, one.target))
        for one in flow.edges
    ]
    # Of those that lead the same way now, one is enough.
    return replace(flow, nodes=tuple(nodes), edges=tuple(dict.fromkeys(edges)))


def second_line(flow: Flow, node: FlowNode) -> str:
    """What stands under a thing's name: how much came from it or is in it, or what it does."""
    if node.kind in ("table", "derived", "bronze") and node.rows is not None:
        return f"{node.rows:,} rows"
    if node.kind in _WITHOUT_NUMBER:
        return _WITHOUT_NUMBER[node.kind]
    if node.kind in ("pipeline", "dropped"):
        return one_line(node.about)
    # A place's last parts tell more than its first.
    if node.kind in ("registry", "schemas"):
        return one_line(node.about.rpartition("://")[2])
    count = counted(flow, node)
    return "" if count is None else count


def counted(flow: Flow, node: FlowNode) -> str | None:
    """How much goes from or to a thing, in words; None where that is not recorded."""
    for edge in flow.edges:
        if node.id in (edge.source, edge.target) and edge.count is not None:
            return f"{edge.count:,} {_ONE[edge.what] if edge.count == 1 else edge.what}"
    return None
