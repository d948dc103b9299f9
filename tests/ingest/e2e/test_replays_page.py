"""The page on bringing records back from quarantine, done as it says."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest
from tests.ingest.e2e.handmade import EVENT, registered, registered_beside
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said
from tests.ingest.e2e.registry_proxy import registry_proxy

from distributary.producer_sim.stack.local import LocalStack

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/quarantine.md"


# What the commands do is in `make test` without the page.
@pytest.mark.heavy
def test_the_pages_commands_do_what_it_says(kit: PipelineKit, stack: LocalStack) -> None:
    old = registered(kit)
    new = registered_beside(kit, EVENT.replace("int32 level = 3;", "int32 level = 3;\n  string mood = 4;"))
    with registry_proxy(stack.registry_url) as proxy:
        kit.configured(registry={"url": proxy.url, "unknown_id_wait_seconds": 0.0})
        proxy.deny(new.id, times=100)
        kit.send([old.value(game="chess", player="a"), new.value(game="chess", player="b"), b"\0\1"])
        kit.run()
    kit.configured(registry={"url": stack.registry_url})
    assert kit.settings_file.name == "games.yaml"
    told: dict[str, str] = {}
    for line in re.findall(r"^    distributary (.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE):
        words = shlex.split(line, comments=True)
        answered, output = said(kit, *words)
        assert answered == 0, output
        told.setdefault(words[1], output)
    assert f"unknown_schema, schema {new.id}, {kit.topic}: 1 open" in told["list"]
    assert "games: 2 records in quarantine" in told["list"]
    assert "reason: unknown_schema" in told["show"]
    assert "value:" not in told["show"]
    assert "silver_chess_events: 1 record\n" in told["replay"]
    assert "games: 1 of 1 record brought back" in told["replay"]
    assert told["games.yaml"].startswith("holds: 2 rows in 1 table, 1 in quarantine")
    # The records are of today, so none is old enough.
    assert "games: 0 records deleted" in told["purge"]
