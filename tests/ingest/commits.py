"""Commits of files to tables, without a batch around them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.storage.opening import At, files_at
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.spark_commit import commit_by_writer
from distributary.ingest.tables.transaction import TableCommit, Transaction


def table_commit(path: At, files: Sequence[DataFile], schema: pa.Schema, *transaction: Any) -> TableCommit:
    """One table's part of a batch; the transaction is an application's id, its version, what the commit says, and the batch before."""
    app_id, batch_id, *rest = transaction
    metadata: Mapping[str, str] = rest[0] if rest else {}
    before: int | None = rest[1] if len(rest) > 1 else None
    place = files_at(path)
    name = place.url.rpartition("/")[2]
    return TableCommit(
        name, place, files, schema, Transaction(app_id, batch_id, metadata, before), native=True
    )


def by_log(commits: NativeCommits, *part: Any) -> bool:
    """Whether a commit by an entry in the log was new; `part` is as for `table_commit`."""
    return commits.commit(table_commit(*part))


def by_writer(spark: SparkSession, *part: Any) -> bool:
    """Whether a commit by Spark's writer was new; `part` is as for `table_commit`."""
    return commit_by_writer(spark, replace(table_commit(*part), native=False))
