"""Whose a checkpoint was that never had a table is known by who had its name next."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.ingest.upkeep.test_record import TOPIC, append, put, row

from distributary.errors import PipelineError
from distributary.ingest.columns.safe_names import BATCHES_TABLE, QUARANTINE_TABLE, RESOLVED_TABLE
from distributary.ingest.commit_log.entries import Owner
from distributary.ingest.commit_log.owners import Records, Whose
from distributary.ingest.erasure.record import Gone, all_gone, keep
from distributary.ingest.quarantine.resolved import RESOLVED_SCHEMA
from distributary.ingest.replay.outcomes import Outcome, tell
from distributary.ingest.replay.places import Places
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.ledger import BATCHES_SCHEMA, QUARANTINE_SCHEMA
from distributary.ingest.upkeep.resolved import TO_TABLE, keep_moved, let_go
from distributary.ingest.upkeep.whose.by_ledger import with_unowned
from distributary.producer_sim.verify.comparison import compare
from distributary.producer_sim.verify.lake import Lake

NOW = datetime(2026, 3, 1, tzinfo=timezone.utc)

FIRST, SECOND, ANOTHER = "1" * 32, "2" * 32, "3" * 32


def ledger(root: Files, *used: tuple[str, str]) -> None:
    rows = [
        row(number, NOW + timedelta(days=number), generation, name)
        for number, (name, generation) in enumerate(used)
    ]
    append(root, BATCHES_TABLE, rows, BATCHES_SCHEMA)


def test_of_two_that_had_a_name_one_after_the_other_the_later_tells_whose_the_earlier_was(
    tmp_path: Path,
) -> None:
    root = files_at(tmp_path)
    renamed = Whose("plays", frozenset({"plays", "games"}), frozenset({SECOND}))
    assert with_unowned(root, renamed) == renamed
    ledger(root, ("games", FIRST), ("games", SECOND), ("plays", SECOND), ("games", ANOTHER))
    found = with_unowned(root, renamed)
    assert (set(found.mine), set(found.others)) == ({FIRST, SECOND}, set())
    # Who has the name by now has neither, whether it has a table or not.
    of_now = Whose("games", frozenset({"games"}), frozenset({ANOTHER}), frozenset({SECOND}))
    found = with_unowned(root, of_now)
    assert (set(found.mine), set(found.others)) == ({ANOTHER}, {FIRST, SECOND})
    (tmp_path / BATCHES_TABLE / "_delta_log/00000000000000000001.json").write_text("{", encoding="utf-8")
    with pytest.raises(PipelineError, match="ledger_batches cannot be read"):
        with_unowned(root, renamed)


def test_what_got_a_name_that_nobody_is_known_by_is_not_of_whoever_has_its_name_of_before(
    tmp_path: Path,
) -> None:
    """It was renamed before it had a table."""
    root = files_at(tmp_path)
    ledger(root, ("games", ANOTHER), ("games", FIRST), ("plays", FIRST), ("games", SECOND))
    of_now = Whose("games", frozenset({"games"}), frozenset({SECOND}))
    found = with_unowned(root, of_now)
    assert (set(found.mine), set(found.others)) == ({SECOND}, {FIRST, ANOTHER})
    assert not (found.has("games", FIRST) or found.has("plays", FIRST))
    found = with_unowned(root, Whose("plays", frozenset({"plays"}), frozenset({FIRST})))
    assert (set(found.mine), set(found.others)) == ({FIRST, ANOTHER}, set())


def renamed_to(root: Files, name: str, generation: str) -> Whose:
    """The pipeline whose tables told another name before, which is that of another one with a table by now."""
    records = Records(root)
    assert records.put("golf", 0, Owner("games", "/log", generation))
    assert records.put("golf", 1, Owner(name, "/log", generation))
    assert records.put("chess", 0, Owner("games", "/other", ANOTHER))
    return records.of_pipeline(name, generation)[1]


def at(offset: int) -> dict[str, object]:
    return {"kafka_topic": TOPIC, "kafka_partition": 0, "kafka_offset": offset}


def test_what_was_erased_replayed_and_let_go_under_a_name_that_another_has_by_now_is_told_by_its_checkpoint(
    tmp_path: Path,
) -> None:
    root = files_at(tmp_path)
    put(root, 0, NOW, generation=SECOND)
    whose = renamed_to(root, "plays", SECOND)
    before = Whose("games", frozenset({"games"}), frozenset({SECOND}), now=SECOND)
    names = ["kafka_topic", "kafka_partition", "kafka_offset", "kafka_ts"]

    gone = Gone.of(pa.Table.from_pylist([{**at(0), "kafka_ts": NOW}]).select(names))
    keep(root, "a-00000", {**before.said, "id": "a", "table": "golf", "gone": gone.to_json()})
    opened(root.below("golf")).delete("kafka_offset = 0")
    resolved = [{**at(4), "generation": SECOND, "outcome": TO_TABLE}]
    keep_moved(root, before, pa.Table.from_pylist(resolved))

    places: Places = {(TOPIC, 0): np.array([1], np.int64)}
    tell(root, before.said, "r" * 32, NOW.isoformat(), Outcome(dropped=places).to_json(), 1)
    opened(root.below("golf")).delete("kafka_offset = 1")
    lake = Lake(root=root, template="{entity}", me=whose, others={"chess": "games"})
    assert compare(lake).differences == ()
    of_now = Records(root).of_pipeline("games", ANOTHER)[1]
    assert not list(all_gone(root, of_now))
    assert not list(let_go(root, of_now))
    # Brought together by whoever has the checkpoint, it stays its own.
    keep_moved(root, whose, pa.Table.from_pylist([{**at(3), "generation": SECOND, "outcome": TO_TABLE}]))
    assert [offsets.tolist() for _, offsets in let_go(root, whose)] == [[3, 4]]
    assert not list(let_go(root, of_now))


def test_what_a_replay_of_another_pipeline_refused_or_brought_back_is_no_matter_of_this_one(
    tmp_path: Path,
) -> None:
    """It is in quarantine by the replay, of which no ledger tells."""
    root, replay = files_at(tmp_path), "9" * 32
    put(root, 0, NOW, generation=FIRST)
    theirs = {"generation": replay, "batch_id": 0, "pipeline": "others"}
    refused = {**dict.fromkeys(QUARANTINE_SCHEMA.names), **at(0), **theirs}
    append(root, QUARANTINE_TABLE, [refused, {**refused, **at(77)}], QUARANTINE_SCHEMA)
    told = {**theirs, **at(1), "replay": "r", "at": NOW, "outcome": TO_TABLE, "table": "others"}
    append(root, RESOLVED_TABLE, [told], RESOLVED_SCHEMA)
    me = Whose("games", frozenset({"games"}), frozenset({FIRST}))
    lake = Lake(root=root, template="{entity}", me=me)
    assert compare(lake).differences == ()
    # What a replay of its own refused is where no batch read it, if that is so.
    append(root, QUARANTINE_TABLE, [{**refused, **at(78), "pipeline": "games"}], QUARANTINE_SCHEMA)
    assert [one.kind for one in compare(lake).differences] == ["ledger_rows"]
