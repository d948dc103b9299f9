"""When a run makes derived tables current, by a clock of the test's and without making any."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import pytest
from tests.ingest.derivation.test_given import settings

from distributary.errors import PipelineError
from distributary.ingest.derived import in_runs
from distributary.ingest.derived.in_runs import DerivedInRuns
from distributary.ingest.derived.refresh import How, Refreshed


class Run:
    """A run with tables `a`, `b` of it and `c`, whose turns are noted; what becomes of a table is `comes_to`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, **rules: dict[str, Any]) -> None:
        self.now, self.turns = 1000.0, list[list[str]]()
        self.comes_to: dict[str, How] = {}
        monkeypatch.setattr(in_runs, "derive", self._derive)
        monkeypatch.setattr(in_runs, "with_settings", lambda spark, _: spark)
        derive = [
            {
                "table": name,
                "inputs": ["a" if name == "b" else "quarantine"],
                "sql": "SELECT count(*) AS n FROM t",
                **rule,
            }
            for name, rule in rules.items()
        ]
        self.derived = DerivedInRuns(settings(*derive), None, clock=lambda: self.now)  # type: ignore[arg-type] # none is needed

    def _derive(self, *_: Any, rules: Collection[str], **__: Any) -> list[Refreshed]:
        self.turns.append(sorted(rules))
        if "raised" in self.comes_to:
            raise KeyError("a row's value")
        return [
            Refreshed(one, how := self.comes_to.get(one, "made"), why="it is so" if how == "failed" else "")
            for one in sorted(rules)
        ]

    def after(self, seconds: float) -> list[list[str]]:
        """The turns that so many seconds bring where no batch comes."""
        self.turns.clear()
        for _ in range(round(seconds)):
            self.now += 1
            self.derived.meanwhile()
        return self.turns


def test_what_the_last_batch_brought_is_made_current_in_time_and_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch, a={"every_seconds": 10}, c={"every_batches": 3})
    # What an earlier run left nobody knows.
    assert run.after(9) == []
    assert run.after(1) == [["a"]]
    assert run.after(49) == []
    assert run.after(300) == [["c"]]
    run.comes_to = {"a": "current", "c": "current"}
    run.now += 5
    run.derived.after_batch()
    assert run.turns == [["c"], ["a"]], "its turn came while no batch did"
    run.now += 5
    run.derived.after_batch()
    assert run.after(4) == []
    assert run.after(1) == [["a"]]
    # The third batch may never come.
    assert run.after(300) == [["c"]]
    assert run.after(3000) == []


def test_what_is_made_of_another_one_has_its_turn_behind_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch, a={"every_seconds": 40}, b={"every_seconds": 10}, c={"every_seconds": 10})
    run.comes_to = {"b": "current", "c": "made"}
    assert run.after(39) == [["b", "c"]]
    assert run.after(60) == [["a"], ["b"]]


def test_what_fails_is_tried_again_without_a_batch_and_not_all_the_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch, a={"every_seconds": 0})
    run.comes_to = {"a": "failed"}
    assert run.after(120) == [["a"], ["a"]]
    run.comes_to = {}
    assert run.after(120) == [["a"]]
    run.derived.check()


def test_what_nobody_has_foreseen_ends_no_run_and_tells_no_value(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = Run(monkeypatch, a={"every_seconds": 0})
    run.comes_to = {"raised": "failed"}
    (said,) = run.derived.after_batch()
    assert "KeyError in" in said
    assert "a row's value" not in said
    with pytest.raises(PipelineError, match="1 derived tables are not current: a: it failed by KeyError"):
        run.derived.check()
