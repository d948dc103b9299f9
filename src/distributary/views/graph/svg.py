"""A pipeline as a picture: from left to right, each thing in the column behind what goes into it, the wider a way the more went along it.

Such a graph has no circles and few layers, so that a library for graphs of any shape would lay out what needs no laying out.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from distributary.views.graph.shown import counted, second_line
from distributary.views.terminal import one_line

if TYPE_CHECKING:
    from distributary.ingest.lineage.flow import Flow, FlowEdge, FlowNode

_LONGEST = 40

# Of a letter, about, in the two sizes of letters.
_NAME_WIDTH, _NOTE_WIDTH = 7.6, 6.4

_HEIGHT, _GAP, _MARGIN, _BETWEEN = 48, 14, 24, 130

_WIDEST_WAY = 9.0

_LETTERS = 'font-family="system-ui, -apple-system, \'Segoe UI\', Helvetica, Arial, sans-serif" font-size="13"'

_STYLE = """\
      .box { fill: #ffffff; stroke: #8796a5; stroke-width: 1.2; }
      .topic { fill: #eaf1fd; stroke: #5b8def; }
      .pipeline { fill: #fff6e0; stroke: #c98a12; }
      .table { fill: #e6f4ec; stroke: #3b8f63; }
      .pattern { fill: #f6fbf8; stroke: #3b8f63; stroke-dasharray: 4 3; }
      .quarantine { fill: #fbeaea; stroke: #b85450; }
      .dropped { fill: #fbeaea; stroke: #b85450; stroke-dasharray: 4 3; }
      .bronze { fill: #f7ede2; stroke: #a8703a; }
      .derived { fill: #eee8f8; stroke: #7a5bb5; }
      .static { fill: #f3f6f9; stroke: #8796a5; }
      .sent { fill: #eee8f8; stroke: #7a5bb5; stroke-dasharray: 4 3; }
      .ledger { fill: #f3f6f9; }
      .way { fill: none; stroke: #4b5a6b; stroke-opacity: 0.45; }
      .asked { stroke-dasharray: 4 3; }
      .name { font-weight: 600; fill: #1d2733; }
      .note { fill: #4b5a6b; font-size: 11px; }"""


@dataclass(frozen=True, slots=True)
class _Box:
    """Where a thing is drawn, in pixels, and what stands in it."""

    node: FlowNode
    left: float
    top: float
    width: float
    under: str

    @property
    def middle(self) -> float:
        return self.top + _HEIGHT / 2


def svg(flow: Flow) -> str:
    """The pipeline's picture, as a whole SVG file."""
    boxes, width, height = _laid_out(flow)
    told = f"Records of pipeline {one_line(flow.pipeline)}, from its topics to its tables"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" {_LETTERS} role="img">',
            f"  <title>{escape(told)}</title>",
            f"  <style>\n{_STYLE}\n  </style>",
            f'  <rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
            *_ways(flow, boxes),
            *(line for box in boxes.values() for line in _drawn(flow, box)),
            "</svg>",
        ]
    )


def _laid_out(flow: Flow) -> tuple[dict[str, _Box], float, float]:
    """Each thing's box, and how wide and high the whole is."""
    layers = _layers(flow)
    highest = max(map(_high, layers))
    boxes, left = dict[str, _Box](), float(_MARGIN)
    for layer in layers:
        unders = [second_line(flow, node) for node in layer]
        width = max(map(_wide, layer, unders))
        top = _MARGIN + (highest - _high(layer)) / 2
        for node, under in zip(layer, unders, strict=True):
            boxes[node.id] = _Box(node, left, top, width, under)
            top += _HEIGHT + _GAP
        left += width + _BETWEEN
    return boxes, left - _BETWEEN + _MARGIN, highest + 2 * _MARGIN


def _layers(flow: Flow) -> list[list[FlowNode]]:
    """The things by how many lie before them on the longest way; each comes behind what goes into it."""
    into: dict[str, list[str]] = {}
    for edge in flow.edges:
        into.setdefault(edge.target, []).append(edge.source)
    depth: dict[str, int] = {}
    layers: list[list[FlowNode]] = []
    for node in flow.nodes:
        at = depth[node.id] = max((depth[one] + 1 for one in into.get(node.id, ())), default=0)
        while len(layers) <= at:
            layers.append([])
        layers[at].append(node)
    return layers


def _high(layer: Sequence[FlowNode]) -> float:
    return len(layer) * (_HEIGHT + _GAP) - _GAP


def _wide(node: FlowNode, under: str) -> float:
    return round(24 + max(len(_short(node.name)) * _NAME_WIDTH, len(_short(under)) * _NOTE_WIDTH))


def _ways(flow: Flow, boxes: Mapping[str, _Box]) -> Iterator[str]:
    """The ways, each as wide as what went along it, of records and rows."""
    amounts = {edge: _amount(edge, boxes) for edge in flow.edges}
    most = max(amounts.values(), default=0)
    for edge, amount in amounts.items():
        begin, end = boxes[edge.source], boxes[edge.target]
        wide = 1.4 + (_WIDEST_WAY - 1.4) * (amount / most) ** 0.5 if most else 1.4
        x1, x2 = begin.left + begin.width, end.left
        bend = (x1 + x2) / 2
        kind = "way asked" if edge.what == "schemas" else "way"
        yield (
            f'  <path class="{kind}" stroke-width="{wide:.1f}" '
            f'd="M{x1:g} {begin.middle:g} C{bend:g} {begin.middle:g} {bend:g} {end.middle:g} {x2:g} {end.middle:g}"/>'
        )


def _amount(edge: FlowEdge, boxes: Mapping[str, _Box]) -> int:
    if edge.what not in ("records", "rows"):
        return 0
    return edge.count or boxes[edge.target].node.rows or 0


def _drawn(flow: Flow, box: _Box) -> Iterator[str]:
    node = box.node
    middle = box.left + box.width / 2
    told = [one for one in (one_line(node.name), one_line(node.about), counted(flow, node)) if one]
    yield f"  <g><title>{escape(': '.join(told))}</title>"
    yield f'    <rect class="box {node.kind}" x="{box.left:g}" y="{box.top:g}" width="{box.width:g}" height="{_HEIGHT}" rx="6"/>'
    first = box.middle - (4 if box.under else -4)
    yield f'    <text class="name" text-anchor="middle" x="{middle:g}" y="{first:g}">{escape(_short(node.name))}</text>'
    if box.under:
        yield f'    <text class="note" text-anchor="middle" x="{middle:g}" y="{box.middle + 14:g}">{escape(_short(box.under))}</text>'
    yield "  </g>"


def _short(text: str) -> str:
    line = one_line(text)
    return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 1]}\N{HORIZONTAL ELLIPSIS}"
