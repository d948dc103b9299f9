"""One micro-batch from Kafka's records to commits in all its tables: what `foreachBatch` calls."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyspark.sql import DataFrame

from distributary.ingest import failpoints
from distributary.ingest.batch.attempt import Attempts, Decided
from distributary.ingest.batch.decide import Before
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.batch.rewrite import Rewriter
from distributary.ingest.batch.sweep import sweep_batch
from distributary.ingest.checkpoint.against_spark import check_manifest
from distributary.ingest.checkpoint.manifest import Manifest
from distributary.ingest.tables.change import PlannedChange


@dataclass(frozen=True, slots=True)
class Done:
    """A finished batch. `resumed`: an earlier attempt had decided it. `changes` are those of tables known before."""

    manifest: Manifest
    seconds: float
    resumed: bool
    changes: Sequence[PlannedChange] = ()


@dataclass
class BatchRunner:
    """Brings the batches of one query to their end."""

    attempts: Attempts
    finisher: Finisher
    rewriter: Rewriter
    on_start: Callable[[int], None]
    on_done: Callable[[Done], None]
    _last: Manifest | None = field(default=None, init=False)

    def __call__(self, records: DataFrame, batch_id: int) -> None:
        """Bring a batch to its end, from the beginning or from where an earlier attempt left it."""
        self.on_start(batch_id)
        began, run = time.monotonic(), self.attempts.run
        run.workers.prepare(records.sparkSession)
        manifest = run.manifests.read(batch_id)
        resumed = manifest is not None
        if manifest is None:
            batch = self.attempts.decided(records, batch_id, self._last or run.manifests.last())
        else:
            batch = self._restored(manifest, records)
        self._last = batch.manifest
        self.finisher.finish(batch.manifest, records)
        if batch.retried or batch.manifest.pins.decisions["guarded"]:
            # Whoever died on the way may have left files that the manifest does not name.
            sweep_batch(run.root, run.generation.id, batch_id, batch.manifest.file_names())
        failpoints.reach(failpoints.BEFORE_SPARK_COMMIT, batch_id)
        self.on_done(Done(batch.manifest, time.monotonic() - began, resumed, batch.planned))

    def _restored(self, manifest: Manifest, records: DataFrame) -> Decided:
        """A batch that an earlier attempt decided, its files there."""
        run = self.attempts.run
        check_manifest(run.checkpoint, run.generation, manifest)
        pins = self.attempts.first_pins(manifest.batch_id, Before({}, {}, {}))
        return Decided(self.rewriter.restored(manifest, records, pins), planned=(), retried=True)
