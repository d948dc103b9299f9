"""The page on columns, done as it says."""

from __future__ import annotations

import hashlib
import hmac
import re
from decimal import Decimal
from pathlib import Path

import pytest
import yaml
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import holding, said
from tests.ingest.reshaping.test_shape import WORD

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/columns.md"


# What its settings do is in `make test` without the page.
@pytest.mark.heavy
@pytest.mark.checkpoint_folder
def test_the_pages_settings_and_commands_do_what_it_says(
    kit: PipelineKit, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (record,) = re.findall(r"^```json\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    (told,) = re.findall(r"^```\n(tables\[0\].*?)^```$", text, re.MULTILINE | re.DOTALL)
    monkeypatch.setenv("HASH_SECRET", WORD)
    kit.configured(route={"field": None}).configured(**yaml.safe_load(shown))
    kit.send([record.encode(), record.replace('"12.50"', '"much"').encode()], headers={"X-Trace-Id": b"t-1"})
    assert kit.settings_file.name == "games.yaml"
    for line in re.findall(r"^    distributary (.*)$", text, re.MULTILINE):
        command = line.partition("#")[0].split()
        answered, output = said(kit, *command, *(["--available-now"] if command[0] == "run" else []))
        assert answered == 0, output
        if command[0] == "plan":
            assert told in output

    def digest(value: str) -> str:
        return hmac.new(WORD.encode(), value.encode(), hashlib.sha256).hexdigest()

    (row,) = kit.rows(kit.lake.table_of(kit.topic)).to_pylist()
    columns = {name: value for name, value in row.items() if name not in _OWN}
    assert columns == {
        "order_id": 17,
        "amount": Decimal("12.50"),
        "card": "****1111",
        "customer": {"name": "hidden", "email": digest("ann@example.org")},
        "contacts": [{"phone": digest("+49 30 1234"), "kind": "home"}],
        "region": "eu",
        "trace_id": "t-1",
        "kafka_timestamp_type": "create_time",
    }
    (refused,) = kit.rows("quarantine").to_pylist()
    assert (refused["reason"], refused["value"], refused["kafka_key"]) == ("columns", None, None)
    answered, output = said(kit, "verify", str(kit.settings_file))
    assert answered == 0, output
    assert not holding(WORD, kit.folder / "checkpoints")


_OWN = {"kafka_topic", "kafka_partition", "kafka_offset", "kafka_ts", "kafka_key", "schema_id"}
