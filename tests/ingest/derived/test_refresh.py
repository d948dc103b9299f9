"""Derived tables made of small tables on this machine: what is kept current is what all rows make, and nothing of a record is a part of a query."""

from __future__ import annotations

import importlib
import math
import re
import shutil
from collections.abc import Iterable, Mapping
from contextlib import closing
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pydantic import ValidationError
from pyspark.sql import SparkSession

from distributary.ingest.derivation.given import OWNER, Derived
from distributary.ingest.derived import inputs, refresh, writing
from distributary.ingest.derived.instances import Entities, instances
from distributary.ingest.derived.refresh import Refreshed, _Round
from distributary.ingest.spark.session import ANSI, ZONE, in_use
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.place import Place
from distributary.ingest.tables.log import newest_version
from distributary.ingest.tables.log_checkpoint import LogCheckpoints

pytestmark = [pytest.mark.spark]


class Bench:
    """Tables in a folder, and one round over those that are derived of them."""

    def __init__(self, root: Path, spark: SparkSession) -> None:
        self.root, self._spark = root, spark

    def put(self, *rows: Mapping[str, Any], table: str = "t", schema: pa.Schema | None = None) -> None:
        write_deltalake(
            str(self.root / table),
            pa.Table.from_pylist(list(rows), schema),
            mode="append",
            schema_mode="merge",
        )

    def derive(self, rule: Mapping[str, Any], *, entity: str | None = None, whole: bool = False) -> Refreshed:
        (done,) = self.derive_all(rule, entities=[] if entity is None else [entity], whole=whole)
        return done

    def derive_with(self, rule: Mapping[str, Any], *tables: str) -> Refreshed:
        """Of several tables."""
        (done,) = self.derive_all(rule, entities=[], tables=tables)
        return done

    def derive_all(
        self,
        *rules: Mapping[str, Any],
        entities: Iterable[str],
        whole: bool = False,
        tables: Iterable[str] = ("t",),
    ) -> list[Refreshed]:
        files = open_files(Place.parse(str(self.root)))
        there = Entities(dict.fromkeys(entities, "t"), folds=False)
        every = instances([Derived.model_validate(rule) for rule in rules], there)
        versions = {name: newest_version(files.below(name)) or 0 for name in tables}
        with closing(LogCheckpoints()) as checkpoints:
            round_ = _Round(files, self._spark, every, versions, {OWNER: "games"}, checkpoints, whole)
            return [round_.refresh(one) for one in every]

    def rows(self, table: str = "gold") -> list[dict[str, Any]]:
        """What people read, in an order."""
        found = DeltaTable(str(self.root / table)).to_pyarrow_table()
        seen = found.select([name for name in found.column_names if not name.startswith("__")])
        return sorted(seen.to_pylist(), key=str)

    def assert_kept_current(self, rule: Mapping[str, Any]) -> None:
        """By what was added it is what all rows make."""
        done = self.derive(rule)
        assert done.how == "added", done.why
        have = self.rows()
        assert self.derive(rule, whole=True).how == "made"
        assert str(have) == str(self.rows())


@pytest.fixture
def bench(tmp_path: Path, spark: SparkSession) -> Bench:
    return Bench(tmp_path / "lake", spark)


def aggregate(*by: str, where: str | None = None, **columns: str) -> dict[str, Any]:
    return {
        "table": "gold",
        "inputs": ["t"],
        "aggregate": {"by": list(by), "columns": columns, "where": where},
    }


def query(text: str) -> dict[str, Any]:
    return {"table": "gold", "inputs": ["t"], "sql": text}


def test_rows_are_counted_where_no_column_of_theirs_is_named(bench: Bench) -> None:
    bench.put({"k": 1}, {"k": 2}, {"k": 3})
    assert bench.derive(query("SELECT count(*) AS n, count(1) AS m FROM t")).how == "made"
    assert bench.rows() == [{"n": 3, "m": 3}]
    assert bench.derive(aggregate("1 AS one", n="count(*)")).how == "made"
    assert bench.rows() == [{"one": 1, "n": 3}]
    bench.put({"k": 4})
    bench.assert_kept_current(aggregate("1 AS one", n="count(*)"))
    assert bench.rows() == [{"one": 1, "n": 4}]


def test_whole_rows_in_an_aggregate_have_all_of_their_columns(bench: Bench) -> None:
    rule = aggregate("k", n="count(DISTINCT struct(*))", last="max_by(struct(*), o)")
    bench.put({"k": 1, "o": 1, "v": 5}, {"k": 1, "o": 1, "v": 6})
    bench.derive(rule)
    bench.put({"k": 1, "o": 1, "v": 7})
    bench.assert_kept_current(rule)
    assert bench.rows() == [{"k": 1, "n": 3, "last": {"k": 1, "o": 1, "v": 7}}]


def test_numbers_that_are_equal_are_one_value_and_one_group(bench: Bench) -> None:
    distinct = aggregate("k", n="count(DISTINCT d)", m="count(DISTINCT struct(d))")
    bench.put({"k": 1, "d": 0.0}, {"k": 1, "d": -0.0}, {"k": 1, "d": None})
    bench.derive(distinct)
    assert [one["n"] for one in bench.rows()] == [1]
    bench.put({"k": 1, "d": math.nan}, {"k": 1, "d": -0.0})
    bench.derive(distinct)
    bench.put({"k": 1, "d": math.nan})
    bench.assert_kept_current(distinct)
    assert [one["n"] for one in bench.rows()] == [2]
    groups = aggregate("d", n="count(*)")
    bench.derive(groups)
    bench.put({"k": 1, "d": -0.0}, {"k": 1, "d": math.nan}, {"k": 1, "d": None})
    bench.assert_kept_current(groups)
    assert sorted(one["n"] for one in bench.rows()) == [2, 3, 4]


def test_names_by_place_and_names_that_are_worked_out_are_those_of_all_columns(bench: Bench) -> None:
    bench.put({"b": 9, "a": 1, "ab": 3})
    for text, rows in (
        ("SELECT x FROM t AS other(x, a, b)", [{"x": 9}]),
        ("SELECT a FROM t other(a, b, ab)", [{"a": 9}]),
        ("SELECT identifier('a' || 'b') FROM t", [{"ab": 3}]),
    ):
        assert bench.derive(query(text)).how == "made", text
        assert bench.rows() == rows


# Lighter: test_a_table_with_other_columns_is_the_same_table_with_what_was_said_of_it.
@pytest.mark.heavy
def test_wider_columns_are_read_again(bench: Bench, spark: SparkSession) -> None:
    rule = aggregate("cast(k AS string) AS s", n="count(*)")
    bench.put({"k": 0.1}, schema=pa.schema([("k", pa.float32())]))
    table = f"delta.`{bench.root / 't'}`"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('delta.enableTypeWidening' = 'true')")
    bench.derive(rule)
    spark.sql(f"ALTER TABLE {table} ALTER COLUMN k TYPE double")
    spark.sql(f"INSERT INTO {table} VALUES (0.5D)")  # noqa: S608 - a folder of the test's
    assert bench.derive(rule).how == "made"
    have = bench.rows()
    bench.derive(rule, whole=True)
    assert bench.rows() == have


def test_a_column_that_no_expression_names_comes_without_reading_all_again(bench: Bench) -> None:
    rule = aggregate("k", n="count(*)")
    bench.put({"k": 1})
    bench.derive(rule)
    bench.put({"k": 1, "later": 2})
    bench.assert_kept_current(rule)
    bench.derive(query("TABLE t"))
    assert bench.rows() == [{"k": 1, "later": 2}, {"k": 1, "later": None}]


def test_a_turn_with_nothing_to_do_opens_neither_table_nor_inputs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There may be hundreds of them, of large tables, and a turn a minute."""
    rule = aggregate("k", n="count(*)")
    bench.put({"k": 1})
    bench.derive(rule)
    with monkeypatch.context() as shut:
        shut.delattr(inputs, "opened")
        assert bench.derive(rule).how == "current"
    # What somebody did to it is told all the same.
    DeltaTable(str(bench.root / "gold")).alter.set_table_properties(
        {OWNER: "another"}, raise_if_not_exists=False
    )
    assert "pipeline another derives it" in bench.derive(rule).why


def test_a_version_names_no_file_that_somebody_deleted_while_it_was_made(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As upkeep does of a table that takes longer to make than files are left alone which nobody names."""
    rule, write = aggregate("k", n="count(*)"), writing._written

    def written(frame: Any, place: Any) -> Any:
        made = write(frame, place)
        place.delete([made[0].name])
        return made

    bench.put({"k": 1})
    bench.derive(rule)
    bench.put({"k": 1})
    with monkeypatch.context() as swept:
        swept.setattr(writing, "_written", written)
        assert "1 of its new files were deleted while it was made" in bench.derive(rule).why
    assert bench.rows() == [{"k": 1, "n": 1}]
    bench.assert_kept_current(rule)


def test_an_input_out_of_a_backup_is_no_earlier_state_of_the_one_before(bench: Bench, tmp_path: Path) -> None:
    rule = aggregate("k", n="count(*)")
    bench.put({"k": 1})
    shutil.copytree(bench.root / "t", tmp_path / "backup")
    bench.put({"k": 1})
    bench.put({"k": 1})
    bench.derive(rule)
    shutil.rmtree(bench.root / "t")
    shutil.copytree(tmp_path / "backup", bench.root / "t")
    assert bench.derive(rule).how == "made"
    assert bench.rows() == [{"k": 1, "n": 1}]
    bench.put({"k": 1})
    bench.put({"k": 1})
    bench.derive(rule)
    shutil.rmtree(bench.root / "t")
    shutil.copytree(tmp_path / "backup", bench.root / "t")
    for _ in range(3):
        bench.put({"k": 2})
    # It is past the version by now that the table is of.
    assert bench.derive(rule).how == "made"
    assert bench.rows() == [{"k": 1, "n": 1}, {"k": 2, "n": 3}]


@pytest.mark.parametrize(
    "entity", ["${env:HOME}", "${system:java.version}", "{table}", "x' OR '1'='1", "a\\'b", "a\\", "ü\n-- x"]
)
def test_an_entity_is_a_value_whatever_it_says(bench: Bench, entity: str) -> None:
    bench.put({"k": 1})
    done = bench.derive(
        {"table": "gold_{entity}", "sql": "SELECT {entity} AS e, k FROM {table}"}, entity=entity
    )
    assert done.how == "made", done.why
    assert bench.rows(done.table) == [{"e": entity, "k": 1}]


@pytest.mark.parametrize("text", ["'{entity}'", '"x {entity}"', "`{entity}`", "'{table}'"])
def test_an_entity_between_quotes_is_refused(text: str) -> None:
    with pytest.raises(ValidationError, match="come with quotes of their own"):
        Derived.model_validate({"table": "gold_{entity}", "sql": f"SELECT {text} AS e"})


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("SELECT array() AS x FROM t", "column x is of type void"),
        ("SELECT struct(NULL AS y) AS x FROM t", r"column x\.y is of type void"),
        ("SELECT array(INTERVAL 1 DAY) AS x FROM t", "no intervals"),
        ("SELECT k, k + 1 AS K FROM t", "several columns called k"),
        ("SELECT struct(1 AS `a`, 2 AS `A`) AS x FROM t", "several columns called a within x"),
    ],
)
def test_what_no_table_can_have_makes_none(bench: Bench, text: str, why: str) -> None:
    bench.put({"k": 1})
    done = bench.derive(query(text))
    assert done.how == "failed"
    assert re.search(why, done.why)
    assert not (bench.root / "gold" / "_delta_log").exists()
    # Nor does it keep what is mended from being made.
    assert bench.derive(query("SELECT k FROM t")).how == "made"


def test_a_function_that_fails_is_told_by_its_line_and_no_value(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench.put({"k": 1})
    folder = bench.root.parent
    (folder / "tables_that_fail.py").write_text("def one(spark, tables):\n    return {}['a secret']\n")
    (folder / "tables_unread.py").write_text("def one(:\n")
    monkeypatch.syspath_prepend(str(folder))
    failed = bench.derive({"table": "gold", "inputs": ["t"], "python": "tables_that_fail:one"})
    assert (failed.how, "secret" in failed.why) == ("failed", False)
    assert "KeyError" in failed.why
    assert "tables_that_fail.py, line 2" in failed.why
    unread = bench.derive({"table": "gold", "inputs": ["t"], "python": "tables_unread:one"})
    assert "SyntaxError" in unread.why


def test_one_that_was_deleted_is_made_again(bench: Bench) -> None:
    rule = aggregate("k", n="count(*)")
    bench.put({"k": 1})
    bench.derive(rule)
    shutil.rmtree(bench.root / "gold")
    bench.put({"k": 1})
    assert bench.derive(rule).how == "made"
    assert bench.rows() == [{"k": 1, "n": 2}]


def test_who_is_second_leaves_what_the_first_has_made(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = bench.root.parent
    (folder / "tables_at_once.py").write_text(
        "amid = []\n"
        "def one(spark, tables):\n"
        "    while amid:\n"
        "        amid.pop()()\n"
        "    return tables['t'].groupBy('k').count()\n"
    )
    monkeypatch.syspath_prepend(str(folder))
    module = importlib.import_module("tables_at_once")
    rule = {"table": "gold", "inputs": ["t"], "python": "tables_at_once:one"}
    for rounds in (1, 2):

        def another() -> None:
            bench.put({"k": 1})
            assert bench.derive(rule).how == "made"

        bench.put({"k": 1})
        module.amid.append(another)
        assert bench.derive(rule).how == "current"
        assert bench.rows() == [{"k": 1, "count": 2 * rounds}]


def test_values_of_any_type_are_counted_by_a_sketch_the_empty_text_among_them(bench: Bench) -> None:
    rule = aggregate("1 AS one", **{name: f"approx_count_distinct({name})" for name in ("t", "d", "s")})
    bench.put({"t": "", "d": 0.0, "s": {"a": 1}}, {"t": None, "d": None, "s": None})
    bench.derive(rule)
    assert bench.rows() == [{"one": 1, "t": 1, "d": 1, "s": 1}]
    bench.put({"t": "x", "d": -0.0, "s": {"a": 2}}, {"t": "", "d": 1.5, "s": {"a": 1}})
    bench.assert_kept_current(rule)
    assert bench.rows() == [{"one": 1, "t": 2, "d": 2, "s": 2}]


def test_two_that_would_be_called_alike_take_no_place_of_each_other(bench: Bench) -> None:
    bench.put({"k": 1})
    rules = [
        {"table": table, "sql": "SELECT k FROM {table}"} for table in ("gold_{entity}", "gold_{entity}_days")
    ]
    for _ in range(2):
        done = bench.derive_all(*rules, entities=["chess", "chess_days"])
        failed = [one for one in done if one.how == "failed"]
        assert [one.table for one in failed] == ["gold_chess_days"] * 2
        assert "gold_{entity} and gold_{entity}_days would both be this table" in failed[0].why
    assert bench.rows("gold_chess_days_days") == [{"k": 1}]
    assert not (bench.root / "gold_chess_days").exists()


def test_distinct_values_in_parentheses_are_counted_once_over_all_rows(bench: Bench) -> None:
    rule = aggregate("k", n="count(DISTINCT(v))")
    bench.put({"k": 1, "v": 1}, {"k": 1, "v": 2})
    bench.derive(rule)
    bench.put({"k": 1, "v": 2}, {"k": 1, "v": 3})
    bench.assert_kept_current(rule)
    assert bench.rows() == [{"k": 1, "n": 3}]


def test_a_table_with_other_columns_is_the_same_table_with_what_was_said_of_it(
    bench: Bench, spark: SparkSession
) -> None:
    bench.put({"k": 1})
    bench.derive(query("SELECT k FROM t"))
    gold = bench.root / "gold"
    spark.sql(
        f"ALTER TABLE delta.`{gold}` SET TBLPROPERTIES ('delta.deletedFileRetentionDuration' = 'interval 9 days')"
    )
    before = DeltaTable(str(gold)).metadata()
    assert (
        bench.derive(query("SELECT k, timestamp_ntz '2026-01-01 00:00:00' AS at, 'x' AS more FROM t")).how
        == "made"
    )
    after = DeltaTable(str(gold)).metadata()
    assert (after.id, after.configuration) == (before.id, before.configuration)
    assert [set(one) for one in bench.rows()] == [{"k", "at", "more"}]
    (row,) = spark.sql(f"SELECT * FROM delta.`{gold}`").collect()  # noqa: S608
    assert row.more == "x"


def test_what_only_sparks_writer_keeps_is_refused_and_the_table_stays_readable(
    bench: Bench, spark: SparkSession
) -> None:
    rule = query("SELECT k FROM t")
    bench.put({"k": 1})
    bench.derive(rule)
    table = f"delta.`{bench.root / 'gold'}`"
    spark.sql(f"ALTER TABLE {table} ADD CONSTRAINT small CHECK (k < 2)")
    bench.put({"k": 2})
    refused = bench.derive(rule)
    assert refused.how == "failed"
    assert "CHECK constraint small" in refused.why
    assert [row.k for row in spark.sql(f"SELECT k FROM {table}").collect()] == [1]  # noqa: S608
    spark.sql(f"ALTER TABLE {table} DROP CONSTRAINT small")
    assert bench.derive(rule).how == "made"


def test_what_nobody_has_foreseen_fails_one_table_without_a_word_of_its_rows(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise KeyError("a secret of a row")

    bench.put({"k": 1})
    monkeypatch.setattr(refresh, "require_columns", fails)
    done = bench.derive(query("SELECT k FROM t"))
    assert (done.how, "secret" in done.why) == ("failed", False)
    assert "KeyError in " in done.why


def test_it_is_the_same_in_whichever_session_somebody_makes_it_current(
    bench: Bench, spark: SparkSession
) -> None:
    """A notebook has the zone of its machine, and on Spark 3.5 arithmetic that passes over what it cannot do."""
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("d", pa.decimal128(38, 0))])
    evening = datetime(2026, 1, 1, 20, tzinfo=timezone.utc)
    rule = aggregate(
        "date(at) AS day", n="count(*)", late="count_if(at > timestamp '2026-01-01 18:00:00')", d="sum(d)"
    )
    bench.put({"at": evening, "d": 1}, schema=schema)
    bench.derive(rule)
    elsewhere = spark.newSession()
    elsewhere.conf.set(ZONE, "Asia/Tokyo")
    elsewhere.conf.set(ANSI, "false")
    notebook = Bench(bench.root, elsewhere)
    with in_use(elsewhere):
        bench.put({"at": evening, "d": 2}, schema=schema)
        assert notebook.derive(rule).how == "added"
    assert bench.rows() == [{"day": evening.date(), "n": 2, "late": 2, "d": 3}]
    bench.put({"at": evening, "d": 10**38 - 1}, schema=schema)
    # What a sum that is too large lost could not be told from nothing, to which the next rows would be added.
    assert notebook.derive(rule).how == "failed"


def test_how_long_its_versions_last_a_table_says_itself(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = list[Mapping[str, str]]()
    monkeypatch.setattr(LogCheckpoints, "follow", lambda _, committed: told.append(committed.properties))
    bench.put({"k": 1})
    bench.derive(query("SELECT k FROM t"))
    kept = {"delta.logRetentionDuration": "interval 30 days", "delta.enableExpiredLogCleanup": "false"}
    DeltaTable(str(bench.root / "gold")).alter.set_table_properties(kept)
    bench.put({"k": 2})
    bench.derive(query("SELECT k FROM t"))
    assert kept.items() <= told[1].items()
