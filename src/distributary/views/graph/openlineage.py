"""A pipeline as an event of OpenLineage's, which data catalogues such as Marquez and DataHub take: what it reads, what it writes, which column comes from which field.

https://openlineage.io/docs/spec/static-lineage
"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Any

from distributary import __version__
from distributary.ingest.lineage.naming import dataset_name, sources_of, tables_of

if TYPE_CHECKING:
    from distributary.ingest.lineage.flow import Flow, FlowNode

_SPEC = "https://openlineage.io/spec"

_PRODUCER = f"urn:distributary:{__version__}"

Named = dict[str, Any]


def event(flow: Flow, namespace: str, now: datetime) -> Named:
    """The event: a job of this namespace with its inputs and outputs. Tables that are not made yet are left out."""
    topics = [_named(node) for node in sources_of(flow)]
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
        "outputs": [{**_named(node), "facets": _facets(node, topics)} for node in tables_of(flow)],
    }


def _facet(schema: str) -> Named:
    return {"_producer": _PRODUCER, "_schemaURL": f"{_SPEC}/{schema}"}


def _named(node: FlowNode) -> Named:
    return asdict(dataset_name(node))


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
