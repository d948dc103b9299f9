from __future__ import annotations

import errno
import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.ingest.commits import by_log, by_writer
from tests.spark_3_5 import require_generated_columns

from distributary.errors import CommitImpossible, SumsDisagree, TableAhead
from distributary.ingest.columns.layout import Layout
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.parquet.statistics import statistics
from distributary.ingest.spark.versions import installed_spark
from distributary.ingest.storage.opening import files_at
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.tables import spark_commit as writer_commit
from distributary.ingest.tables.change import evolve
from distributary.ingest.tables.commit import commit_tables
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.rows import offenders
from distributary.ingest.tables.state import read_state
from distributary.ingest.tables.state_by_spark import widen_columns
from distributary.ingest.tables.transaction import GENERATION, OFFSETS, TableCommit, Transaction

pytestmark = pytest.mark.spark

SCHEMA = pa.schema(
    [
        ("kafka_topic", pa.string()),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
        ("a", pa.int64()),
        ("b", pa.string()),
    ]
)
COLUMNS = "kafka_topic string, kafka_partition int, kafka_offset bigint, a bigint, b string"
# What makes each table unfit for delta-rs: its DDL, and a word of the reason given.
KINDS = {
    "mapping": (
        f"({COLUMNS}) USING delta TBLPROPERTIES ('delta.columnMapping.mode'='name')",
        "column mapping",
    ),
    "partitioned": (
        f"({COLUMNS}, n double) USING delta PARTITIONED BY (n)",
        "partitioned by n, which is double",
    ),
    "not_null": (
        f"({COLUMNS}, n string) USING delta".replace("a bigint", "a bigint NOT NULL"),
        "NOT NULL in column a",
    ),
    "generated": (f"({COLUMNS}, g bigint GENERATED ALWAYS AS (a * 2)) USING delta", "generated column g"),
    "tracking": (f"({COLUMNS}) USING delta TBLPROPERTIES ('delta.enableRowTracking'='true')", "rowTracking"),
    "widening": (
        f"({COLUMNS}) USING delta TBLPROPERTIES ('delta.enableTypeWidening'='true')",
        "typeWidening",
    ),
    "identity": (f"({COLUMNS}, i bigint GENERATED ALWAYS AS IDENTITY) USING delta", "identity column i"),
    "varchar": (f"({COLUMNS}) USING delta".replace("b string", "b varchar(3)"), "varchar(3)"),
}


def table(spark: SparkSession, path: Path, ddl: str) -> Path:
    require_generated_columns(ddl)
    head, _, tail = ddl.partition(" USING delta")
    spark.sql(f"CREATE TABLE delta.`{path}` {head} USING delta {tail}")
    return path


def row(offset: int, a: int | None, b: str | None = "x", **more: Any) -> dict[str, Any]:
    return {"kafka_topic": "t", "kafka_partition": 0, "kafka_offset": offset, "a": a, "b": b, **more}


def written(path: Path, rows: Sequence[dict[str, Any]], schema: pa.Schema = SCHEMA) -> DataFile:
    name = file_name("0" * 32, 0)
    pq.write_table(pa.Table.from_pylist(list(rows), schema), path / name)
    text = statistics(pq.read_metadata(path / name), Layout(schema))
    return DataFile(path.name, name, len(rows), (path / name).stat().st_size, text)


def content(spark: SparkSession, path: Path, columns: str = "kafka_offset, a, b") -> list[tuple[Any, ...]]:
    frame = spark.sql(f"SELECT {columns} FROM delta.`{path}` ORDER BY kafka_offset")  # noqa: S608
    return [tuple(found) for found in frame.collect()]


# The others go the same way through Spark; what NOT NULL and varchar refuse is tested below.
USUAL = {"mapping", "generated"}


# Lighter: test_tables_of_both_ways_are_committed_together commits by Spark.
@pytest.mark.heavy
@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=() if kind in USUAL else pytest.mark.heavy) for kind in KINDS]
)
def test_a_table_unfit_for_delta_rs_is_evolved_and_filled_once(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    ddl, reason = KINDS[kind]
    # Spark's readers of files would take it for a pattern.
    (tmp_path / "of [prod] {a,b}").mkdir()
    path = table(spark, tmp_path / "of [prod] {a,b}" / "t", ddl)
    state = read_state(path, spark)
    assert state is not None
    assert not state.native and reason in state.why_not
    new = pa.field("new", pa.struct([pa.field("q", pa.int64(), metadata={b"distributary.source": b"Q!"})]))
    grown = SCHEMA.append(new)
    assert evolve(path, grown, spark) == ("new",)
    assert evolve(path, grown, spark) == ()
    state = read_state(path, spark)
    assert state is not None
    assert state.layout.field("new").type.field("q").metadata == {b"distributary.source": b"Q!"}

    file = written(path, [row(1, 5, new={"q": 7}), row(2, 6, "y")], grown)
    with pytest.raises(CommitImpossible, match="does not take files as they are"):
        by_log(NativeCommits(), path, [file], grown, "app", 0, {})
    assert offenders(spark, [file], state) == []
    assert by_writer(spark, path, [file], grown, "app", 0, {"distributary.batch_id": "0"})
    assert not (path / file.name).exists()
    assert not by_writer(spark, path, [file], grown, "app", 0, {})
    for batch, other in [(0, {"distributary.offsets": '{"t": {"0": [0, 1]}}'}), (2, {})]:
        with pytest.raises(TableAhead, match="batch 0"):
            by_writer(spark, path, [file], grown, "app", batch, other, -1)
    assert content(spark, path, "kafka_offset, a, b, new.q") == [(1, 5, "x", 7), (2, 6, "y", None)]
    told = spark.sql(f"DESCRIBE HISTORY delta.`{path}`").first()
    assert told is not None and json.loads(told["userMetadata"]) == {"distributary.batch_id": "0"}


def test_generated_columns_that_the_files_carry_as_nulls_are_filled(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = table(spark, tmp_path / "t", KINDS["generated"][0])
    schema = SCHEMA.append(pa.field("g", pa.int64()))
    file = written(path, [row(1, 5, g=None), row(2, 6, g=12)], schema)
    wrong = written(path, [row(3, 7, g=1)], schema)
    state = read_state(path, spark)
    assert state is not None
    assert [found.offset for found in offenders(spark, [file, wrong], state)] == [3]
    assert by_writer(spark, path, [file], schema, "app", 0, {})
    assert content(spark, path, "a, g") == [(5, 10), (6, 12)]


STRICT = f"({COLUMNS}) USING delta".replace("a bigint", "a bigint NOT NULL")


# A NULL in a CHECK is among them: what Delta does with it is asked, not assumed.
NUMBERS = (row(0, 1), row(1, -1), row(2, None))
TEXTS = (row(3, 5, "long one"), row(4, 5, None), row(5, 5, "ab   "))


@pytest.mark.parametrize(
    ("ddl", "check", "rows"),
    [
        pytest.param(f"({COLUMNS}) USING delta", "a > 0", NUMBERS, id="check"),
        # A commit a row: what of these two is refused is a row as well, found by the same question of other words.
        pytest.param(STRICT, None, NUMBERS, marks=pytest.mark.heavy, id="not_null"),
        pytest.param(KINDS["varchar"][0], None, NUMBERS + TEXTS, marks=pytest.mark.heavy, id="varchar"),
    ],
)
def test_offenders_are_exactly_the_rows_that_delta_refuses(
    spark: SparkSession, tmp_path: Path, ddl: str, check: str | None, rows: Sequence[dict[str, Any]]
) -> None:
    path = table(spark, tmp_path / "t", ddl)
    if check:
        spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT positive CHECK ({check})")
    state = read_state(path, spark)
    assert state is not None and not state.native
    file = written(path, rows)
    found = {offender.offset for offender in offenders(spark, [file], state)}
    refused = set()
    for one in rows:
        offset = one["kafka_offset"]
        try:
            by_writer(spark, path, [written(path, [one])], SCHEMA, "app", offset, {})
        except CommitImpossible as error:
            assert "Delta refuses a row" in str(error) and "long one" not in str(error)
            refused.add(offset)
    assert found == refused
    assert refused


def test_an_offender_is_named_by_place_and_condition(spark: SparkSession, tmp_path: Path) -> None:
    path = table(spark, tmp_path / "t", f"({COLUMNS}) USING delta")
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT positive CHECK (a > 0)")
    state = read_state(path, spark)
    assert state is not None
    [found] = offenders(spark, [written(path, [row(8, -1)])], state)
    assert (found.topic, found.partition, found.offset) == ("t", 0, 8)
    assert found.detail == "the table refuses it: a > 0"


def test_a_row_for_which_a_condition_fails_is_an_offender_named_without_its_values(
    spark: SparkSession, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    path = table(spark, tmp_path / "t", KINDS["generated"][0])
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT divided CHECK (100 / a > 0)")
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT number CHECK (CAST(b AS INT) > 0)")
    state = read_state(path, spark)
    assert state is not None
    rows = [row(0, 1, "1"), row(1, 0, "1"), row(2, 1, "Ada"), row(3, 5 * 10**18, "1")]
    with_generated = SCHEMA.append(pa.field("g", pa.int64()))
    for file in (written(path, rows), written(path, [{**one, "g": None} for one in rows], with_generated)):
        found = {one.offset: one.detail for one in offenders(spark, [file], state)}
        assert found == {
            1: "the table refuses it: 100 / a > 0 fails (DIVIDE_BY_ZERO)",
            2: "the table refuses it: CAST ( b AS INT ) > 0 fails (CAST_INVALID_INPUT)",
            3: "the table refuses it: `g` <=> (a * 2) fails (ARITHMETIC_OVERFLOW)",
        }
    # What Spark itself says of a task that fails.
    assert "Exception in task" not in capfd.readouterr().err


# Spark 3.5 has a Delta that does so for the smallest integers only.
WIDENS = installed_spark().widens_columns


@pytest.mark.skipif(not WIDENS, reason="this Spark makes no column wider")
def test_narrower_files_go_into_a_widened_table(spark: SparkSession, tmp_path: Path) -> None:
    path = table(spark, tmp_path / "t", KINDS["widening"][0].replace("a bigint", "a int"))
    spark.sql(f"ALTER TABLE delta.`{path}` ALTER COLUMN a TYPE bigint")
    narrow = SCHEMA.set(3, pa.field("a", pa.int32()))
    assert by_writer(spark, path, [written(path, [row(1, 5)], narrow)], narrow, "app", 0, {})
    assert content(spark, path) == [(1, 5, "x")]


@pytest.mark.skipif(WIDENS, reason="this Spark makes columns wider")
def test_a_spark_that_makes_no_column_wider_says_so_and_leaves_the_table(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = table(spark, tmp_path / "t", "(a int) USING delta")
    have, wanted = pa.schema([("a", pa.int32())]), pa.schema([("a", pa.int64())])
    with pytest.raises(
        CommitImpossible, match=r"a become wider \(Spark 3\.5 goes with .* Spark 4\.0 or 4\.1 can\)"
    ):
        widen_columns(spark, files_at(path), have, wanted)
    assert DeltaTable(path).version() == 0


def test_files_gone_cut_off_or_unfit_are_refused_for_good(spark: SparkSession, tmp_path: Path) -> None:
    path = table(spark, tmp_path / "t", KINDS["mapping"][0])
    file = written(path, [row(1, 5)])
    with pytest.raises(CommitImpossible, match="bytes, not"):
        by_writer(spark, path, [replace(file, bytes=1)], SCHEMA, "app", 0, {})
    other = SCHEMA.set(3, pa.field("a", pa.string()))
    with pytest.raises(CommitImpossible, match="column a is int64 in the table and string in the files"):
        by_writer(spark, path, [file], other, "app", 0, {})
    with pytest.raises(CommitImpossible, match="no Delta table any more"):
        by_writer(spark, tmp_path / "nothing", [file], SCHEMA, "app", 0, {})
    assert (path / file.name).exists()


def test_rows_that_are_not_all_in_are_noticed_and_the_files_kept(spark: SparkSession, tmp_path: Path) -> None:
    path = table(spark, tmp_path / "t", KINDS["mapping"][0])
    file = replace(written(path, [row(1, 5)]), rows=2)
    with pytest.raises(SumsDisagree, match="has 1 rows of batch 0, its files 2"):
        by_writer(spark, path, [file], SCHEMA, "app", 0, {})
    assert (path / file.name).exists()


# That nothing is asked of the session is seen where it would end the query; where it would move times the settings are the same.
@pytest.mark.parametrize("others", ["EXCEPTION", pytest.param("LEGACY", marks=pytest.mark.heavy)])
def test_times_of_any_year_are_committed_whatever_a_session_takes_others_times_for(
    spark: SparkSession, tmp_path: Path, others: str
) -> None:
    own = spark.newSession()
    for way in ("Read", "Write"):
        own.conf.set(f"spark.sql.parquet.datetimeRebaseModeIn{way}", others)
    path = table(
        spark,
        tmp_path / "t",
        f"({COLUMNS}, at timestamp) USING delta".replace("a bigint", "a bigint NOT NULL"),
    )
    state, old = read_state(path, spark), datetime(1500, 2, 28, tzinfo=timezone.utc)
    assert state is not None
    wide = SCHEMA.append(pa.field("at", pa.timestamp("us", tz="UTC")))
    file = written(path, [row(1, 5, at=old), row(2, None, at=old)], wide)
    (refused,) = offenders(own, [file], state)
    assert refused.offset == 2
    file = written(path, [row(1, 5, at=old)], wide)
    assert by_writer(own, path, [file], wide, "app", 0, {})
    assert content(own, path, "unix_seconds(at)") == [(int(old.timestamp()),)]


def test_a_crash_between_commit_and_clean_up_is_made_good(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = table(spark, tmp_path / "t", KINDS["mapping"][0])
    file = written(path, [row(1, 5)])

    def crash(*_arguments: object) -> None:
        raise KeyError("crash")

    with monkeypatch.context() as patch:
        patch.setattr(writer_commit, "_require_rows", crash)
        with pytest.raises(KeyError, match="crash"):
            by_writer(spark, path, [file], SCHEMA, "app", 0, {})
    assert not by_writer(spark, path, [file], SCHEMA, "app", 0, {})
    assert content(spark, path) == [(1, 5, "x")]
    assert not (path / file.name).exists()


ALTERED = {
    "a CHECK that all rows meet": "ADD CONSTRAINT low CHECK (a < 10)",
    "column mapping": "SET TBLPROPERTIES ('delta.columnMapping.mode'='name', 'delta.minReaderVersion'='2', 'delta.minWriterVersion'='5')",
    "row tracking": "SET TBLPROPERTIES ('delta.enableRowTracking'='true')",
}
# What each commit says of itself, by which a repeat is told from another reading.
TOLD = {GENERATION: "g", OFFSETS: "{}"}


def test_rows_that_a_disk_refused_to_sync_are_written_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says once that it did not take them: asked again it says that it has them, and a loss of power takes them."""
    path = table(spark, tmp_path / "t", KINDS["mapping"][0])
    file = written(path, [row(1, 1), row(2, 2)])

    def refused(files: PosixFiles, folders: Iterable[str]) -> None:
        raise OSError(errno.EIO, "Input/output error")

    with monkeypatch.context() as patch, pytest.raises(OSError, match="Input/output"):
        patch.setattr(PosixFiles, "sync_folders", refused)
        by_writer(spark, path, [file], SCHEMA, "app/events", 0)
    entry = max((path / "_delta_log").glob("*.json"))
    added = [
        path / json.loads(line)["add"]["path"]
        for line in entry.read_text().splitlines()
        if line.startswith('{"add"')
    ]
    assert added
    before = [one.stat().st_mtime_ns for one in (entry, *added)]
    assert not by_writer(spark, path, [file], SCHEMA, "app/events", 0)
    now = [one.stat().st_mtime_ns for one in (entry, *added)]
    assert all(later > earlier for later, earlier in zip(now, before, strict=True))
    assert content(spark, path) == [(1, 1, "x"), (2, 2, "x")]
    assert not (path / file.name).exists()


def decided(path: Path, file: DataFile) -> TableCommit:
    """A batch whose files are to become the table's as they are."""
    return TableCommit("t", files_at(path), (file,), SCHEMA, Transaction("app", 0, TOLD, -1), native=True)


# Lighter: test_tables_of_both_ways_are_committed_together commits by Spark.
@pytest.mark.heavy
@pytest.mark.parametrize("how", ALTERED.values(), ids=ALTERED.keys())
def test_a_table_altered_after_its_files_were_decided_takes_their_rows(
    spark: SparkSession, tmp_path: Path, how: str
) -> None:
    path = table(spark, tmp_path / "t", f"({COLUMNS}) USING delta")
    file = written(path, [row(1, 5), row(2, 6)])
    spark.sql(f"ALTER TABLE delta.`{path}` {how}")
    part = decided(path, file)
    assert commit_tables(spark, [part], 1) == {"t": True}
    assert commit_tables(spark, [part], 1) == {"t": False}, (
        "told from another reading, though its files are others"
    )
    assert content(spark, path) == [(1, 5, "x"), (2, 6, "x")]
    assert not (path / file.name).exists()


def test_a_row_that_a_table_altered_since_refuses_waits_for_a_decision(
    spark: SparkSession, tmp_path: Path
) -> None:
    path = table(spark, tmp_path / "t", f"({COLUMNS}) USING delta")
    file = written(path, [row(1, 5), row(2, 60)])
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT low CHECK (a < 10)")
    with pytest.raises(CommitImpossible, match="Delta refuses a row"):
        commit_tables(spark, [decided(path, file)], 1)
    assert content(spark, path) == []
    assert (path / file.name).exists()


def test_files_that_a_table_took_before_it_was_altered_stay(spark: SparkSession, tmp_path: Path) -> None:
    path = table(spark, tmp_path / "t", f"({COLUMNS}) USING delta")
    part = decided(path, written(path, [row(1, 5)]))
    assert commit_tables(spark, [part], 1) == {"t": True}
    spark.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT low CHECK (a < 10)")
    assert commit_tables(spark, [part], 1) == {"t": False}
    assert not writer_commit.commit_by_writer(spark, part)
    assert content(spark, path) == [(1, 5, "x")]


def test_tables_of_both_ways_are_committed_together(spark: SparkSession, tmp_path: Path) -> None:
    commits = []
    for i in range(2):
        path = table(spark, tmp_path / f"t{i}", KINDS["mapping"][0] if i % 2 else f"({COLUMNS}) USING delta")
        file = written(path, [row(i, i)])
        commits.append(
            TableCommit(f"t{i}", files_at(path), (file,), SCHEMA, Transaction("app", 0), native=not i % 2)
        )
    assert commit_tables(spark, commits, 4) == {"t0": True, "t1": True}
    assert commit_tables(spark, commits, 4) == {"t0": False, "t1": False}
    assert [content(spark, tmp_path / f"t{i}", "a") for i in range(2)] == [[(0,)], [(1,)]]
