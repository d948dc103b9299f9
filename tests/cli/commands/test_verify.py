"""`distributary verify` with the words that a user types, for tables that are named after what an expression makes of events."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import yaml
from pyspark.sql import SparkSession
from tests.producer_sim.routed_world import TEMPLATE, TOPIC, Landed, world

from distributary import cli
from distributary.commands import verify as commands_verify
from distributary.ingest.session import made_for
from distributary.ingest.settings.model import Settings
from distributary.producer_sim.events.routes import Routed
from distributary.producer_sim.truth.sent import save

# No number is made of a country: an error, unless the settings ask for Spark's old ways.
EXPRESSION = "concat(game_name, cast(country as int) is null)"


def by_expression(event: Landed) -> str:
    return f"{event.values['game_name']}true"


@pytest.fixture
def shared(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Commands take the session of all tests and give it their settings; afterwards it has its own again."""

    @contextmanager
    def session(settings: Settings) -> Iterator[SparkSession]:
        yield made_for(settings)

    monkeypatch.setattr(commands_verify, "session", session)
    before = str(spark.conf.get("spark.sql.ansi.enabled"))
    yield
    spark.conf.set("spark.sql.ansi.enabled", before)


def test_its_progress_ends_at_the_last_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = world(
        tmp_path / "lake", Routed("field", "game_name"), lambda event: str(event.values["game_name"])
    )
    made.write()
    save(made.truth, tmp_path / "truth.json")
    pipeline = {
        "name": "games",
        "source": {"kafka": {"bootstrap.servers": "127.0.0.1:1"}, "topics": [TOPIC]},
        "registry": {"url": "http://127.0.0.1:1"},
        "route": {"field": "game_name", "table": TEMPLATE},
        "sink": {"root": "./lake"},
    }
    file = tmp_path / "games.yaml"
    file.write_text(yaml.safe_dump(pipeline), encoding="utf-8")
    with pytest.raises(SystemExit) as ended:
        cli.main(["verify", str(file), "--truth", str(tmp_path / "truth.json")])
    told = capsys.readouterr().err.splitlines()
    assert ended.value.code == 0, told
    assert told[0] == "verifying tables"
    assert told[-1] == "verifying tables: 3 of 3"


@pytest.mark.spark
@pytest.mark.usefixtures("shared")
def test_an_expression_is_evaluated_in_a_session_with_the_pipeline_s_settings(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
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
    with pytest.raises(SystemExit) as ended:
        cli.main(words)
    printed = capsys.readouterr()
    assert ended.value.code == 0, printed.err
    verdict = json.loads(printed.out)
    assert (verdict["holds"], verdict["sent"], len(verdict["tables"])) == (True, 160, 3)
