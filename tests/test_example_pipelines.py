"""The examples whole: as `make examples` plays them, each held against a recomputation by other means."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from examples.__main__ import PLAYS

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.stack
@pytest.mark.parametrize("name", PLAYS)
def test_an_example_comes_to_its_end(name: str) -> None:
    command = [sys.executable, "-m", "examples", name]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=290, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "verify holds" in done.stdout


@pytest.mark.parametrize("name", PLAYS)
def test_an_example_has_its_settings_and_a_page(name: str) -> None:
    assert (ROOT / "examples" / name / "pipeline.yaml").is_file()
    page = (ROOT / "examples" / name / "README.md").read_text(encoding="utf-8")
    assert "```mermaid" in page
    assert f"[{name}]({name}/README.md)" in (ROOT / "examples/README.md").read_text(encoding="utf-8")


def test_the_page_on_cameras_shows_the_settings_of_the_example() -> None:
    page = (ROOT / "docs/how-to/cameras.md").read_text(encoding="utf-8")
    for name in ("pipeline.yaml", "report.yaml"):
        settings = (ROOT / "examples/cameras" / name).read_text(encoding="utf-8")
        assert f"```yaml\n{settings}```" in page
