"""The page on streams, done as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/streams.md"


@pytest.mark.heavy  # what streams add is tested without the page
@pytest.mark.folder
def test_the_pages_settings_and_commands_do_what_it_says(kit: PipelineKit) -> None:
    text = PAGE.read_text(encoding="utf-8")
    shown, *_ = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    kit.configured(**yaml.safe_load(shown))
    kit.simulate(1)
    (kit.settings_file.parent / "devices.csv").write_text("device,kind\nphone,mobile\n")
    for line in re.findall(r"^    distributary (.*)$", text, re.MULTILINE):
        command = line.replace("gold_chess_minutes", f"gold_{kit.folder_of(0)[7:-7]}_minutes").split()
        answered, output = said(kit, *command, *(["--available-now"] if command[0] == "run" else []))
        assert answered == 0, output
    for game in range(3):
        places = [one for one in kit.rows(kit.folder_of(game))["kafka_offset"].to_pylist() if one % 100 == 0]
        large = kit.rows(f"gold_{kit.folder_of(game)[7:-7]}_large")
        assert sorted(large["place"].to_pylist()) == sorted(places)
