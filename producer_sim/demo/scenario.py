"""The whole thing in one go: games whose schema evolves in the middle of the stream, ingested and proved."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.compute as pc
import yaml
from pyspark.sql import SparkSession

from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.progress import Progress, Summary
from distributary.ingest.settings.model import Settings, load
from distributary.ingest.supervision.outcome import Restart
from distributary.ingest.tables.state import table_folder
from distributary.producer_sim.demo.background_run import BackgroundRun
from distributary.producer_sim.sending.delivery import make_topic
from distributary.producer_sim.sending.simulate import simulate
from distributary.producer_sim.stack.local import LocalStack
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.producer_sim.truth import sent as truth_file
from distributary.producer_sim.truth.sent import Truth
from distributary.producer_sim.verify.comparison import compare
from distributary.producer_sim.verify.lake import Lake
from distributary.producer_sim.verify.verdict import Verdict
from distributary.registry.confluent.registry import ConfluentRegistry

NAME = "demo"
"""The pipeline's, by which its settings are known to be a demonstration's."""

TOPIC = "game-events"

# Of a version's records, how many are ingested before the next version is registered: the pipeline then meets the
# evolution in the middle of the stream, and does not know it from its start.
_INGESTED_BEFORE_NEXT = 0.5


@dataclass(frozen=True, slots=True)
class DemoTable:
    """A game's table: its rows, its columns after the first version and at the end, and the schemas of its rows."""

    name: str
    rows: int
    columns_before: int
    columns_after: int
    schema_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Demonstration:
    """What came of it. `seconds` is from the first record sent to the last one committed."""

    tables: tuple[DemoTable, ...]
    restarts: tuple[Restart, ...]
    summary: Summary
    seconds: float
    quarantine: dict[str, int]
    verdict: Verdict


@dataclass(frozen=True, kw_only=True, slots=True)
class Demo:
    """How large it is, and where its tables go.

    events  all records, spread evenly over the versions
    s3      whether tables go to the stack's store, and not to a folder
    """

    folder: Path
    games: int = 10
    versions: int = 3
    events: int = 300_000
    corrupt: float = 0.0001
    batch_rows: int = 25_000
    s3: bool = False


def demonstrate(demo: Demo, stack: LocalStack, spark: SparkSession, progress: Progress) -> Demonstration:
    """Simulate, ingest and verify on a running stack. Raises whatever the pipeline stops with."""
    settings = load(write_settings(demo, stack))
    simulation = _simulation(demo, stack)
    make_topic(simulation)
    with (
        ConfluentRegistry(settings.registry) as registry,
        BackgroundRun(settings, spark, progress, simulation.total) as running,
    ):
        running.wait_until_started()
        began = time.monotonic()
        truth, before = _send(simulation, registry, running)
        seconds = time.monotonic() - began
    truth_file.save(truth, demo.folder / "truth.json")
    verdict = compare(Lake.of(settings), truth)
    tables = (
        DemoTable(table.name, table.rows, before.get(table.name, 0), table.columns, table.schema_ids)
        for table in verdict.tables
    )
    outcome = running.outcome()
    return Demonstration(
        tuple(tables), outcome.restarts, outcome.summary, seconds, _quarantine(settings), verdict
    )


def write_settings(demo: Demo, stack: LocalStack) -> Path:
    """The demonstration's pipeline as a settings file that a user can run, change and keep."""
    settings: dict[str, Any] = {
        "name": NAME,
        "source": {"kafka": {"bootstrap.servers": stack.bootstrap_servers}, "topics": [TOPIC]},
        "registry": {"url": stack.registry_url},
        "decode": {"format": "protobuf", "evolution": "restart"},
        "route": {"field": "game_name", "table": "silver_{entity}_events"},
        "sink": {"root": "./lake"},
        "trigger": {"interval_seconds": 1},
        "limits": {"batch_rows": demo.batch_rows},
    }
    if demo.s3:
        settings["decode"]["schema_location"] = f"{stack.s3.url}/schemas"
        settings |= {"sink": {"root": f"{stack.s3.url}/games"}, "storage": stack.s3.storage()}
    path = demo.folder / "games.yaml"
    path.write_text(yaml.safe_dump(settings, sort_keys=False))
    return path


def _simulation(demo: Demo, stack: LocalStack) -> Simulation:
    return Simulation.of(
        bootstrap_servers=stack.bootstrap_servers,
        topic=TOPIC,
        games=demo.games,
        events=demo.events // demo.versions,
        versions=demo.versions,
        corrupt=demo.corrupt,
    )


def _send(
    whole: Simulation, registry: ConfluentRegistry, running: BackgroundRun
) -> tuple[Truth, dict[str, int]]:
    """Send one version after the other; the truth about all, and each table's columns after the first version."""
    truths: list[Truth] = []
    before: dict[str, int] = {}
    for version in range(1, whole.last_version + 1):
        ingested = sum(truth.records for truth in truths)
        truths.append(simulate(whole.only(version), registry))
        enough = 1.0 if version == whole.last_version else _INGESTED_BEFORE_NEXT
        running.wait_for(ingested + int(truths[-1].records * enough))
        if version == 1:
            before = _column_counts(running.settings)
    return _together(truths), before


def _together(truths: list[Truth]) -> Truth:
    whole = truths[0]
    for truth in truths[1:]:
        whole = whole.merged(truth)
    return whole


def _column_counts(settings: Settings) -> dict[str, int]:
    lake = Lake.of(settings)
    tables = ((name, lake.open(name)) for name in lake.entity_tables())
    return {name: len(table.schema().fields) for name, table in tables if table is not None}


def _quarantine(settings: Settings) -> dict[str, int]:
    """Records in quarantine, by reason."""
    table = Lake.of(settings).open(QUARANTINE_TABLE)
    if table is None:
        return {}
    reasons = table.to_pyarrow_table(columns=["reason"], filesystem=table_folder(table))["reason"]
    return {entry["values"]: entry["counts"] for entry in pc.value_counts(reasons).to_pylist()}
