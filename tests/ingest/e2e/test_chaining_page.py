"""The page on pipelines that read each other's tables, done as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from deltalake import DeltaTable
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said

from distributary.ingest.settings.model import Settings

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.folder]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/chain-pipelines.md"

SHOWN = re.findall(r"^```yaml\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


# The lighter one runs no process of its own: test_chained.py.
@pytest.mark.heavy
def test_the_pages_settings_and_commands_do_what_it_says(kit: PipelineKit) -> None:
    kit.simulate(1)
    kit.run()
    input_ = kit.folder_of(0)
    assert input_ in SHOWN[0], "as the tutorial's"
    (kit.folder / "levels.yaml").write_text(SHOWN[0])
    for line in re.findall(r"^    distributary (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        answered, output = said(kit, *line.split())
        assert answered == 0, output
    tables = [one for one in (kit.folder / "gold").iterdir() if one.name.startswith("gold_")]
    assert tables
    found = sum(DeltaTable(str(one)).to_pyarrow_table().num_rows for one in tables)
    assert found == kit.rows(input_).num_rows


def test_the_pages_other_settings_are_such(tmp_path: Path) -> None:
    both = {**yaml.safe_load(SHOWN[0]), **yaml.safe_load(SHOWN[1])}
    settings = Settings.from_dict(both, tmp_path)
    assert settings.source.delta is not None
    assert settings.source.delta.read == "changes"
