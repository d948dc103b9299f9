"""Folders of this machine for the files that Spark keeps of a query. A query that begins anew gets another one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from distributary.files import temporary_folder
from distributary.ingest.checkpoint.spark_files import SparkFiles


@contextmanager
def scratch_folder() -> Iterator[SparkFiles]:
    """A folder for one query's files, which goes with it; what killed processes left beside it goes first."""
    with temporary_folder("distributary-query-") as folder:
        spark = SparkFiles(folder)
        # Hadoop would start a process for each that it makes, to say who may look into it.
        for place in (spark.offsets(0).parent, spark.commits, spark.initial_offsets.parent):
            place.mkdir(parents=True)
        yield spark
