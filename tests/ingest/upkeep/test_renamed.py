"""What a pipeline had under another name is old with what it has since, and goes with it."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

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
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA
from distributary.ingest.upkeep.record import Pipeline, RecordUpkeep, keep_record
from distributary.ingest.upkeep.undecided import Undecided
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
