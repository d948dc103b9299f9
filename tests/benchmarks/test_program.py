"""What is the same of every benchmark: which parts are measured, and how it ends."""

from __future__ import annotations

import pytest
import typer
from benchmarks.bounds import Bound
from benchmarks.program import chosen, ending, require, verdicts

from distributary.errors import CheckFailed, ConfigError

BOUNDS = (Bound("quick", "seconds", 2), Bound("large", "rows/s", 5, at_least=True))


def test_parts_come_in_their_own_order_however_they_are_named() -> None:
    assert chosen("", ("gold", "bronze", "replay")) == ("gold", "bronze", "replay")
    assert chosen(" replay,gold,", ("gold", "bronze", "replay")) == ("gold", "replay")
    with pytest.raises(ConfigError, match=r"--only silver: there are only gold, bronze"):
        chosen("silver,gold", ("gold", "bronze"))


def test_an_error_of_ours_is_a_sentence_and_an_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(typer.Exit) as ended, ending():
        require({"quick": 3.0, "large": None}, BOUNDS)
    assert ended.value.exit_code == CheckFailed.exit_code
    assert "bench: quick is 3, but must be at most 2" in capsys.readouterr().err
    with ending():
        require({"quick": 1.0, "large": 7.0}, BOUNDS)


def test_what_was_not_measured_is_said_to_be() -> None:
    table = verdicts("A benchmark", {"quick": 1.25}, BOUNDS)
    assert [*table.columns[2].cells] == ["1.25", "not measured"]
