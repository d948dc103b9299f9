"""A small pipeline of a test's own on the real broker and registry: send, run here or in another process, prove."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
from confluent_kafka import Producer
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.ingest.e2e.settings_file import SettingsFile
from tests.ingest.storage.stores import Store
from typing_extensions import Self

from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.manifests import ManifestStore
from distributary.ingest.columns.safe_names import table_name
from distributary.ingest.failpoints import VARIABLE
from distributary.ingest.parquet.data_file import owner
from distributary.ingest.progress import Progress
from distributary.ingest.run import run
from distributary.ingest.schemas.inferred_per_entity import schema_place
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.place import Place
from distributary.ingest.supervision.outcome import Outcome
from distributary.ingest.tables.handle import is_there, opened
from distributary.ingest.tables.log import has_log
from distributary.producer_sim.demo.background_run import BackgroundRun
from distributary.producer_sim.events.routes import Routed
from distributary.producer_sim.sending.simulate import simulate
from distributary.producer_sim.stack.local import LocalStack
from distributary.producer_sim.traffic.events import game_names
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.producer_sim.truth.sent import Truth
from distributary.producer_sim.verify.comparison import Beside, compare, needs_spark
from distributary.producer_sim.verify.lake import Lake
from distributary.producer_sim.verify.topic_check import topics_now
from distributary.producer_sim.verify.verdict import Verdict
from distributary.registry.base import SchemaType
from distributary.registry.confluent.options import RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry

# Far longer than any of these runs takes: a run that hangs fails instead.
PATIENCE_SECONDS = 240.0

_AZURE_KEY = "AZURE_TESTS_KEY"
_GOOGLE_KEY = "KEY_OF_STAND_IN"


class PipelineKit:
    """One pipeline with a topic, a lake and a checkpoint of its own.

    `configured` changes settings, `simulate` sends events and remembers the truth about them, `run` ingests what is
    there, `verify` compares.
    """

    def __init__(self, folder: Path, topic: str, stack: LocalStack, spark: SparkSession) -> None:
        self.folder, self.topic, self.spark, self._stack = folder, topic, spark, stack
        self.bootstrap_servers = stack.bootstrap_servers
        self.registry_options = RegistryOptions(url=stack.registry_url)
        self.truth = Truth(topic)
        self._producers: dict[str, Producer] = {}
        self._waits_for_each = True
        self._file = SettingsFile(folder / "games.yaml")
        self._document: dict[str, Any] = {
            "name": "games",
            "source": {"kafka": {"bootstrap.servers": stack.bootstrap_servers}, "topics": [topic]},
            "registry": {"url": stack.registry_url, "unknown_id_wait_seconds": 0.1},
            "route": {"field": "game_name", "table": "silver_{entity}_events"},
            "sink": {"root": "./lake"},
            "trigger": {"available_now": True, "interval_seconds": 0},
            "supervisor": {"failures": {"max": 0}},
            "spark": {"master": "local[2]"},
        }

    def beside(self, topic: str) -> Self:
        """Another pipeline of the same folder, so that its tables lie under the same root."""
        where = {name: self._document[name] for name in ("sink", "storage") if name in self._document}
        return type(self)(self.folder, topic, self._stack, self.spark).configured(**where)

    # Settings

    def configured(self, **changed: Any) -> Self:
        """Lay settings over those there are, group by group: `configured(decode={"evolution": "inline"})`."""
        self._document = _laid_over(self._document, changed)
        return self

    @property
    def settings_file(self) -> Path:
        """The settings as a file that the command line takes, written now."""
        return self._file.written(self._document)

    @property
    def settings(self) -> Settings:
        """The settings as they are now."""
        return self._file.read(self._document)

    def in_store(self, store: Store, *, checkpoint: bool = True) -> Self:
        """The pipeline with its tables, the schemas that it infers and its checkpoint in a place of a store that nobody else has.

        Without `checkpoint` that one is in a folder.
        """
        place = f"{store.url}/{uuid.uuid4().hex}"
        self._document.pop("checkpoint", None)
        return self.configured(
            **({"checkpoint": f"{place}/checkpoint"} if checkpoint else {}),
            decode={"schema_location": f"{place}/schemas"},
            sink={"root": f"{place}/lake"},
            storage=_storage(store),
        )

    # Sending

    def simulate(self, version: int = 1, events: int = 300, games: int = 3, **more: Any) -> Truth:
        """Send events of a version (registered just before) and add them to the truth; returns what was added."""
        simulation = self.simulation(version, events, games, **more)
        with ConfluentRegistry(self.registry_options) as registry:
            added = simulate(simulation, registry)
        self.truth = self.truth.merged(added)
        return added

    def simulation(self, version: int = 1, events: int = 300, games: int = 3, **more: Any) -> Simulation:
        """What sends events of a version to the topic."""
        route = Routed.of(self.settings.route)
        chosen = {"route": route, "gamers": 100, "seed": len(self.truth.runs), "versions": version, **more}
        return Simulation.of(
            bootstrap_servers=self.bootstrap_servers,
            topic=self.topic,
            games=games,
            events=events,
            first_version=version,
            **chosen,
        )

    def register(self, text: str, schema_type: SchemaType = "PROTOBUF") -> int:
        """The id of a schema registered under the topic's subject."""
        with ConfluentRegistry(self.registry_options) as registry:
            return registry.register(f"{self.topic}-value", text, schema_type)

    def send(
        self,
        values: Iterable[bytes | None],
        key: bytes = b"gamer",
        partition: int = 0,
        headers: Mapping[str, bytes] | None = None,
    ) -> None:
        """Send these very bytes; no truth knows of them."""
        producer = self._producer()
        for value in values:
            producer.produce(
                self.topic, value=value, key=key, partition=partition, headers=dict(headers or {})
            )
        if self._waits_for_each:
            assert producer.flush(60) == 0

    @contextmanager
    def together(self) -> Iterator[None]:
        """Inside, records are sent one behind the other, and all of them are waited for at its end."""
        producer, self._waits_for_each = self._producer(), False
        try:
            yield
            assert producer.flush(60) == 0
        finally:
            self._waits_for_each = True

    def _producer(self) -> Producer:
        """One for all that the kit sends: to connect takes far longer than to send a record."""
        servers = self.bootstrap_servers
        if servers not in self._producers:
            options = {"acks": "all", "linger.ms": 0, "reconnect.backoff.max.ms": 100, "log_level": 0}
            self._producers[servers] = Producer({"bootstrap.servers": servers, **options})
        if self._waits_for_each:
            # What it knows of the topic may be older than its partitions.
            self._producers[servers].list_topics(self.topic, timeout=60)
        return self._producers[servers]

    # Running

    def run(self, progress: Progress | None = None) -> Outcome:
        """Ingest what is there now, in this process. Raises what the run stops with."""
        return run(self.settings, progress, spark=self.spark)

    def running(self, progress: Progress | None = None) -> BackgroundRun:
        """The pipeline in the background until the `with` block ends, not only for what is there now."""
        self.configured(trigger={"available_now": False})
        return BackgroundRun(self.settings, self.spark, progress)

    def run_apart(self, failpoints: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
        """Ingest what is there now by the command line, in a process and a JVM of its own, with these variables in its environment."""
        return subprocess.run(
            self.command("--available-now", "--json"),
            env={**self.environment(failpoints), **variables},
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=PATIENCE_SECONDS,
            check=False,
        )

    def command(self, *options: str) -> list[str]:
        """`distributary run` with the settings as they are now."""
        return [sys.executable, "-m", "distributary", "run", str(self.settings_file), *options]

    def environment(self, failpoints: str = "") -> dict[str, str]:
        """The environment of a run that reaches these failpoints, its temporary files where a URL would be quoted."""
        temporary = self.folder / "temporary 100%25"
        temporary.mkdir(exist_ok=True)
        return {**os.environ, VARIABLE: failpoints, "TMPDIR": str(temporary)}

    # What came of it

    @property
    def root(self) -> Path:
        """Where the tables are, of a pipeline whose tables are in a folder."""
        return self.settings.sink.root.path

    @property
    def schemas(self) -> Files:
        """The versions of an inferred schema."""
        settings = self.settings
        return open_files(schema_place(settings.name, settings.decode), settings.storage)

    @property
    def checkpoint(self) -> Checkpoint:
        """The checkpoint."""
        return Checkpoint(open_files(self.settings.checkpoint, self.settings.storage))

    @property
    def checkpoint_folder(self) -> Path:
        """Where the checkpoint is, of a pipeline whose checkpoint is in a folder."""
        return self.settings.checkpoint.path

    @property
    def manifests(self) -> ManifestStore:
        """The checkpoint's manifests."""
        return ManifestStore(self.checkpoint)

    @property
    def lake(self) -> Lake:
        """The tables, seen from outside."""
        return Lake.of(self.settings)

    @property
    def _tables(self) -> Files:
        """Where they are, without a look at whose they are."""
        return open_files(self.settings.sink.root, self.settings.storage)

    def folder_of(self, game: int | str) -> str:
        """The folder of a game's table, by its name or by its number in the simulation."""
        entity = game_names(game + 1)[game] if isinstance(game, int) else game
        route = self.settings.route
        return table_name(route.table, entity, route.fold_case)

    def delta(self, table: str) -> DeltaTable:
        """A table by its folder's name."""
        return opened(self._tables.below(table))

    def rows(self, table: str) -> pa.Table:
        """All rows of a table by its folder's name; none where it is not there."""
        there = is_there(self._tables.below(table))
        return self.delta(table).to_pyarrow_table() if there else pa.table({})

    def versions(self) -> dict[str, int]:
        """The version of every table, by folder."""
        root = self._tables
        folders = [folder for folder in root.folders() if has_log(root.below(folder))]
        return {folder: self.delta(folder).version() for folder in folders}

    def verify(self) -> Verdict:
        """The tables against everything simulated so far."""
        return compare(self.lake, self.truth)

    def assert_clean(self) -> Verdict:
        """Nothing lost, nothing twice, every value right, the ledger's sums agree, and so do the log and the topics.

        By the truth and by all that `distributary verify` has in its place, held against the tables at once: they are read once.
        """
        settings = self.settings
        asks_java = needs_spark(settings, None, offline=False)
        beside = Beside(self.checkpoint, topics_now(settings, self.spark if asks_java else None))
        verdict = compare(self.lake, self.truth, beside=beside)
        assert not verdict.differences, "\n".join(map(str, verdict.differences))
        return verdict

    def unnamed_files(self) -> set[str]:
        """Data files of ours, as folder/name, that no table's log names."""
        root = self._tables
        there = {info.path for folder in root.folders() for info in root.list(folder) if owner(info.name)}
        return there - set(self._named_files(root))

    @staticmethod
    def _named_files(root: Files) -> Iterator[str]:
        for folder in root.folders():
            for log in root.list(f"{folder}/_delta_log"):
                if not log.name.endswith(".json"):
                    continue
                entries = map(json.loads, root.read(log.path).splitlines())
                yield from (f"{folder}/{entry['add']['path']}" for entry in entries if "add" in entry)


def _laid_over(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    both = dict(below)
    for name, value in above.items():
        before = both.get(name)
        nested = isinstance(value, Mapping) and isinstance(before, Mapping)
        both[name] = _laid_over(before, value) if nested and isinstance(before, Mapping) else value
    return both


def _storage(store: Store) -> dict[str, Any]:
    """How the store is reached, as a user writes it: keys by the environment alone."""
    options, kind = store.options_by(store.port), Place.parse(store.url).kind
    if kind == "s3":
        login = {"access_key_id": "anybody", "secret_access_key": "${S3_SECRET:-anything}"}
        return {"s3": {"endpoint": options.s3.endpoint, "region": options.s3.region, "login": login}}
    if kind == "azure":
        account = options.azure
        os.environ[_AZURE_KEY] = account.account_key or ""
        told = {"account": account.account, "endpoint": account.endpoint}
        return {"azure": {**told, "account_key": f"${{{_AZURE_KEY}}}"}}
    if kind == "gcs":
        google = options.gcs
        os.environ[_GOOGLE_KEY] = google.service_account_key or ""
        return {"gcs": {"endpoint": google.endpoint, "service_account_key": f"${{{_GOOGLE_KEY}}}"}}
    return {}
