"""Each simulation that comes with the package can be sent, and a file of one's own comes before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.errors import ConfigError
from distributary.producer_sim.traffic.presets import about, find, presets
from distributary.producer_sim.traffic.simulation import Simulation


@pytest.mark.parametrize("name", presets())
def test_a_preset_can_be_sent_and_says_what_it_is_for(name: str) -> None:
    assert Simulation.from_file(find(name), {}).total > 0
    assert about(presets()[name]).endswith(".")


def test_a_file_comes_before_a_preset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert find("games") == presets()["games"]
    (tmp_path / "games").touch()
    assert find("games") == Path("games")
    with pytest.raises(ConfigError, match=r"there is no file golf, .*presets are games, harm"):
        find("golf")
