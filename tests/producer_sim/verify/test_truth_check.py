"""Held against a truth tables may lack what somebody had erased, and what the settings keep out: so much, and nothing beside it."""

from __future__ import annotations

import json
from dataclasses import replace

import pyarrow as pa
import pytest
from tests.producer_sim.conftest import HandMade
from tests.producer_sim.verify.test_comparison import kinds

from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.erasure.record import PURGED, Gone, keep
from distributary.producer_sim.verify.comparison import compare
from distributary.producer_sim.verify.verdict import Verdict

PART = ("golf", 13)
WHERE = ["kafka_topic", "kafka_partition", "kafka_offset", "kafka_ts"]
OF_ITS_BATCH = 1


@pytest.fixture
def made(hand_made: HandMade) -> HandMade:
    return replace(hand_made, lake=replace(hand_made.lake, me=Whose.of("games")))


def taken(made: HandMade, count: int) -> pa.Table:
    """The first rows of a part, which are not in it any more."""
    part = made.part(*PART)
    rows = made.parts[part]
    made.parts[part] = rows.slice(count)
    return rows.slice(0, count)


def erased(made: HandMade, table: str, rows: pa.Table) -> None:
    """What an erasure keeps of these."""
    told = {"pipeline": "games", "id": "0" * 32, "table": table, PURGED: False}
    keep(made.lake.root, f"20250601T000000Z-{table}", {**told, "gone": Gone.of(rows).to_json()})


def verdict(made: HandMade) -> Verdict:
    made.write()
    return compare(made.lake, made.truth)


def kept_out(made: HandMade, reason: str, count: int, column: str = "rows_dropped") -> None:
    """The ledger says so of the batch."""
    row = made.ledger[OF_ITS_BATCH]
    row.update({"rows_tables": row["rows_tables"] - count, column: row[column] + count})
    row["rows_by_reason"] = json.dumps({reason: count})


def test_what_was_erased_is_not_lost(made: HandMade) -> None:
    gone = taken(made, 3)
    erased(made, made.part(*PART)[0], gone.select(WHERE))
    broken = pa.Table.from_pylist([made.quarantine.pop(7)]).select([*WHERE, "generation", "batch_id"])
    erased(made, "quarantine", broken.set_column(1, "kafka_partition", broken[1].cast(pa.int32())))
    assert verdict(made).differences == ()


def test_what_is_lost_beside_it_is_named(made: HandMade) -> None:
    gone = taken(made, 3)
    erased(made, made.part(*PART)[0], gone.slice(0, 2).select(WHERE))
    found = verdict(made)
    assert kinds(found) == {"rows_missing", "record_lost", "ledger_rows"}
    (lost,) = (one.detail for one in found.differences if one.kind == "record_lost")
    assert lost == f"offset {gone['kafka_offset'][2].as_py()}"


def test_what_was_erased_from_one_table_excuses_no_other(made: HandMade) -> None:
    gone = taken(made, 1)
    erased(made, made.lake.table_of("quest"), gone.select(WHERE))
    assert "rows_missing" in kinds(verdict(made))


@pytest.mark.parametrize("reason", ["expectation_drop", "erased", "delete"])
def test_what_the_settings_keep_out_is_not_lost(made: HandMade, reason: str) -> None:
    taken(made, 2)
    kept_out(made, reason, 2)
    assert verdict(made).differences == ()


def test_more_than_the_settings_keep_out_is(made: HandMade) -> None:
    taken(made, 3)
    kept_out(made, "expectation_drop", 2)
    assert {"rows_missing", "record_lost"} <= kinds(verdict(made))


@pytest.mark.parametrize("told", [True, False])
def test_a_record_that_does_not_meet_an_expectation_may_be_in_quarantine(made: HandMade, told: bool) -> None:
    row = taken(made, 1).to_pylist()[0]
    place = {name: row[name] for name in WHERE[:3]}
    refused = {**made.quarantine[0], **place, "reason": "expectation", "batch_id": OF_ITS_BATCH}
    made.quarantine.append(refused)
    kept_out(made, "expectation" if told else "malformed", 1, "rows_quarantined")
    assert kinds(verdict(made)) == (set() if told else {"rows_missing", "good_in_quarantine"})


def test_what_is_gone_from_quarantine_for_its_age_is_not_missed(made: HandMade) -> None:
    old = [one for one in made.quarantine if one["batch_id"] == OF_ITS_BATCH]
    made.quarantine = [one for one in made.quarantine if one["batch_id"] != OF_ITS_BATCH]
    made.ledger[OF_ITS_BATCH]["rows_purged"] = len(old)
    assert verdict(made).differences == ()


@pytest.mark.parametrize("told", [True, False])
def test_a_corrupt_record_may_have_been_kept_out_by_its_key(made: HandMade, told: bool) -> None:
    number = next(place for place, one in enumerate(made.quarantine) if one["batch_id"] == OF_ITS_BATCH)
    made.quarantine.pop(number)
    row = made.ledger[OF_ITS_BATCH]
    row.update({"rows_quarantined": row["rows_quarantined"] - 1, "rows_dropped": row["rows_dropped"] + 1})
    row["rows_by_reason"] = json.dumps({"erased" if told else "tombstone": 1})
    assert kinds(verdict(made)) == (set() if told else {"corrupt_not_quarantined"})
