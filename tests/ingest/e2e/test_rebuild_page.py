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
def test_the_pages_commands_do_what_it_says(kit: PipelineKit) -> None:
    kit.configured(bronze={})
    schema = registered(kit)
    kit.send([schema.value(game="chess", level=number) for number in range(3)])
    kit.run()
    kit.delta(kit.folder_of("chess")).delete("level = 1")
    assert kit.settings_file.name == "games.yaml"
    told: list[tuple[str, str]] = []
    for line in re.findall(r"^    distributary (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        words = shlex.split(line, comments=True)
        answered, output = said(kit, *words)
        assert answered == 0, output
        told.append((words[0], output))
    assert "games: 1 of 3 records would be decoded again" in told[0][1]
    assert f"{kit.folder_of('chess')}: 1 row\n" in told[1][1]
    assert "games: 1 of 3 records decoded again" in told[1][1]
    assert "games: 3 of 3 records decoded again" in told[2][1]
    assert told[-1][1].startswith("holds: 3 rows in 1 tables")
