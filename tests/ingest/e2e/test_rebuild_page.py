"""The page on making tables again from bronze, done as it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.ingest.e2e.handmade import registered
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/rebuild.md"


# What the commands do is in `make test` without the page: test_replays_of_bronze.py.
@pytest.mark.heavy
def test_the_pages_commands_do_what_it_says(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    kit.configured(bronze={})
    schema = registered(kit)
    kit.send([schema.value(game="chess", level=number) for number in range(3)])
    kit.run()
    kit.delta(kit.folder_of("chess")).delete("level = 1")
    assert kit.settings_file.name == "games.yaml"
    page = PAGE.read_text(encoding="utf-8")
    told: list[tuple[str, str]] = []
    for line in re.findall(r"^    distributary (.*)$", page, re.MULTILINE):
        words = shlex.split(line, comments=True)
        answered, output = said(kit, *words)
        assert answered == 0, output
        told.append((words[0], output))
    assert "games: 1 of 3 records would be decoded again" in told[0][1]
    assert f"{kit.folder_of('chess')}: 1 row\n" in told[1][1]
    assert "games: 1 of 3 records decoded again" in told[1][1]
    assert f"{kit.folder_of('chess')}: 3 rows would make room for what comes" in told[2][1]
    assert f"{kit.folder_of('chess')}: 3 rows in the place of 3" in told[3][1]
    assert "games: 3 of 3 records decoded again" in told[4][1]
    assert told[-1][1].startswith("holds: 3 rows in 1 table")
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    monkeypatch.chdir(kit.settings_file.parent)
    exec(compile(code, str(PAGE), "exec"), {})  # noqa: S102 - as the page says
    assert capsys.readouterr().out.endswith(
        f"{{'{kit.folder_of('chess')}': 2}} {{'{kit.folder_of('chess')}': 2}} {{}}\n"
    )
