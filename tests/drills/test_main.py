"""The program of the drills, without a stack: what is chosen, what is said, and what a drill comes to that did not end well."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest
from drills import __main__ as program
from drills.drill import Account, CannotBeDrilled, Drill
from drills.table import recorded
from drills.world import World

from distributary.errors import CheckpointMismatch, ConfigError, LeaseHeld

NO_WORLD = cast("World", None)


def done(*drills: Drill) -> tuple[list[dict[str, Any]], list[str], str]:
    """The rows, the names of what did not end well, and what was said."""
    said: list[str] = []
    rows, broken = program._done(drills, NO_WORLD, said.append)
    return rows, broken, "\n".join(said)


def loses(world: World, account: Account) -> None:
    account.rounds, account.lost = 1, 3


def dies(world: World, account: Account) -> None:
    raise RuntimeError("it ended in the middle")


def holds(world: World, account: Account) -> None:
    account.rounds = account.faults = 1
    with account.recovering():
        pass


def impossible(world: World, account: Account) -> None:
    raise CannotBeDrilled("nobody may mount a disk here")


def test_one_that_loses_or_dies_is_named_and_the_others_are_done() -> None:
    drills = [Drill(run.__name__, "", run) for run in (loses, dies, impossible, holds)]
    rows, broken, said = done(*drills)
    assert broken == ["loses", "dies"]
    assert [row["drill"] for row in rows] == ["loses", "dies", "holds"]
    assert "3 lost" in said and "it ended in the middle" in said
    assert "impossible: left out, as nobody may mount a disk here" in said


def test_what_is_to_be_refused_and_is_not_did_not_end_well() -> None:
    account = Account()
    with account.refusing(CheckpointMismatch, LeaseHeld):
        raise LeaseHeld("somebody is at it")
    assert (account.refused, account.differences) == ({"LeaseHeld"}, [])
    with account.refusing(CheckpointMismatch):
        pass
    assert account.differences == ["it was not refused by CheckpointMismatch"]


def test_a_name_that_no_drill_has_is_refused() -> None:
    assert [drill.name for drill in program._chosen("read_only,disk_full")] == ["disk_full", "read_only"]
    assert program._chosen("") == list(program.DRILLS)
    with pytest.raises(ConfigError, match="there is no drill 'nonsense'"):
        program._chosen("read_only,nonsense")


def test_on_record_a_drill_takes_its_own_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = tmp_path / "page.md"
    page.write_text("<!-- drills: begin -->\n<!-- drills: end -->\n", encoding="utf-8")
    monkeypatch.setattr(program, "PAGE", page)
    for module in ("drills.__main__", "drills.table"):
        monkeypatch.setattr(f"{module}.RECORD", tmp_path / "drills.json")
    row = Account(rounds=1).row("read_only")
    program._record([row])
    program._record([{**row, "drill": "disk_full"}])
    program._record([{**row, "rounds": 7}])
    assert [(one["drill"], one["rounds"]) for one in recorded()] == [("disk_full", 1), ("read_only", 7)]
    assert page.read_text(encoding="utf-8").count("`read_only`") == 1
