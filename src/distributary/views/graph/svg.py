"""A pipeline as a picture: a box for each thing, the wider a way between two the more went along it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import TYPE_CHECKING

from distributary.views.graph.layout import HEIGHT, Box, Layout, laid_out, short, way
from distributary.views.graph.shown import counted
from distributary.views.terminal import one_line

if TYPE_CHECKING:
    from distributary.ingest.lineage.flow import Flow, FlowEdge

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


def svg(flow: Flow) -> str:
    """The pipeline's picture, as a whole SVG file."""
    layout = laid_out(flow)
    width, height = layout.width, layout.height
    told = f"Records of pipeline {one_line(flow.pipeline)}, from its topics to its tables"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" {_LETTERS} role="img">',
            f"  <title>{escape(told)}</title>",
            f"  <style>\n{_STYLE}\n  </style>",
            f'  <rect width="{width:g}" height="{height:g}" fill="#ffffff"/>',
            *_ways(flow, layout),
            *(line for box in layout.boxes.values() for line in _drawn(flow, box)),
            "</svg>",
        ]
    )


def _ways(flow: Flow, layout: Layout) -> Iterator[str]:
    """The ways, each as wide as what went along it, of records and rows."""
    amounts = [_amount(edge, layout.boxes) for edge in flow.edges]
    most = max(amounts, default=0)
    for number, (edge, amount) in enumerate(zip(flow.edges, amounts, strict=True)):
        wide = 1.4 + (_WIDEST_WAY - 1.4) * (amount / most) ** 0.5 if most else 1.4
        kind = "way asked" if edge.what == "schemas" else "way"
        yield f'  <path class="{kind}" stroke-width="{wide:.1f}" d="{way(layout, number, edge)}"/>'


def _amount(edge: FlowEdge, boxes: Mapping[str, Box]) -> int:
    if edge.what not in ("records", "rows"):
        return 0
    return edge.count or boxes[edge.target].node.rows or 0


def _drawn(flow: Flow, box: Box) -> Iterator[str]:
    node = box.node
    middle = box.left + box.width / 2
    told = [one for one in (one_line(node.name), one_line(node.about), counted(flow, node)) if one]
    yield f"  <g><title>{escape(': '.join(told))}</title>"
    yield f'    <rect class="box {node.kind}" x="{box.left:g}" y="{box.top:g}" width="{box.width:g}" height="{HEIGHT}" rx="6"/>'
    first = box.middle - (4 if box.under else -4)
    yield f'    <text class="name" text-anchor="middle" x="{middle:g}" y="{first:g}">{escape(short(node.name))}</text>'
    if box.under:
        yield f'    <text class="note" text-anchor="middle" x="{middle:g}" y="{box.middle + 14:g}">{escape(short(box.under))}</text>'
    yield "  </g>"
