from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from distributary.ingest.evolution.candidates import Candidate
from distributary.ingest.evolution.planner import Step, TablePlan
from distributary.ingest.evolution.verdicts import Action, TableVerdict
from distributary.ingest.plan import Plan
from distributary.ingest.storage.place import Place
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
