from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from distributary.cli import app
from distributary.errors import ConfigError
from distributary.producer_sim.sending.simulate import check_order
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.producer_sim.truth.sent import Truth, save

SERVERS = "127.0.0.1:1"


def simulation(**given: Any) -> Simulation:
    return Simulation.of(bootstrap_servers=SERVERS, topic="events", **given)


def told(*runs: Simulation) -> Truth:
    return Truth("events", runs=tuple(run.for_truth() for run in runs))


WIDENED = {"versions": 3, "changes": ("widened",), "first_version": 4}


@pytest.mark.parametrize(
    ("before", "later"),
    [
        ([{"versions": 3}], WIDENED),
        ([{"versions": 1}, {"versions": 3, "first_version": 2}], WIDENED),
        # The third has all that the first two brought, and in the same types.
        ([{"versions": 3, "first_version": 3}], WIDENED),
        # What only grows changes no type.
        ([{"versions": 1}], {"versions": 5, "first_version": 4}),
        ([{"versions": 1}], {**WIDENED, "first_version": 3}),
        ([{"versions": 3}, WIDENED], {**WIDENED, "changes": ("widened", "changed"), "first_version": 5}),
    ],
)
def test_what_leaves_out_no_type_is_taken(before: list[dict[str, Any]], later: dict[str, Any]) -> None:
    check_order(told(*(simulation(**one) for one in before)), simulation(**later))


@pytest.mark.parametrize(
    ("before", "later", "missing"),
    [
        ([{"versions": 1}], WIDENED, "version 3 of events was never sent.*--versions 3-4"),
        (
            [{"versions": 3}],
            {**WIDENED, "changes": ("added", "widened"), "first_version": 5},
            "version 4 of .*--versions 4-5",
        ),
        (
            [{"versions": 2}],
            {**WIDENED, "changes": ("added", "widened"), "first_version": 5},
            "versions 3, 4 of events were never sent.*--versions 3-5",
        ),
    ],
)
def test_a_change_of_what_was_never_sent_is_refused(
    before: list[dict[str, Any]], later: dict[str, Any], missing: str
) -> None:
    with pytest.raises(ConfigError, match=missing):
        check_order(told(*(simulation(**one) for one in before)), simulation(**later))


def test_another_topic_is_refused_before_anything_is_sent() -> None:
    with pytest.raises(ConfigError, match="about topic 'other'"):
        check_order(Truth("other"), simulation())


def test_the_command_refuses_it_and_leaves_the_truth_as_it_is(tmp_path: Path) -> None:
    truth = tmp_path / "truth.json"
    save(told(simulation()), truth)
    before = truth.read_bytes()
    file = tmp_path / "widened.yaml"
    file.write_text(
        f"target: {{bootstrap_servers: '{SERVERS}', topic: events}}\nevolution: {{versions: 3, changes: [widened]}}\n"
    )
    words = ["simulate", str(file), "--versions", "4", "--truth", str(truth), "--append"]
    said = CliRunner().invoke(app, words)
    assert "version 3 of events was never sent" in str(said.exception)
    assert truth.read_bytes() == before
