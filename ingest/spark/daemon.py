"""The process that forks Spark's Python workers, with what they need imported before it forks them.

Spark starts it in place of `pyspark.daemon` where `spark.python.daemon.module` names this module, and it is that
daemon from there on. A worker forked from it has its modules already: its first batch takes a fraction of the time.
"""

from __future__ import annotations

import gc
import zipimport
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module

FOR_WORKERS = (
    "distributary.ingest.worker.demux",
    "distributary.codecs.avro.codec",
    "distributary.codecs.json.codec",
    "distributary.codecs.jsonschema.codec",
    "distributary.codecs.mixed.codec",
    "distributary.codecs.protobuf.codec",
    "ptars",
    "pyarrow.compute",
    "pyarrow.json",
    "pyarrow.parquet",
    "pyspark.sql.pandas.serializers",
)
"""What a pipeline's tasks import. None of it starts a thread or opens a connection when it is imported."""


def preloading() -> dict[str, str]:
    """The Spark settings with which workers are forked from a process that has imported what they need."""
    return {"spark.python.daemon.module": __name__}


def prepare(modules: Iterable[str]) -> None:
    """Import these modules and hold everything there is now out of the workers' garbage collections.

    A module that cannot be imported is left to the task that needs it, whose error then tells of it. Modules that
    start a thread when they are imported must not be named: a fork takes no thread along.
    """
    for module in modules:
        with suppress(ImportError):
            import_module(module)
    # Spark asks for this before every task. The archives on the path do not change while it runs, and reading their
    # directories again takes a tenth of a second.
    zipimport.zipimporter.invalidate_caches = _keep  # type: ignore[method-assign, assignment]
    # Spark collects garbage after every task: without what all workers share there is nearly nothing to look through.
    gc.collect()
    gc.freeze()


def _keep(_: zipimport.zipimporter) -> None:
    """Keep what is known of an archive."""


def main() -> None:
    """Import what a pipeline's tasks do, then fork a worker for whoever asks, until Spark closes standard input."""
    from pyspark.daemon import manager  # noqa: PLC0415 (it imports the kind of worker that the arguments name)

    prepare(FOR_WORKERS)
    manager()  # type: ignore[no-untyped-call]


if __name__ == "__main__":
    main()
