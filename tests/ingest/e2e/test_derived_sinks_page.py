"""The page on what goes out of derived tables, done as it says."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/derived-sinks.md"


@pytest.mark.heavy
@pytest.mark.folder
def test_the_pages_settings_and_commands_do_what_it_says(kit: PipelineKit) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    kit.configured(**yaml.safe_load(shown))
    kit.simulate(1)
    admin = AdminClient({"bootstrap.servers": kit.bootstrap_servers})
    topics = [f"players-{kit.folder_of(game)[7:-7]}" for game in range(3)]
    for answer in admin.create_topics([NewTopic(name, 1, 1) for name in topics]).values():
        answer.result()
    (kit.settings_file.parent / "devices.csv").write_text("device,price\nphone,100\n")
    for line in re.findall(r"^    distributary (.*)$", text, re.MULTILINE):
        command = line.split()
        answered, output = said(kit, *command, *(["--available-now"] if command[0] == "run" else []))
        assert answered == 0, output
    for game in range(3):
        table = kit.folder_of(game)
        made = table.replace("silver", "gold").replace("events", "devices")
        assert sum(kit.rows(made)["events"].to_pylist()) == kit.rows(table).num_rows
        assert list((kit.settings_file.parent / "exported" / made).glob("*.parquet"))
