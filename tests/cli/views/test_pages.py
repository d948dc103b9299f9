"""What pages of the docs show of commands is, line for line, what these print."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import datetime, timezone
from pathlib import Path

from distributary.ingest.erasure.outcome import Erasure, TableErasure
from distributary.ingest.erasure.record import RECORDS
from distributary.ingest.replay.bring_back import BroughtBack
from distributary.ingest.replay.deciding import Became
from distributary.ingest.replay.work import Replay
from distributary.views.erase import lines
from distributary.views.quarantine import replayed

HOW_TO = Path(__file__).resolve().parents[3] / "docs/how-to"


def shown(page: str) -> list[list[str]]:
    """What stands on a page between plain fences."""
    text = (HOW_TO / page).read_text(encoding="utf-8")
    found = re.findall(r"^```(\w*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    return [block.splitlines() for language, block in found if not language]


def test_the_page_on_erasing_a_person() -> None:
    final = datetime(2026, 12, 6, 9, 12, 4, tzinfo=timezone.utc)
    done = Erasure(
        pipeline="games",
        id="7c9e1f0a5d3b4c2e8f6a1b0d9c8e7f65",
        where="",
        dry_run=False,
        at=datetime(2026, 11, 29, 9, 12, 4, tzinfo=timezone.utc),
        tables=(
            TableErasure("chess", rows=2, hidden=1, files=2, final_at=final),
            TableErasure("go"),
            TableErasure("quarantine", rows=1, files=1, final_at=final),
        ),
    )
    done = replace(done, record=f"{RECORDS}/{done.name}.json")
    assert shown("erase-a-person.md") == [list(lines(done))]


def test_the_page_on_bringing_records_back() -> None:
    became = Became({"silver_chess_events": 25_000, "silver_go_events": 15_000})
    done = BroughtBack("games", (Replay("4f8d2b6c1e9a4d7f8b3c5a0e6d1f2c94", False, 40_000, became),))
    assert shown("quarantine.md")[1] == list(replayed(done))
