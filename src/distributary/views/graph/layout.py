"""Where the things of a pipeline's picture stand: from left to right, each in the column behind what goes into it.

Such a graph has no circles and few columns, so that a library for graphs of any shape would lay out what needs no laying out. A way that passes
columns by has a lane of its own in each, between the boxes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from graphlib import TopologicalSorter
from statistics import fmean
from typing import TYPE_CHECKING, TypeAlias

from distributary.views.graph.shown import second_line
from distributary.views.terminal import one_line

if TYPE_CHECKING:
    from distributary.ingest.lineage.flow import Flow, FlowEdge, FlowNode

HEIGHT = 48
"""Of a box, in pixels."""

_GAP, _MARGIN, _BETWEEN, _LANE = 14, 24, 130, 6

_LONGEST = 40

# Of a letter, about, in the two sizes of letters.
_NAME_WIDTH, _NOTE_WIDTH = 7.6, 6.4

# A lane of a way, by the number of the way, or a thing's id.
_Item: TypeAlias = "str | int"

Point: TypeAlias = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Box:
    """Where a thing is drawn, in pixels, and what stands in it."""

    node: FlowNode
    left: float
    top: float
    width: float
    under: str

    @property
    def middle(self) -> float:
        """How far down its middle is."""
        return self.top + HEIGHT / 2


@dataclass(slots=True)
class Layout:
    """A picture: its boxes by the ids of the things, and where the lanes of each way begin and end, by its number."""

    boxes: dict[str, Box] = field(default_factory=dict)
    lanes: dict[int, list[tuple[Point, Point]]] = field(default_factory=dict)
    width: float = 0.0
    height: float = 0.0


def short(text: str) -> str:
    """A text as it stands in a box: of a long one its beginning and its end, since the end tells those apart that begin alike."""
    line = one_line(text)
    if len(line) <= _LONGEST:
        return line
    end = _LONGEST // 2
    return f"{line[: _LONGEST - end - 1]}\N{HORIZONTAL ELLIPSIS}{line[-end:]}"


def laid_out(flow: Flow) -> Layout:
    """Where each thing is drawn, and each way."""
    nodes = {node.id: node for node in flow.nodes}
    columns = _columns(flow, _depths(flow))
    highest = max(map(_high, columns))
    found, left = Layout(height=highest + 2 * _MARGIN), float(_MARGIN)
    for column in columns:
        shown = [nodes[item] for item in column if isinstance(item, str)]
        unders = {node.id: second_line(flow, node) for node in shown}
        width = max((_wide(node, unders[node.id]) for node in shown), default=0.0)
        top = _MARGIN + (highest - _high(column)) / 2
        for item in column:
            if isinstance(item, str):
                found.boxes[item] = Box(nodes[item], left, top, width, unders[item])
            else:
                down = top + _LANE / 2
                found.lanes.setdefault(item, []).append(((left, down), (left + width, down)))
            top += _tall(item) + _GAP
        left += width + _BETWEEN
    found.width = left - _BETWEEN + _MARGIN
    return found


def _depths(flow: Flow) -> dict[str, int]:
    """How many things lie before each on the longest way; what is only looked up in stands right before what looks there."""
    into: dict[str, list[str]] = {}
    out: dict[str, list[str]] = {}
    for edge in flow.edges:
        into.setdefault(edge.target, []).append(edge.source)
        out.setdefault(edge.source, []).append(edge.target)
    depth: dict[str, int] = {}
    for one in TopologicalSorter({node.id: into.get(node.id, []) for node in flow.nodes}).static_order():
        depth[one] = max((depth[before] + 1 for before in into.get(one, ())), default=0)
    for node in flow.nodes:
        if node.kind == "static" and node.id in out:
            depth[node.id] = max(min(depth[behind] for behind in out[node.id]) - 1, 0)
    return depth


def _columns(flow: Flow, depth: Mapping[str, int]) -> list[list[_Item]]:
    """What stands in each column, from above: a thing near what goes into it, so that few ways cross."""
    columns: list[list[_Item]] = [[] for _ in range(max(depth.values()) + 1)]
    for node in flow.nodes:
        columns[depth[node.id]].append(node.id)
    before: dict[tuple[int, _Item], list[_Item]] = {}
    for number, edge in enumerate(flow.edges):
        last: _Item = edge.source
        for at in range(depth[edge.source] + 1, depth[edge.target]):
            columns[at].append(number)
            before.setdefault((at, number), []).append(last)
            last = number
        before.setdefault((depth[edge.target], edge.target), []).append(last)
    for at in range(1, len(columns)):
        columns[at] = _in_order(
            columns[at], columns[at - 1], {item: before.get((at, item), []) for item in columns[at]}
        )
    return columns


def _in_order(
    column: Sequence[_Item], earlier: Sequence[_Item], before: Mapping[_Item, Sequence[_Item]]
) -> list[_Item]:
    place = {item: number for number, item in enumerate(earlier)}

    def middle(item: _Item) -> float:
        return fmean(place[one] for one in before[item]) if before[item] else len(earlier)

    return sorted(column, key=middle)


def _tall(item: _Item) -> int:
    return HEIGHT if isinstance(item, str) else _LANE


def _high(column: Sequence[_Item]) -> float:
    return sum(_tall(item) + _GAP for item in column) - _GAP


def _wide(node: FlowNode, under: str) -> float:
    return round(24 + max(len(short(node.name)) * _NAME_WIDTH, len(short(under)) * _NOTE_WIDTH))


def way(layout: Layout, number: int, edge: FlowEdge) -> str:
    """The way of an edge as SVG writes paths: by its lanes, bent between the columns."""
    begin, end = layout.boxes[edge.source], layout.boxes[edge.target]
    at: Point = (begin.left + begin.width, begin.middle)
    drawn = f"M{at[0]:g} {at[1]:g}"
    for enters, leaves in layout.lanes.get(number, ()):
        drawn += f"{_bend(at, enters)} L{leaves[0]:g} {leaves[1]:g}"
        at = leaves
    return f"{drawn}{_bend(at, (end.left, end.middle))}"


def _bend(begin: Point, end: Point) -> str:
    middle = (begin[0] + end[0]) / 2
    return f" C{middle:g} {begin[1]:g} {middle:g} {end[1]:g} {end[0]:g} {end[1]:g}"
