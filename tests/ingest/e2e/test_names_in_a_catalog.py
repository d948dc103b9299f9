"""The page on names in a catalog, as it stands: a run names its tables, and another program finds them by their names."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit
from tests.ingest.e2e.planted import said

from distributary.producer_sim.traffic.events import game_names

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/names-in-a-catalog.md"


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.stack
@pytest.mark.folder
def test_what_the_page_says_is_so(kit: PipelineKit) -> None:
    page = PAGE.read_text(encoding="utf-8")
    (settings,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (program,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    kit.configured(**yaml.safe_load(settings))
    kit.simulate(1, events=60)
    file = kit.settings_file
    for command in re.findall(r"^    distributary (.*)$", page, re.MULTILINE):
        code, output = said(kit, *command.replace("games.yaml", str(file)).split())
        assert code == 0, output
    folder = file.parent
    done = subprocess.run(
        [sys.executable, "-c", program.replace("pixel_racer", game_names(1)[0])],
        env={**os.environ},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = done.stdout
    rows = len(kit.rows(kit.folder_of(game_names(1)[0])))
    assert re.search(rf"\|\s*{rows}\|", found), found
    for game in game_names(3):
        assert re.search(rf"\|\s*bronze\|\s*{game}\|", found.replace(" ", "")), found
    kit.assert_clean()
