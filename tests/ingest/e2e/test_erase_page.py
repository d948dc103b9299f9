"""The page on erasing a person, done as it says."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml
from tests.ingest.e2e.keyed import rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.planted import said

pytestmark = [pytest.mark.spark, pytest.mark.stack]

PAGE = Path(__file__).resolve().parents[3] / "docs/how-to/erase-a-person.md"


def record(game: str, player: Any, score: int) -> bytes:
    return json.dumps({"game": game, "player": player, "score": score}).encode()


def plain(text: str) -> str:
    """Without what each erasure has of its own: when it is final, and its name."""
    return re.sub(r"after [-0-9: ]+ UTC|[0-9TZ]+-[0-9a-f]{32}", "…", text)


# What the command does is in `make test` without the page.
@pytest.mark.heavy
def test_the_pages_commands_do_what_it_says(kit: PipelineKit) -> None:
    text = PAGE.read_text(encoding="utf-8")
    (shown,) = re.findall(r"^```\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    rule = {"match": "chess", "mode": "upsert", "keys": ["player.id"], "sequence_by": ["score"]}
    kit.configured(decode={"format": "json"}, route={"field": "game", "table": "{entity}"}, tables=[rule])
    kit.send([record("chess", {"id": 7}, 1), record("chess", {"id": 9}, 1), record("go", {"id": 8}, 1)])
    kit.run()
    kit.send([record("chess", {"id": 7}, 2)])
    kit.send([b"{"], key=b"p7")
    kit.run()
    assert kit.settings_file.name == "games.yaml"
    dry, wet, upkeep = re.findall(r"^    distributary (.*)$", text, re.MULTILINE)
    told = list[str]()
    for line in (dry, wet, upkeep):
        answered, output = said(kit, *shlex.split(line, comments=True))
        assert answered == 0, output
        told.append(output)
    assert set(plain(shown).splitlines()) <= set(plain(told[1]).splitlines())
    assert "would be erased" in told[0]
    assert [row["player"]["id"] for row in rows_of(kit, "chess")] == [9]
    assert kit.rows("quarantine").num_rows == 0
    answered, output = said(kit, "verify", str(kit.settings_file))
    assert answered == 0, output

    (kept_away,) = re.findall(r"^```yaml\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    kit.configured(**yaml.safe_load(kept_away), checkpoint="./another", start="again")
    answered, output = said(kit, "settings", "check", str(kit.settings_file))
    assert answered == 0, output
    kit.run()
    assert [row["player"]["id"] for row in rows_of(kit, "chess")] == [9]
    # What cannot be decoded is known by its key.
    assert kit.rows("quarantine").num_rows == 0
