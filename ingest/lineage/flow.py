"""What flows between what in a pipeline: where records come from, what reads them, and where they end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal[
    "topic",
    "registry",
    "schemas",
    "pipeline",
    "table",
    "pattern",
    "quarantine",
    "dropped",
    "ledger",
    "derived",
    "bronze",
    "static",
    "sent",
]

What: TypeAlias = Literal["records", "schemas", "rows", "batches", "changes"]


@dataclass(frozen=True, slots=True)
class FlowColumn:
    """A column of a table.

    type    as Spark writes it
    source  the field of a record that it holds, by its path and the producers' name for it; None where it holds none, such as `kafka_offset`
    masked  whether a hash or a mask stands in place of its values, or of some within
    made_of the columns of other tables that a derived table's is made of, such as `silver_chess_events.kafka_ts`, as far as that is known
    """

    name: str
    type: str
    source: str | None = None
    masked: bool = False
    made_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowNode:
    """One thing that records, schemas or rows come from or go to.

    id      unlike that of all others, such as "topic:game-events"
    kind    what it is; a `pattern` stands for tables that are not there yet, `schemas` for where inferred ones are kept, `derived` are tables
            that are made of others, `bronze` those that have every record as it came, `static` what is looked up in, `sent` a topic or a folder that
            has what was derived
    name    what users call it
    about   where it is, or what it does; of a topic its brokers, or the table that is read or written. No secret
    entity  of a table, whose rows it has
    rows    how many rows are in it now; None where nobody knows, or it has none
    columns of a table that is there and can be opened
    """

    id: str
    kind: Kind
    name: str
    about: str = ""
    entity: str | None = None
    rows: int | None = None
    columns: tuple[FlowColumn, ...] = ()


@dataclass(frozen=True, slots=True)
class FlowEdge:
    """What goes from one to another.

    what   of what kind
    count  how many so far, as far as that is recorded; None where it is not
    """

    source: str
    target: str
    what: What
    count: int | None = None


@dataclass(frozen=True, slots=True)
class Flow:
    """A pipeline as a graph.

    pipeline  its name
    nodes     what records come from first, then the pipeline, then where they end; each behind what goes into it
    edges     in the order of their nodes
    batches   how many batches the ledger tells of; 0 where none ran
    """

    pipeline: str
    nodes: tuple[FlowNode, ...]
    edges: tuple[FlowEdge, ...]
    batches: int = 0

    def node(self, id_: str) -> FlowNode:
        """A node by its id. Raises KeyError."""
        return {one.id: one for one in self.nodes}[id_]
