"""Which tables each rule of a plan is for, and what they have otherwise."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.ingest.pipelines import make_table, settings, table_book

from distributary.ingest.columns.layout import Layout
from distributary.ingest.evolution.rules_of_tables import RuleInPlan, TableSettings, rules_in_plan
from distributary.ingest.pins import PinnedTable
from distributary.ingest.settings.rule_book import RuleBook
from distributary.ingest.settings.table_rules import TableRule
from distributary.ingest.settings.upserts import Upsert
from distributary.ingest.tables.properties import Setting

A = pa.schema([("a", pa.int64())])


def test_tables_of_a_rule_that_differ_alike_are_told_together(tmp_path: Path) -> None:
    names = ("golf", "gym", "hop", "quest")
    for name in names:
        make_table(tmp_path, name, A, name)
    chosen = settings(tmp_path)
    rules = [
        TableRule(match="g*", comment="Games", properties={"delta.checkpointInterval": "25"}),
        TableRule(match="/^q/"),
        TableRule(match="/o/"),
    ]
    book = RuleBook.by(rules, chosen.route, chosen.sink)
    tables = {name: PinnedTable(name.upper(), Layout(A)) for name in names}
    states = table_book(tmp_path).states(names)
    del states["gym"]  # nobody could look at it
    assert rules_in_plan(book, tables, states) == (
        RuleInPlan(
            0,
            "g*",
            ("golf", "gym"),
            changes=(TableSettings(("golf",), (Setting("comment", None, "Games"),)),),
        ),
        RuleInPlan(1, "/^q/", ("quest",)),
        RuleInPlan(2, "/o/", ("hop",), earlier=("golf",)),
        RuleInPlan(None, "", ()),
    )


def test_a_field_that_no_table_can_be_partitioned_by_is_told_of_its_rule(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    rules = [TableRule(match="*", partition_by=("a", "old", "day", "gone", "score"))]
    book = RuleBook.by(rules, chosen.route, chosen.sink)
    tables = {"golf": PinnedTable("golf", Layout(pa.schema([("old", pa.bool_())])))}
    schemas = [A, pa.schema([("score", pa.float64())])]
    first, sink = rules_in_plan(book, tables, {}, schemas, "day")
    assert first.partition_by == ("a", "old", "day", "gone", "score")
    assert first.lacking == ("gone", "score")
    assert (sink.partition_by, sink.lacking) == ((), ())
    assert rules_in_plan(book, {}, {}, [], "day")[0].lacking == ()


def test_a_field_that_no_table_can_be_clustered_by_is_told_of_its_rule(tmp_path: Path) -> None:
    chosen = settings(tmp_path)
    rules = [TableRule(match="*", cluster_by=("a", "old", "kafka_ts", "gone"))]
    book = RuleBook.by(rules, chosen.route, chosen.sink)
    tables = {"golf": PinnedTable("golf", Layout(pa.schema([("old", pa.bool_())])))}
    first, sink = rules_in_plan(book, tables, {}, [A])
    assert first.cluster_by == ("a", "old", "kafka_ts", "gone")
    assert (first.unclustered, first.open, first.lacking) == (("old", "gone"), True, ())
    assert (sink.cluster_by, sink.unclustered) == (None, ())
    assert rules_in_plan(book, {}, {}, [])[0].unclustered == ()


def test_a_field_that_neither_a_schema_nor_a_table_has_is_told_of_the_rule_that_tells_rows_apart_by_it(
    tmp_path: Path,
) -> None:
    chosen = settings(tmp_path)
    rules = [
        TableRule(match="golf", mode="upsert", keys=("a",), sequence_by=("b", "old")),
        TableRule(match="*", mode="upsert", keys=("c", "tags")),
    ]
    book = RuleBook.by(rules, chosen.route, chosen.sink)
    tables = {"golf": PinnedTable("golf", Layout(pa.schema([("old", pa.int64())])))}
    schemas = [A, pa.schema([("tags", pa.list_(pa.string()))])]
    first, second, sink = rules_in_plan(book, tables, {}, schemas)
    assert (first.upsert, first.lacking) == (Upsert(("a",), ("b", "old")), ("b",))
    assert second.lacking == ("c", "tags")
    assert (sink.upsert, sink.lacking) == (None, ())
    assert [rule.lacking for rule in rules_in_plan(book, {}, {}, [])] == [(), (), ()]
