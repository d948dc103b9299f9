"""`distributary verify` as it is typed, for tables that are named after what an expression makes of events."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.producer_sim.routed_world import TEMPLATE, TOPIC, Landed, world

from distributary.producer_sim.events.routes import Routed
from distributary.producer_sim.truth.sent import save

# No number is made of a country: an error, unless the settings ask for Spark's old ways.
EXPRESSION = "concat(game_name, cast(country as int) is null)"


def by_expression(event: Landed) -> str:
    return f"{event.values['game_name']}true"


@pytest.mark.spark
def test_an_expression_is_evaluated_in_a_session_with_the_pipeline_s_settings(tmp_path: Path) -> None:
    route = Routed("expression", EXPRESSION)
    made = world(tmp_path / "lake", route, by_expression)
    made.write()
    save(made.truth, tmp_path / "truth.json")
    pipeline = {
        "name": "games",
        "source": {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "topics": [TOPIC]},
        "registry": {"url": "http://127.0.0.1:1"},
        "route": {"by": "expression", "expression": EXPRESSION, "table": TEMPLATE},
        "sink": {"root": "./lake"},
        "spark": {"master": "local[1]", "conf": {"spark.sql.ansi.enabled": "false"}},
        "decode": {"engine": "spark"},
    }
    file = tmp_path / "games.yaml"
    file.write_text(yaml.safe_dump(pipeline), encoding="utf-8")
    words = ["verify", str(file), "--truth", str(tmp_path / "truth.json"), "--json"]
    ended = subprocess.run(
        [sys.executable, "-m", "distributary", *words], capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    verdict = json.loads(ended.stdout)
    assert (verdict["holds"], verdict["sent"], len(verdict["tables"])) == (True, 160, 3)
