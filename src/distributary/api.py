"""What `import distributary` gives: each public name with the place it comes from, loaded when it is first used.

These names, `distributary.errors` and `distributary.functions` are what a program may rely on. Any other module of
distributary may move, or change, from one version to the next.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module

# By the headings of docs/reference/python-api.md: the public name, and `module:attribute`; a module stands for itself.
PUBLIC: Mapping[str, Mapping[str, str]] = {
    "Pipelines": {
        "Settings": "distributary.ingest.settings.model:Settings",
        "run": "distributary.ingest.run:run",
        "Outcome": "distributary.ingest.supervision.outcome:Outcome",
        "Restart": "distributary.ingest.supervision.outcome:Restart",
        "Summary": "distributary.ingest.progress:Summary",
        "Progress": "distributary.ingest.progress:Progress",
        "plan": "distributary.ingest.plan:plan",
        "Plan": "distributary.ingest.plan:Plan",
        "Offer": "distributary.ingest.evolution.offered:Offer",
        "WatchedSubject": "distributary.ingest.evolution.watched:WatchedSubject",
        "Step": "distributary.ingest.evolution.planner:Step",
        "TableVerdict": "distributary.ingest.evolution.verdicts:TableVerdict",
        "infer": "distributary.ingest.infer:infer",
        "Inference": "distributary.ingest.infer:Inference",
        "Inferred": "distributary.ingest.infer:Inferred",
        "stuck_tables": "distributary.ingest.resolve:stuck_tables",
        "resolve": "distributary.ingest.resolve:resolve",
        "StuckTable": "distributary.ingest.resolve:StuckTable",
        "replay": "distributary.ingest.rebuild.silver:replay",
        "Replayed": "distributary.ingest.rebuild.silver:Replayed",
        "Chosen": "distributary.ingest.quarantine.chosen:Chosen",
        "Became": "distributary.ingest.replay.deciding:Became",
        "versions_at": "distributary.ingest.table_versions:versions_at",
        "Versions": "distributary.ingest.table_versions:Versions",
        "TableVersion": "distributary.ingest.table_versions:TableVersion",
        "flow": "distributary.ingest.lineage.seen:flow",
        "Flow": "distributary.ingest.lineage.flow:Flow",
        "FlowNode": "distributary.ingest.lineage.flow:FlowNode",
        "FlowColumn": "distributary.ingest.lineage.flow:FlowColumn",
        "FlowEdge": "distributary.ingest.lineage.flow:FlowEdge",
        "spark_session": "distributary.ingest.spark.session:spark_session",
        "errors": "distributary.errors",
    },
    "Schema registries": {
        "RegistryOptions": "distributary.registry.confluent.options:RegistryOptions",
        "ConfluentRegistry": "distributary.registry.confluent.registry:ConfluentRegistry",
        "MemoryRegistry": "distributary.registry.memory:MemoryRegistry",
        "DiskCache": "distributary.registry.disk.cache:DiskCache",
        "Notice": "distributary.registry.disk.cache:Notice",
        "SchemaRegistry": "distributary.registry.base:SchemaRegistry",
        "Schema": "distributary.registry.base:Schema",
        "Reference": "distributary.registry.base:Reference",
        "SubjectVersion": "distributary.registry.base:SubjectVersion",
        "subject_name": "distributary.registry.subjects:subject_name",
    },
    "A format of your own": {
        "Codec": "distributary.codecs.base:Codec",
        "RecordReader": "distributary.codecs.base:RecordReader",
        "RecordPath": "distributary.codecs.base:RecordPath",
        "Capabilities": "distributary.codecs.base:Capabilities",
        "Growing": "distributary.codecs.base:Growing",
        "GrowingReader": "distributary.codecs.base:GrowingReader",
        "Decoded": "distributary.codecs.base:Decoded",
        "Failure": "distributary.codecs.base:Failure",
        "Frames": "distributary.codecs.wire.header:Frames",
        "split_headers": "distributary.codecs.wire.header:split",
        "decode_each": "distributary.codecs.broken_payloads:decode_each",
        "Undecodable": "distributary.codecs.broken_payloads:Undecodable",
        "reasons": "distributary.codecs.reasons",
    },
    "Simulation and proof": {
        "LocalStack": "distributary.producer_sim.stack.local:LocalStack",
        "Simulation": "distributary.producer_sim.traffic.simulation:Simulation",
        "simulate": "distributary.producer_sim.sending.simulate:simulate",
        "Truth": "distributary.producer_sim.truth.sent:Truth",
        "save_truth": "distributary.producer_sim.truth.sent:save",
        "load_truth": "distributary.producer_sim.truth.sent:load",
        "verify": "distributary.producer_sim.verify.comparison:verify",
        "Verdict": "distributary.producer_sim.verify.verdict:Verdict",
        "Difference": "distributary.producer_sim.verify.verdict:Difference",
        "TableCount": "distributary.producer_sim.verify.verdict:TableCount",
    },
}

PLACES: Mapping[str, str] = {name: place for names in PUBLIC.values() for name, place in names.items()}


def loaded(name: str) -> object:
    """The public thing of this name, which the package keeps from then on. Raises AttributeError."""
    if name not in PLACES:
        raise AttributeError(f"module 'distributary' has no attribute {name!r}")
    module, _, attribute = PLACES[name].partition(":")
    found = import_module(module)
    value = getattr(found, attribute) if attribute else found
    setattr(sys.modules["distributary"], name, value)
    return value


def names() -> list[str]:
    """What completion offers."""
    return [*sorted(PLACES), "__version__"]
