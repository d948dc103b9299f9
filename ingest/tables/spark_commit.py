"""Appending files to a Delta table through Spark's DataFrame writer, for tables that delta-rs must not append to.

The writer checks and fills what delta-rs does not (constraints, generated columns, partitions, column mapping, row
tracking) and writes files of its own. Ours were copies: they go when the commit is in.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path as FilePath
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from distributary.errors import SumsDisagree
from distributary.ingest.columns.differences import differences, only_wider
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.tables import by_spark as spark_tables
from distributary.ingest.tables.log_commit import impossible, require_file
from distributary.ingest.tables.rows import rows_for_table
from distributary.ingest.tables.state import Path, read_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

# Error classes that the same rows meet again however often they are written.
_LASTING = re.compile(
    r"DELTA_VIOLATE_CONSTRAINT\w*|DELTA_NOT_NULL_CONSTRAINT\w*|DELTA_MISSING_NOT_NULL\w*|DELTA_GENERATED_COLUMN\w*"
    r"|DELTA_IDENTITY_COLUMNS_\w*|DELTA_FAILED_TO_MERGE_FIELDS\w*|DELTA_EXCEED_CHAR_VARCHAR_LIMIT|EXCEED_LIMIT_LENGTH|CAST_OVERFLOW\w*|CAST_INVALID_INPUT"
)


def commit_by_writer(  # noqa: PLR0913, PLR0917 - one value each of what a commit is, and the session
    spark: SparkSession,
    path: Path,
    files: Sequence[DataFile],
    schema: pa.Schema,
    app_id: str,
    batch_id: int,
    metadata: Mapping[str, str],
) -> bool:
    """Writes the files' rows to the table under the transaction (app_id, batch_id); False when it was in already.

    `schema` is that of the files, which are removed once the rows are in. Raises CommitImpossible where repeating can
    never help, and SumsDisagree where the table then has other than the files' rows.
    """
    folder = os.fspath(path)
    before = _snapshot(spark, folder, batch_id)
    new = not _is_in(before, app_id, batch_id)
    if new:
        rows = _rows(spark, folder, files, schema, batch_id)
        _write(rows, folder, app_id, batch_id, metadata)
        after = spark_tables.snapshot(spark, folder)
        _require_rows(folder, range(before.version() + 1, after.version() + 1), files, app_id, batch_id)
    for file in files:
        FilePath(folder, file.name).unlink(missing_ok=True)
    return new


def _snapshot(spark: SparkSession, folder: str, batch_id: int) -> Any:
    current = spark_tables.snapshot(spark, folder)
    if current.version() < 0:
        raise impossible(folder, batch_id, "there is no Delta table any more")
    return current


def _is_in(snapshot: Any, app_id: str, batch_id: int) -> bool:
    known = spark_tables.transaction_version(snapshot, app_id)
    return known is not None and known >= batch_id


def _rows(
    spark: SparkSession, folder: str, files: Sequence[DataFile], schema: pa.Schema, batch_id: int
) -> DataFrame:
    """The files' rows, each column of the type that the table has for it; the writer fills in the missing ones."""
    for file in files:
        require_file(folder, file, batch_id)
    state = read_state(folder, spark)
    if state is None:
        raise impossible(folder, batch_id, "there is no Delta table any more")
    if found := [str(one) for one in differences(state.layout, schema) if not only_wider(one)]:
        raise impossible(folder, batch_id, "; ".join(found))
    return rows_for_table(spark, state, files, schema)


def _write(rows: DataFrame, folder: str, app_id: str, batch_id: int, metadata: Mapping[str, str]) -> None:
    writer = rows.write.format("delta").mode("append").option("userMetadata", json.dumps(dict(metadata)))
    try:
        writer.option("txnAppId", app_id).option("txnVersion", str(batch_id)).save(folder)
    except Exception as error:
        if lasting := _LASTING.search(str(error)):
            # Delta's message quotes the row.
            raise impossible(folder, batch_id, f"Delta refuses a row ({lasting[0]})") from None
        raise


def _require_rows(
    folder: str, versions: Iterable[int], files: Sequence[DataFile], app_id: str, batch_id: int
) -> None:
    """Compared with what the commit of this transaction says of itself."""
    wanted = sum(file.rows for file in files)
    for version in versions:
        actions = _actions(folder, version)
        if actions.get("txn", {}).get("appId") == app_id and actions["txn"]["version"] == batch_id:
            written = int(actions["commitInfo"]["operationMetrics"]["numOutputRows"])
            if written != wanted:
                raise SumsDisagree(
                    f"table {folder}: version {version} has {written} rows of batch {batch_id}, its files {wanted}; "
                    "compare the two and `RESTORE` the table, then let `distributary resolve` decide"
                )
            return
    raise SumsDisagree(
        f"table {folder}: Spark's writer reported no error, yet batch {batch_id} is not in; run again"
    )


def _actions(folder: str, version: int) -> dict[str, Any]:
    """The last action of each kind in a commit."""
    lines = FilePath(folder, "_delta_log", f"{version:020d}.json").read_text().splitlines()
    return {kind: action for line in lines for kind, action in json.loads(line).items()}
