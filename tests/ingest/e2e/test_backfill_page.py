"""The page on reading a range once more, done as it says, beside a pipeline that has read all of it."""

from __future__ import annotations

import re
import shlex
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
import yaml
from confluent_kafka import Producer
from tests.ingest.e2e.handmade import Schema
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said

from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/backfill.md"

EVENT = 'syntax = "proto3"; message Event { string game_name = 1; int32 level = 2; }'
START = datetime(2026, 10, 31, tzinfo=timezone.utc)


def send(kit: PipelineKit) -> None:
    """Records of three days, twelve a day by turns of two games, in two partitions."""
    schema = Schema(kit.register(EVENT), EVENT)
    producer = Producer({"bootstrap.servers": kit.bootstrap_servers})
    for n in range(36):
        when = int((START + timedelta(hours=2 * n)).timestamp() * 1000)
        value = schema.value(game_name="Pixel Racer" if n % 2 else "Golf", level=n)
        producer.produce(kit.topic, value=value, partition=n // 2 % 2, timestamp=when)
    assert producer.flush(60) == 0


# What its settings do is in `make test` without the page.
@pytest.mark.heavy
def test_a_day_is_read_once_more_beside_the_running_pipeline(kit: PipelineKit) -> None:
    text = PAGE.read_text(encoding="utf-8")
    send(kit)
    kit.run()
    before = kit.versions()
    ranged, _ = re.findall(r"^    distributary (run .*)$", text, re.MULTILINE)
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)

    assert kit.settings_file.name == "games.yaml"
    answered, output = said(kit, *shlex.split(ranged))
    assert answered == 0, output
    assert kit.versions() == before

    given = [word for word in shlex.split(ranged) if "=" in word]
    checked = [part for word in given for part in ("--set", word)]
    answered, output = said(kit, "verify", "games.yaml", *checked, "--set", "source.until=2026-11-02T00:00Z")
    assert (answered, "to be read yet" in output) == (0, False), output

    again = {"name": "one", "sink": {"root": "./one"}, "checkpoint": "./one-checkpoint"}
    bounds = {"starting_offsets": "2026-11-01T00:00:00Z", "until": "2026-11-02T00:00:00Z"}
    kit.configured(**again, source=bounds).configured(**yaml.safe_load(shown))
    assert kit.run().summary.rows == 12
    assert sorted(kit.rows("silver_fixed_events")["level"].to_pylist()) == list(range(13, 24, 2))
    assert [folder for folder in kit.versions() if folder.startswith("silver")] == ["silver_fixed_events"]
    assert not verify(kit.settings).differences
