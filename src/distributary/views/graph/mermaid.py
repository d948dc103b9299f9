"""A pipeline as a flowchart in Mermaid's language, which Markdown on GitHub and GitLab shows as a picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

from distributary.views.graph.shown import second_line
from distributary.views.terminal import one_line

if TYPE_CHECKING:
    from collections.abc import Iterator

    from distributary.ingest.lineage.flow import Flow

_SHAPES = {
    "topic": ('(["', '"])'),
    "registry": ('[("', '")]'),
    "schemas": ('[("', '")]'),
    "sent": ('(["', '"])'),
    "pipeline": ('{{"', '"}}'),
}

_BOX = ('["', '"]')

# Mermaid's own way to write what would end a label or begin markup in it.
_ESCAPES = str.maketrans({character: f"#{ord(character)};" for character in '#"<>&`|[]{}()\\'})

_CLASSES = (
    "    classDef table fill:#e6f4ec,stroke:#3b8f63",
    "    classDef pattern fill:#f6fbf8,stroke:#3b8f63,stroke-dasharray:4 3",
    "    classDef quarantine fill:#fbeaea,stroke:#b85450",
    "    classDef dropped fill:#fbeaea,stroke:#b85450,stroke-dasharray:4 3",
    "    classDef pipeline fill:#fff6e0,stroke:#c98a12",
    "    classDef bronze fill:#f7ede2,stroke:#a8703a",
    "    classDef derived fill:#eee8f8,stroke:#7a5bb5",
    "    classDef static fill:#f3f6f9,stroke:#8796a5",
    "    classDef sent fill:#eee8f8,stroke:#7a5bb5,stroke-dasharray:4 3",
    "    classDef ledger fill:#f3f6f9,stroke:#8796a5",
)


def mermaid(flow: Flow) -> str:
    """The pipeline's flowchart."""
    return "\n".join(["flowchart LR", *_lines(flow), *_CLASSES])


def _lines(flow: Flow) -> Iterator[str]:
    names = {node.id: f"n{number}" for number, node in enumerate(flow.nodes)}
    for node in flow.nodes:
        begin, end = _SHAPES.get(node.kind, _BOX)
        under = second_line(flow, node)
        label = _escaped(node.name) + (f"<br>{_escaped(under)}" if under else "")
        yield f"    {names[node.id]}{begin}{label}{end}:::{node.kind}"
    for edge in flow.edges:
        if edge.what == "schemas":
            yield f"    {names[edge.source]} -. schemas .-> {names[edge.target]}"
        else:
            yield f"    {names[edge.source]} --> {names[edge.target]}"


def _escaped(text: str) -> str:
    return one_line(text).translate(_ESCAPES)
