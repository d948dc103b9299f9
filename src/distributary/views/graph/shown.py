"""What a picture of a pipeline shows: of many tables those with the most rows, and what stands in each box."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from distributary.views.terminal import one_line

if TYPE_CHECKING:
    from distributary.ingest.lineage.flow import Flow, FlowNode

_REST = {"table": "table:*", "derived": "derived:*", "sent": "sent:*"}

_MANY = {"table": "tables", "derived": "derived tables", "sent": "topics and files"}

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
    """The same with so many tables at most, and what is made of those; a box that stands for the others of its kind comes behind them."""
    tables = [one for one in flow.nodes if one.kind == "table"]
    if len(tables) > most:
        kept = {one.id for one in sorted(tables, key=lambda one: -(one.rows or 0))[: most - 1]}
        flow = _gathered(flow, [one for one in tables if one.id not in kept])
    for kind in ("derived", "sent"):
        # What is made of those that are not shown is not shown, either.
        alike = [one for one in flow.nodes if one.kind == kind]
        of = {one.id: {edge.source for edge in flow.edges if edge.target == one.id} for one in alike}
        hidden = [one for one in alike if of[one.id] and of[one.id] <= set(_REST.values())]
        flow = _gathered(flow, hidden) if len(hidden) > 1 else flow
    return flow


def _gathered(flow: Flow, others: list[FlowNode]) -> Flow:
    """The same with one box for these, behind all others of their kind."""
    kind = others[0].kind
    rows = [one.rows for one in others]
    rest = replace(
        others[-1],
        id=_REST[kind],
        name=f"{len(others):,} more {_MANY[kind]}",
        about="",
        entity=None,
        rows=None if None in rows else sum(one or 0 for one in rows),
        columns=(),
    )
    gone = {one.id for one in others}
    last = [one.id for one in flow.nodes if one.kind == kind][-1]
    nodes: list[FlowNode] = []
    for node in flow.nodes:
        nodes += [] if node.id in gone else [node]
        nodes += [rest] if node.id == last else []
    edges = [
        replace(
            one,
            source=rest.id if one.source in gone else one.source,
            target=rest.id if one.target in gone else one.target,
        )
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
