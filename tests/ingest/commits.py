"""Commits of files to tables, without a batch around them."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.spark_commit import commit_by_writer
from distributary.ingest.tables.transaction import TableCommit

Path = str | os.PathLike[str]


def table_commit(path: Path, files: Sequence[DataFile], schema: pa.Schema, *transaction: Any) -> TableCommit:
    """One table's part of a batch; the transaction is an application's id, its version, and what the commit says."""
    app_id, batch_id, *rest = transaction
    metadata: Mapping[str, str] = rest[0] if rest else {}
    folder = os.fspath(path)
    name = os.path.basename(folder)
    return TableCommit(name, folder, files, schema, app_id, batch_id, metadata, native=True)


def by_log(commits: NativeCommits, *part: Any) -> bool:
    """Whether a commit by an entry in the log was new; `part` is as for `table_commit`."""
    return commits.commit(table_commit(*part))


def by_writer(spark: SparkSession, *part: Any) -> bool:
    """Whether a commit by Spark's writer was new; `part` is as for `table_commit`."""
    return commit_by_writer(spark, table_commit(*part))
