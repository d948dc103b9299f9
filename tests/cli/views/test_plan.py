from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from distributary.ingest.evolution.candidates import Candidate
from distributary.ingest.evolution.planner import Step, TablePlan
from distributary.ingest.evolution.rules_of_tables import RuleInPlan, ShapedBy, TableSettings
from distributary.ingest.evolution.verdicts import Action, TableVerdict
from distributary.ingest.plan import Plan
from distributary.ingest.reshaping.rule import Op, Reshape
from distributary.ingest.settings.upserts import Keeping, Upsert
from distributary.ingest.storage.place import Place
from distributary.ingest.tables.properties import Setting
from distributary.registry.base import Schema
from distributary.views.plan import View

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "plan-a-schema-change.md"
CANDIDATE = Candidate("games-value", 2, 7, Schema(7, "AVRO", "{}"))


def view(verdict: TableVerdict, tables: tuple[str, ...]) -> View:
    step = Step(tables, "games.Event", 6, CANDIDATE, (verdict,))
    return View(Plan("games", Place.parse("/lake"), (), TablePlan((step,), (), {})))


@pytest.mark.parametrize("action", get_args(Action))
def test_everything_that_can_become_of_a_change_is_told_in_words_and_in_the_docs(action: Action) -> None:
    verdict = TableVerdict(
        kind="widened", column="level", before="int", after="bigint", table="int", action=action
    )
    lines = view(verdict, ("golf",)).text().splitlines()
    assert lines[0] == "1 table (golf): schema 6 -> schema 7 (games.Event)"
    marked = "!" if verdict.open else " "
    assert lines[1].startswith(f"  {marked} widened            level int -> bigint: ")
    assert f"| `{action}` |" in PAGE.read_text(encoding="utf-8")


def test_many_tables_are_counted_and_only_some_named() -> None:
    verdict = TableVerdict(kind="added", column="a\x1bb", before="", after="int", table="int", action="add")
    text = view(verdict, tuple(f"t{n}" for n in range(1_234))).text()
    assert "1,234 tables (t0, t1, t2, t3, t4, and 1,229 more): schema 6" in text
    assert "\x1b" not in text


def test_tables_that_a_new_record_type_may_go_into_are_named_and_counted_once() -> None:
    verdict = TableVerdict(
        kind="changed", column="level", before="int", after="string", table="int", action="quarantine"
    )
    met = Step(("golf",), "games.Event", 6, CANDIDATE, (verdict,))
    unmet = Step(("golf", "hop"), "games.Buy", None, CANDIDATE, (verdict,), unmet=True)
    told = View(Plan("games", Place.parse("/lake"), (), TablePlan((met, unmet), (), {})))
    line = "no table has met schema 7 (games.Buy); if its records go to 2 tables (golf, hop):"
    assert line in told.text().splitlines()
    assert told.verdict() == "2 changes to 2 tables to decide about"
    assert [step["unmet"] for step in told.as_dict()["steps"]] == [False, True]


def test_a_change_that_is_for_no_table_is_not_counted_for_any() -> None:
    verdict = TableVerdict(kind="dropped", column="game", before="", after="", table="", action="quarantine")
    told = view(verdict, ())
    assert told.verdict() == "1 change to decide about"
    assert "no table has met schema 7 (games.Event):" in told.text().splitlines()


def test_each_rule_is_told_with_its_tables_and_what_those_have_otherwise() -> None:
    change = TableSettings(
        ("golf",), (Setting("delta.appendOnly", None, "true"), Setting("comment", "a\x1bb", None))
    )
    rules = (
        RuleInPlan(0, "g*", ("golf", "gym"), (), (change,)),
        RuleInPlan(1, "*o*", (), ("golf",)),
        RuleInPlan(None, "", ("hop",)),
    )
    told = View(Plan("games", Place.parse("/lake"), (), TablePlan((), ("hop",), {}), (), rules))
    assert told.text().splitlines()[-5:] == [
        "tables[0] (g*): 2 tables (golf, gym)",
        "    property           1 table (golf): delta.appendOnly none -> true: the table gets it with its next rows",
        "    property           1 table (golf): comment a\ufffdb -> none: the table gets it with its next rows",
        "tables[1] (*o*): none of the tables that are there; 1 table (golf) that it fits have an earlier rule",
        "sink: 1 table (hop)",
    ]
    first, second, sink = told.as_dict()["rules"]
    assert (first["rule"], first["match"], sink["rule"], sink["match"]) == (0, "g*", None, None)
    assert second["tables_with_an_earlier_rule"] == ["golf"]
    assert first["changes"][0]["properties"][0] == {
        "name": "delta.appendOnly",
        "before": None,
        "after": "true",
    }
    assert not told.plan.open


def test_a_plan_without_rules_tells_of_none() -> None:
    told = View(
        Plan("games", Place.parse("/lake"), (), TablePlan((), (), {}), (), (RuleInPlan(None, "", ("hop",)),))
    )
    assert "sink" not in told.text()


def test_a_rule_of_tables_in_partitions_tells_by_what_and_what_no_schema_has() -> None:
    rules = (
        RuleInPlan(0, "g*", ("golf",), lacking=("score",), partition_by=("day", "score")),
        RuleInPlan(None, "", ()),
    )
    told = View(Plan("games", Place.parse("/lake"), (), TablePlan((), (), {}), (), rules))
    assert told.text().splitlines()[-4:] == [
        "tables[0] (g*): 1 table (golf)",
        "    partition_by       day, score",
        "  ! partition_by       no schema has field score as a string, integer, boolean or date: all records go to quarantine",
        "sink: none of the tables that are there",
    ]
    first, sink = told.as_dict()["rules"]
    assert (first["partition_by"], first["fields_in_no_schema"]) == (["day", "score"], ["score"])
    assert sink["partition_by"] == []
    assert told.plan.open
    assert told.verdict() == "no schema has what tables[0] is to be partitioned by"


def test_a_rule_of_clustered_tables_tells_by_what_and_what_changes() -> None:
    changes = (TableSettings(("golf",), (Setting("cluster_by", "a, s.b", None), Setting("mine", None, "1"))),)
    rules = (
        RuleInPlan(0, "g*", ("golf",), changes=changes, cluster_by=()),
        RuleInPlan(None, "", (), cluster_by=("day", "score"), unclustered=("score",)),
    )
    told = View(Plan("games", Place.parse("/lake"), (), TablePlan((), (), {}), (), rules))
    assert told.text().splitlines()[-7:] == [
        "tables[0] (g*): 1 table (golf)",
        "    cluster_by         nothing",
        "    cluster_by         a, s.b -> none: the table gets it with its next rows",
        "    property           mine none -> 1: the table gets it with its next rows",
        "sink: none of the tables that are there",
        "    cluster_by         day, score",
        "  ! cluster_by         no schema has field score as a string, number, date or time: no table is clustered by it",
    ]
    first, sink = told.as_dict()["rules"]
    assert (first["cluster_by"], sink["cluster_by"]) == ([], ["day", "score"])
    assert sink["fields_in_no_schema"] == ["score"]
    assert told.plan.open
    assert told.verdict() == "no schema has what sink is to be clustered by"


def test_a_rule_of_tables_with_one_row_a_key_tells_its_keys_and_those_that_no_schema_has() -> None:
    rules = (
        RuleInPlan(0, "g*", ("golf",), upsert=Upsert(("id", "line.no"), ("at",)), lacking=("line.no",)),
        RuleInPlan(1, "*", (), upsert=Upsert()),
        RuleInPlan(None, "", ()),
    )
    told = View(Plan("games", Place.parse("/lake"), (), TablePlan((), (), {}), (), rules))
    assert told.text().splitlines()[-6:] == [
        "tables[0] (g*): 1 table (golf)",
        "    mode               upsert, keys id, line.no, sequence_by at",
        "  ! mode               no schema has field line.no with one value a record: all records go to quarantine",
        "tables[1] (*): none of the tables that are there",
        "    mode               upsert, keys kafka_key",
        "sink: none of the tables that are there",
    ]
    first, second, sink = told.as_dict()["rules"]
    assert (first["mode"], list(first["keys"]), list(first["sequence_by"])) == (
        "upsert",
        ["id", "line.no"],
        ["at"],
    )
    assert first["fields_in_no_schema"] == ["line.no"]
    assert (second["keys"], second["fields_in_no_schema"]) == ("kafka_key", [])
    assert (sink["mode"], sink["keys"], sink["sequence_by"]) == ("append", None, None)
    assert told.plan.open
    assert told.verdict() == "no schema has what tables[0] is to tell rows apart by"


def test_a_rule_of_tables_that_keep_what_was_tells_what_makes_no_history() -> None:
    upsert = Upsert(("id",), ("at",), history=Keeping(("seen",), days=3))
    rules = (RuleInPlan(0, "g*", ("golf",), upsert=upsert), RuleInPlan(None, "", ()))
    told = View(Plan("games", Place.parse("/lake"), (), TablePlan((), (), {}), (), rules))
    assert "    mode               history, keys id, sequence_by at, ignore seen" in told.text().splitlines()
    first, sink = told.as_dict()["rules"]
    assert first["mode"] == "history"
    assert first["history"] == {
        "ignored": ["seen"],
        "columns": ["valid_from", "valid_to", "is_current"],
        "days": 3,
    }
    assert sink["history"] is None


def test_a_rule_of_columns_tells_what_becomes_of_them_and_what_does_not_go_with_the_schemas() -> None:
    said = Reshape((((("a", "b")), Op("leave")), (("c",), Op("rename", "d"))), payload=False)
    rules = (
        RuleInPlan(0, "g*", ("golf",), shaped=ShapedBy(said, ("a.b",), ("field x is of type int",))),
        RuleInPlan(1, "*", (), shaped=ShapedBy(said)),
        RuleInPlan(None, "", ()),
    )
    told = View(Plan("games", Place.parse("/lake"), (), TablePlan((), (), {}), (), rules))
    line = "    columns            leave a.b; rename c as d; drop from quarantine"
    assert told.text().splitlines()[-7:] == [
        "tables[0] (g*): 1 table (golf)",
        line,
        "  ! columns            no schema has field a.b: nothing becomes of it",
        "  ! columns            field x is of type int: all records of such a schema go to quarantine",
        "tables[1] (*): none of the tables that are there",
        line,
        "sink: none of the tables that are there",
    ]
    first, second, sink = told.as_dict()["rules"]
    assert first["columns"] == {
        "said": "leave a.b; rename c as d; drop from quarantine",
        "fields_in_no_schema": ["a.b"],
        "refused": ["field x is of type int"],
    }
    assert (second["columns"]["refused"], sink["columns"]) == ([], None)
    assert told.plan.open
    assert told.verdict() == "tables[0].columns does not go with the schemas"
