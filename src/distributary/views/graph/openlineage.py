"""A pipeline as an event of OpenLineage's, which data catalogues such as Marquez and DataHub take: what it reads, what it writes, which column comes from which field.

https://openlineage.io/docs/spec/static-lineage and https://openlineage.io/docs/spec/naming
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from distributary import __version__
from distributary.ingest.storage.place import Place

if TYPE_CHECKING:
    from distributary.ingest.lineage.flow import Flow, FlowNode

_SPEC = "https://openlineage.io/spec"

_PRODUCER = f"urn:distributary:{__version__}"

# Two words of one store's, of which the specification has one.
_SCHEMES = {"s3a": "s3", "abfs": "abfss"}

Named = dict[str, Any]


def event(flow: Flow, namespace: str, now: datetime) -> Named:
    """The event: a job of this namespace with its inputs and outputs. Tables that are not made yet are left out."""
    topics = [_topic(node) for node in flow.nodes if node.kind == "topic"]
    tables = [node for node in flow.nodes if node.kind in ("table", "bronze", "quarantine", "ledger")]
    about = {
        "processingType": "STREAMING",
        "integration": "DISTRIBUTARY",
        "jobType": "JOB",
        **_facet("facets/2-0-4/JobTypeJobFacet.json#/$defs/JobTypeJobFacet"),
    }
    return {
        "eventTime": now.isoformat(),
        "producer": _PRODUCER,
        "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/JobEvent",
        "job": {"namespace": namespace, "name": flow.pipeline, "facets": {"jobType": about}},
        "inputs": topics,
        "outputs": [{**_table(node), "facets": _facets(node, topics)} for node in tables],
    }


def _facet(schema: str) -> Named:
    return {"_producer": _PRODUCER, "_schemaURL": f"{_SPEC}/{schema}"}


def _topic(node: FlowNode) -> Named:
    if "/" in node.about:
        return _table(node)
    kind, colon, place = node.about.partition(":")
    if kind == "kinesis" and colon:
        return {"namespace": f"kinesis://{place}", "name": node.name}
    # The first of the brokers that one is told of: all of them lead to one cluster.
    first = node.about.partition(",")[0].strip()
    return {"namespace": f"kafka://{first}", "name": node.name}


def _table(node: FlowNode) -> Named:
    place = Place.parse(node.about)
    if place.kind == "posix":
        return {"namespace": "file", "name": str(place)}
    return {
        "namespace": f"{_SCHEMES.get(place.scheme, place.scheme)}://{place.authority}",
        "name": place.key,
    }


def _facets(node: FlowNode, topics: list[Named]) -> Named:
    """A table's columns, and where each came from."""
    if not node.columns:
        return {}
    fields = [{"name": one.name, "type": one.type} for one in node.columns]
    came_from = {
        one.name: {"inputFields": [_input(topic, one.source, one.masked) for topic in topics]}
        for one in node.columns
        if one.source is not None
    }
    return {
        "schema": {
            "fields": fields,
            **_facet("facets/1-2-0/SchemaDatasetFacet.json#/$defs/SchemaDatasetFacet"),
        },
        "columnLineage": {
            "fields": came_from,
            **_facet("facets/1-2-0/ColumnLineageDatasetFacet.json#/$defs/ColumnLineageDatasetFacet"),
        },
    }


def _input(topic: Named, field: str, masked: bool) -> Named:
    how = {"type": "DIRECT", "subtype": "TRANSFORMATION" if masked else "IDENTITY", "masking": masked}
    return {**topic, "field": field, "transformations": [how]}
