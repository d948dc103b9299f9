"""What tables did not take in a batch, as the next one of the run knows it."""

from __future__ import annotations

from pathlib import Path

from tests.ingest import kafka_records as records

from distributary.ingest.batch.attempt import RunMemory
from distributary.ingest.pins import COLUMNS, SCHEMA_CHANGE, RecordKey, Verdict

KEY: RecordKey = (1, ())


def test_of_tables_that_are_never_made_the_newest_are_known_and_no_more_with_each_batch(
    tmp_path: Path,
) -> None:
    """Their names may be whatever records say."""
    memory, hidden = RunMemory(), Verdict(COLUMNS, "it would show")
    for batch in range(3):
        again = {one.folder: {one.key: hidden} for one in memory.vetoed_by_new(())}
        new = {f"{batch}-{number}": {KEY: hidden} for number in range(800)}
        memory.note_vetoed(records.pins(tmp_path, vetoed={**again, **new}))
    found = memory.vetoed_by_new(())
    assert (len(found), found[0].folder, found[-1].folder) == (1000, "1-600", "2-799")
    assert {(one.reason, one.why, one.stops) for one in found} == {(COLUMNS, "it would show", False)}


def test_what_a_change_kept_from_a_table_that_is_gone_comes_to_the_one_that_is_made_anew(
    tmp_path: Path,
) -> None:
    memory = RunMemory()
    vetoed = {"there": {KEY: Verdict(COLUMNS, "")}, "gone": {KEY: Verdict(SCHEMA_CHANGE, "")}}
    memory.note_vetoed(records.pins(tmp_path, vetoed=vetoed))
    assert memory.vetoed_by_new({"there"}) == []
