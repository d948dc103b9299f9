"""What a pipeline had under another name is old with what it has since, and goes with it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest
from tests.ingest.upkeep.test_record import (
    GENERATION,
    MONTH,
    NOW,
    NOW_MS,
    append,
    brought_back,
    put,
    quarantined,
    read,
)

from distributary.ingest.columns.safe_names import BATCHES_TABLE, QUARANTINE_TABLE
from distributary.ingest.commit_log.entries import Owner
from distributary.ingest.commit_log.owners import Records, Whose, said_of
from distributary.ingest.replay.outcomes import Outcome, tell
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA
from distributary.ingest.upkeep.record import Pipeline, RecordUpkeep, keep_record
from distributary.ingest.upkeep.replayed import OUTCOMES
from distributary.ingest.upkeep.undecided import Undecided
from distributary.ingest.upkeep.whose import by_ledger
from distributary.producer_sim.verify.comparison import compare
from distributary.producer_sim.verify.lake import Lake


def test_the_ledger_says_of_each_batch_that_its_quarantined_records_went_whatever_it_was_called_by(
    tmp_path: Path,
) -> None:
    """They go by generation and number."""
    root = files_at(tmp_path)
    for number, days in enumerate((50, 50, 49, 20, 1, 1)):
        put(root, number, NOW - timedelta(days=days, minutes=60 - number))
    opened(root.below(BATCHES_TABLE)).update({"pipeline": "'games before'"}, predicate="batch_id < 2")
    brought_back(root, [0], pipeline="games before")
    records = Records(root)
    assert records.put("golf", 0, Owner("games before", "/log", GENERATION))
    assert records.put("golf", 1, Owner("games", "/log", GENERATION))
    _, whose = records.of_pipeline("games")
    done = keep_record(root, Pipeline(whose, Undecided()), MONTH, NOW_MS)
    assert (done.batches, done.quarantined, done.resolved) == (1, 3, 1)
    assert quarantined(root) == [3, 4, 5]
    lake = Lake(root=root, template="{entity}", me=records.of_pipeline("games", GENERATION)[1])
    assert compare(lake).differences == ()


def test_what_whoever_has_a_name_of_before_has_stays_and_what_replays_refused_under_it_goes(
    tmp_path: Path,
) -> None:
    """All that the other one got is in quarantine, so that it has no table by which it would be known."""
    root, now = files_at(tmp_path), datetime.now(timezone.utc)
    for number, days in enumerate((50, 50, 49, 20, 1, 1)):
        put(root, number, NOW - timedelta(days=days, minutes=60 - number), generation="b" * 32)
    mine = Pipeline(Whose("matches", frozenset({"matches", "games"}), frozenset({GENERATION})), Undecided())
    assert keep_record(root, mine, MONTH, NOW_MS) == RecordUpkeep()
    refused = dict.fromkeys(QUARANTINE_SCHEMA.names) | {"pipeline": "games", "batch_id": 0}
    append(root, QUARANTINE_TABLE, [{**refused, "generation": "c" * 32}], QUARANTINE_SCHEMA)
    tell(root, said_of("games", None), "c" * 32, now.isoformat(), Outcome().to_json(), 1)
    later = int((now + timedelta(days=31)).timestamp() * 1000)
    assert keep_record(root, mine, MONTH, later) == RecordUpkeep(quarantined=1)
    assert {one["generation"] for one in read(root, QUARANTINE_TABLE)} == {"b" * 32}


def test_the_ledger_is_asked_once_a_round_whose_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may have a row for each batch of years."""
    root, now, asked = files_at(tmp_path), datetime.now(timezone.utc), list[Files]()
    for number, generation in enumerate("aaabbb"):
        put(root, number, now - timedelta(days=50, minutes=60 - number), generation=generation * 32)
    for number, generation in enumerate("ab"):
        brought_back(root, [3 * number], generation=generation * 32)
    for number in range(8):
        tell(root, said_of("games", None), f"{number:032x}", now.isoformat(), Outcome().to_json(), number)
    newest_first = by_ledger._newest_first

    def counted(there: Files) -> list[tuple[str | None, str]]:
        asked.append(there)
        return newest_first(there)

    monkeypatch.setattr(by_ledger, "_newest_first", counted)
    later = int((now + timedelta(days=31)).timestamp() * 1000)
    mine = Pipeline(Whose("games", frozenset({"games"}), frozenset({"b" * 32})), Undecided())
    done = keep_record(root, mine, MONTH, later)
    assert (done.resolved, done.failed, len(asked)) == (2, None, 1)
    assert len(list(root.names(OUTCOMES))) == 1
