"""What OpenLineage calls topics, folders and tables in stores.

https://openlineage.io/docs/spec/naming
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from distributary.ingest.lineage.flow import Flow, FlowNode
from distributary.ingest.storage.place import Place

# Two words of one store's, of which the specification has one.
_SCHEMES = {"s3a": "s3", "abfs": "abfss"}

# In front of a broker, as Confluent Cloud tells it: Kafka's clients leave it out.
_PROTOCOL = re.compile(r"(SASL_)?(PLAINTEXT|SSL)://", re.IGNORECASE)

_HAVE_ROWS = frozenset({"table", "bronze", "quarantine", "ledger"})


@dataclass(frozen=True, slots=True)
class DatasetName:
    """What OpenLineage knows a dataset by."""

    namespace: str
    name: str


def dataset_name(node: FlowNode) -> DatasetName:
    """What a topic, a table or files are called."""
    if "/" in node.about and not _PROTOCOL.match(node.about):
        return _of_place(Place.parse(node.about))
    kind, colon, place = node.about.partition(":")
    if kind == "kinesis" and colon:
        return DatasetName(f"kinesis://{place}", node.name)
    # The first of the brokers that one is told of: all of them lead to one cluster.
    first = node.about.partition(",")[0].strip()
    return DatasetName(f"kafka://{_PROTOCOL.sub('', first, count=1)}", node.name)


def _of_place(place: Place) -> DatasetName:
    if place.kind == "posix":
        return DatasetName("file", str(place))
    return DatasetName(f"{_SCHEMES.get(place.scheme, place.scheme)}://{place.authority}", place.key)


def sources_of(flow: Flow) -> list[FlowNode]:
    """What a pipeline itself reads."""
    return [node for node in flow.nodes if node.kind == "topic"]


def tables_of(flow: Flow) -> list[FlowNode]:
    """What a pipeline itself writes; without tables that are not made yet."""
    return [node for node in flow.nodes if node.kind in _HAVE_ROWS]


def made_of(flow: Flow, node: FlowNode) -> list[FlowNode]:
    """What a derived table is made of."""
    return [flow.node(edge.source) for edge in flow.edges if edge.target == node.id]


def sent_on(flow: Flow, node: FlowNode) -> Iterator[FlowNode]:
    """Where a derived table's rows go beside it."""
    for edge in flow.edges:
        if edge.source == node.id and (end := flow.node(edge.target)).kind == "sent":
            yield end
