"""Schema-registry-aware ingestion: one Kafka topic in, one Delta table an entity out, in one pass.

The names below are what a program may rely on; docs/reference/python-api.md describes them. Each is loaded when it is
first used, so that `import distributary` alone needs neither Spark nor Arrow nor a Kafka client.
"""

from typing import TYPE_CHECKING

# The checker and editors read here where a name comes from; what runs asks the table in api.py, which says the same.
if TYPE_CHECKING:
    from distributary import errors
    from distributary.codecs import reasons
    from distributary.codecs.base import (
        Capabilities,
        Codec,
        Decoded,
        Failure,
        Growing,
        GrowingReader,
        RecordPath,
        RecordReader,
    )
    from distributary.codecs.broken_payloads import Undecodable, decode_each
    from distributary.codecs.wire.header import Frames
    from distributary.codecs.wire.header import split as split_headers
    from distributary.ingest.evolution.offered import Offer
    from distributary.ingest.evolution.planner import Step
    from distributary.ingest.evolution.verdicts import TableVerdict
    from distributary.ingest.evolution.watched import WatchedSubject
    from distributary.ingest.infer import Inference, Inferred, infer
    from distributary.ingest.lineage.flow import Flow, FlowColumn, FlowEdge, FlowNode
    from distributary.ingest.lineage.seen import flow
    from distributary.ingest.plan import Plan, plan
    from distributary.ingest.progress import Progress, Summary
    from distributary.ingest.quarantine.chosen import Chosen
    from distributary.ingest.rebuild.silver import Replayed, replay
    from distributary.ingest.replay.deciding import Became
    from distributary.ingest.resolve import StuckTable, resolve, stuck_tables
    from distributary.ingest.run import run
    from distributary.ingest.settings.model import Settings
    from distributary.ingest.spark.session import spark_session
    from distributary.ingest.supervision.outcome import Outcome, Restart
    from distributary.ingest.table_versions import TableVersion, Versions, versions_at
    from distributary.producer_sim.sending.simulate import simulate
    from distributary.producer_sim.stack.local import LocalStack
    from distributary.producer_sim.traffic.simulation import Simulation
    from distributary.producer_sim.truth.sent import Truth
    from distributary.producer_sim.truth.sent import load as load_truth
    from distributary.producer_sim.truth.sent import save as save_truth
    from distributary.producer_sim.verify.comparison import verify
    from distributary.producer_sim.verify.verdict import Difference, TableCount, Verdict
    from distributary.registry.base import Reference, Schema, SchemaRegistry, SubjectVersion
    from distributary.registry.confluent.options import RegistryOptions
    from distributary.registry.confluent.registry import ConfluentRegistry
    from distributary.registry.disk.cache import DiskCache, Notice
    from distributary.registry.memory import MemoryRegistry
    from distributary.registry.subjects import subject_name
else:
    from distributary.api import loaded as __getattr__  # noqa: F401 the interpreter asks for it
    from distributary.api import names as __dir__  # noqa: F401 so does completion

__version__ = "0.1.0"

__all__ = [
    "Became",
    "Capabilities",
    "Chosen",
    "Codec",
    "ConfluentRegistry",
    "Decoded",
    "Difference",
    "DiskCache",
    "Failure",
    "Flow",
    "FlowColumn",
    "FlowEdge",
    "FlowNode",
    "Frames",
    "Growing",
    "GrowingReader",
    "Inference",
    "Inferred",
    "LocalStack",
    "MemoryRegistry",
    "Notice",
    "Offer",
    "Outcome",
    "Plan",
    "Progress",
    "RecordPath",
    "RecordReader",
    "Reference",
    "RegistryOptions",
    "Replayed",
    "Restart",
    "Schema",
    "SchemaRegistry",
    "Settings",
    "Simulation",
    "Step",
    "StuckTable",
    "SubjectVersion",
    "Summary",
    "TableCount",
    "TableVerdict",
    "TableVersion",
    "Truth",
    "Undecodable",
    "Verdict",
    "Versions",
    "WatchedSubject",
    "__version__",
    "decode_each",
    "errors",
    "flow",
    "infer",
    "load_truth",
    "plan",
    "reasons",
    "replay",
    "resolve",
    "run",
    "save_truth",
    "simulate",
    "spark_session",
    "split_headers",
    "stuck_tables",
    "subject_name",
    "verify",
    "versions_at",
]
