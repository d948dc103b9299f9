from __future__ import annotations

from pathlib import Path
from typing import get_args

import pytest

from distributary.ingest.candidates import Candidate
from distributary.ingest.table_plan import Step, TablePlan
from distributary.ingest.table_verdicts import Action, TableVerdict
from distributary.plan_views import View
from distributary.registry.base import Schema

PAGE = Path(__file__).resolve().parents[2] / "docs" / "how-to" / "plan-a-schema-change.md"
CANDIDATE = Candidate("games-value", 2, 7, Schema(7, "AVRO", "{}"))


def view(verdict: TableVerdict, tables: tuple[str, ...]) -> View:
    step = Step(tables, "games.Event", 6, CANDIDATE, (verdict,))
    return View("games", "lake", (), TablePlan((step,), (), {}))


@pytest.mark.parametrize("action", get_args(Action))
def test_everything_that_can_become_of_a_change_is_told_in_words_and_in_the_docs(action: Action) -> None:
    verdict = TableVerdict("widened", "level", "int", "bigint", "int", action)
    lines = view(verdict, ("golf",)).text().splitlines()
    assert lines[0] == "1 table (golf): schema 6 -> schema 7 (games.Event)"
    marked = "!" if verdict.open else " "
    assert lines[1].startswith(f"  {marked} widened            level int -> bigint: ")
    assert f"| `{action}` |" in PAGE.read_text(encoding="utf-8")


def test_many_tables_are_counted_and_only_some_named() -> None:
    verdict = TableVerdict("added", "a\x1bb", "", "int", "int", "add")
    text = view(verdict, tuple(f"t{n}" for n in range(1_234))).text()
    assert "1,234 tables (t0, t1, t2, t3, t4, and 1,229 more): schema 6" in text
    assert "\x1b" not in text
