"""Appending files to a Delta table through Spark's DataFrame writer, for tables that delta-rs must not append to.

The writer checks and fills what delta-rs does not (constraints, generated columns, partitions, column mapping, row
tracking) and writes files of its own. Ours were copies: they go when the commit is in.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from distributary.errors import SumsDisagree
from distributary.ingest.columns.differences import differences, only_wider
from distributary.ingest.log_paths import entry_path
from distributary.ingest.spark.error_classes import refused_row
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables import state_by_spark as spark_tables
from distributary.ingest.tables.log import entry, version_of, write_again
from distributary.ingest.tables.rows import rows_for_table
from distributary.ingest.tables.state import read_state
from distributary.ingest.tables.transaction import TableCommit

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def commit_by_writer(spark: SparkSession, one: TableCommit) -> bool:
    """Writes the files' rows to the table under the transaction (app_id, batch_id); False when it was in already.

    The files are removed once the rows are in. Raises CommitImpossible where repeating can never help, and SumsDisagree
    where the table then has other than the files' rows; TableAhead where another log has filled the table.
    """
    before = _snapshot(spark, one)
    newest, version = spark_tables.transaction_version(before, one.app_id), before.version()
    new = not (one.is_in(newest, version) or one.is_forgotten(spark_tables.properties(before), version))
    if new:
        _write(_rows(spark, one), one)
        after = spark_tables.snapshot(spark, one.place)
        _require_rows(one, range(before.version() + 1, after.version() + 1))
    if not (new or one.native or one.place.remote):
        # A sync of it may have failed, of which nobody is told who asks once more.
        write_again(one.place, _written(one, version))
    if new or not one.native:
        # The writer syncs nothing.
        one.place.sync_folders([""])
        # Of one decided otherwise that is in already nobody knows by which way: its files may be the table's.
        one.place.delete(file.name for file in one.files)
    return new


def _written(one: TableCommit, newest: int) -> list[str]:
    """The entry of this transaction, and the files that came with it; nothing where the log does not tell of it any more."""
    version, _ = version_of(one.place, newest, one.app_id, one.batch_id)
    if version is None:
        return []
    added = [unquote(action["add"]["path"]) for action in entry(one.place, version) if "add" in action]
    # Those that others made into one since are not needed.
    there = [name for name in added if one.place.info(name) is not None]
    return [*there, entry_path(version)]


def _snapshot(spark: SparkSession, one: TableCommit) -> Any:
    current = spark_tables.snapshot(spark, one.place)
    if current.version() < 0:
        raise one.impossible("there is no Delta table any more")
    return current


def _rows(spark: SparkSession, one: TableCommit) -> DataFrame:
    """The files' rows, each column of the type that the table has for it; the writer fills in the missing ones."""
    for file in one.files:
        one.require_file(file)
    state = read_state(one.place, spark)
    if state is None:
        raise one.impossible("there is no Delta table any more")
    unfit = [
        str(difference) for difference in differences(state.layout, one.schema) if not only_wider(difference)
    ]
    if unfit:
        raise one.impossible("; ".join(unfit))
    return rows_for_table(spark, state, one.files, one.schema)


def _write(rows: DataFrame, one: TableCommit) -> None:
    for calendar in spark_tables.CALENDARS:
        rows.sparkSession.conf.set(calendar, spark_tables.TODAYS)
    writer = rows.write.format("delta").mode("append").option("userMetadata", json.dumps(dict(one.metadata)))
    try:
        writer.option("txnAppId", one.app_id).option("txnVersion", str(one.batch_id)).save(
            spark_tables.path_for_spark(one.place)
        )
    except Exception as error:
        if why := refused_row(error):
            # Delta's message quotes the row.
            raise one.impossible(f"Delta refuses a row ({why})") from None
        raise


def _require_rows(one: TableCommit, versions: Iterable[int]) -> None:
    """Compared with what the commit of this transaction says of itself."""
    wanted = sum(file.rows for file in one.files)
    for version in versions:
        actions = _actions(one.place, version)
        if actions.get("txn", {}).get("appId") == one.app_id and actions["txn"]["version"] == one.batch_id:
            written = int(actions["commitInfo"]["operationMetrics"]["numOutputRows"])
            if written != wanted:
                raise SumsDisagree(
                    f"table {one.place}: version {version} has {written} rows of batch {one.batch_id}, its files {wanted}; "
                    "compare the two and `RESTORE` the table, then let `distributary resolve` decide"
                )
            return
    raise SumsDisagree(
        f"table {one.place}: Spark's writer reported no error, yet batch {one.batch_id} is not in; run again"
    )


def _actions(table: Files, version: int) -> dict[str, Any]:
    """The last action of each kind in a commit."""
    return {kind: action for line in entry(table, version) for kind, action in line.items()}
