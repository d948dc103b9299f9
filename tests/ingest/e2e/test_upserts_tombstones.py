"""Deletes that mark rows, that are kept out, or that are records without a value, on the real broker: held against the topic."""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import pytest
from tests.ingest.e2e.handmade import reasons
from tests.ingest.e2e.keyed import GAMES, Kept, Keyed, counted, held, newest, rows_of, topic_of
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.test_upserts_deleting import RULE, by_time, takes

from distributary.errors import PolicyStopped
from distributary.ingest.merge.rule import memory_folder
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack]

WHEN = "op = 'd'"


def assert_whole(kit: PipelineKit) -> None:
    counted(kit)
    found = verify(kit.settings).differences
    assert not found, "\n".join(map(str, found))


@dataclass
class Row:
    """What a key's row says."""

    score: int
    offset: int
    deleted: bool | None


def marked(kit: PipelineKit) -> dict[tuple[str, Any], Row]:
    """The row of each key that ever had one: what a delete leaves of it says so."""
    found: dict[tuple[str, Any], Row] = {}
    tops: dict[tuple[str, Any], Any] = {}
    # All of a key are in one partition, in this order.
    for kept in topic_of(kit):
        if kept.body is None or not takes(kept):
            continue
        key = (kept.body["game"], kept.body["player"]["id"])
        if key in tops and by_time(kept) < tops[key]:
            continue
        tops[key] = by_time(kept)
        if kept.body.get("op") == "d":
            if key in found:
                found[key] = Row(found[key].score, kept.offset, True)
        else:
            found[key] = Row(kept.body["score"], kept.offset, False)
    return found


# Lighter: test_deletes_that_are_kept_out_are_counted has tombstones.
@pytest.mark.heavy
def test_a_deleted_row_stays_and_says_so(kit: PipelineKit) -> None:
    keyed = Keyed(kit).configured({**RULE, "deletes": None}, limits={"batch_rows": 25})
    keyed.send(20)
    kit.run()
    # The tables that are there get the column.
    keyed.deletes = 0.3
    keyed.configured({**RULE, "deletes": {"when": WHEN, "mark": "is_deleted"}})
    for players in (8, 12):
        keyed.send(60, players=players)
        kit.run()
        rows = [((game, row["player"]["id"]), row) for game in GAMES for row in rows_of(kit, game)]
        # A row of before the column has none.
        found = {key: Row(row["score"], row["kafka_offset"], bool(row["is_deleted"])) for key, row in rows}
        assert len(found) == len(rows)
        assert found == marked(kit)
        assert {row.deleted for row in found.values()} == {True, False}
        assert counted(kit)["deleted"] > 0
        assert_whole(kit)


# Lighter: test_deletes_that_are_kept_out_are_counted has tombstones.
@pytest.mark.heavy
def test_no_column_that_a_table_has_by_another_case_marks_its_rows(kit: PipelineKit) -> None:
    """To most engines the mark would be a second column of that name; the run ended, taking that for a defect of its own."""
    keyed = Keyed(kit).configured({**RULE, "deletes": None})
    keyed.send(20)
    kit.run()
    keyed.deletes = 0.3
    keyed.configured({**RULE, "deletes": {"when": WHEN, "mark": "Score"}})
    keyed.send(20)
    with pytest.raises(PolicyStopped, match="it has a column score, which engines take for Score"):
        kit.run()
    assert all("Score" not in row for game in GAMES for row in rows_of(kit, game))
    keyed.configured({**RULE, "deletes": {"when": WHEN, "mark": "gone"}})
    kit.run()
    assert_whole(kit)


def test_deletes_that_are_kept_out_are_counted(kit: PipelineKit) -> None:
    keyed = Keyed(kit, deletes=0.3).configured({**RULE, "deletes": {"when": WHEN, "then": "ignore"}})
    keyed.send(60)
    kit.run()

    def stays(kept: Kept) -> bool:
        return takes(kept) and kept.body is not None and kept.body["op"] == "u"

    assert held(kit) == {key: kept.position for key, kept in newest(kit, by_time, stays).items()}
    deletes = sum(kept.body is not None and kept.body["op"] == "d" for kept in topic_of(kit))
    empty = sum(kept.body is None for kept in topic_of(kit))
    assert deletes > 0
    (row,) = kit.rows("ledger_batches").to_pylist()
    assert row["rows_dropped"] == deletes + empty
    assert f'"delete": {deletes}' in row["rows_by_reason"]
    assert kit.rows(memory_folder("go")).num_rows == 0
    assert_whole(kit)


# Lighter: test_deletes_that_are_kept_out_are_counted has tombstones.
@pytest.mark.heavy
def test_records_without_a_value_delete_the_row_of_their_key(kit: PipelineKit) -> None:
    rule = {"match": "*", "mode": "upsert", "keys": "kafka_key"}
    kit.configured(
        decode={"format": "json", "evolution": "inline"},
        route={"field": None, "by": "topic", "table": "{entity}"},
        limits={"batch_rows": 20},
        tables=[{**rule, "deletes": {"when": WHEN, "tombstones": "delete"}}],
    )
    keyed, rng = Keyed(kit), random.Random(7)
    # The table begins with deletes alone, of keys that nobody knows.
    for player in (0, 1):
        keyed.send_one(player, None)
    kit.run()
    folder = kit.lake.table_of(kit.topic)
    assert rows_of(kit, folder) == []
    assert kit.rows(memory_folder(folder)).num_rows == 2
    for _ in range(2):
        for at in range(50):
            player, drawn = rng.randrange(10), rng.random()
            body = {"game": "go", "player": 1, "score": at, "op": "d" if drawn > 0.85 else "u"}
            keyed.send_one(player, None if drawn < 0.2 else body)
        kit.send([None], key=None)  # type: ignore[arg-type]
        kit.run()
        last = {kept.key: kept for kept in topic_of(kit) if kept.key is not None}
        stays = {
            key: (kept.partition, kept.offset)
            for key, kept in last.items()
            if kept.body is not None and kept.body["op"] == "u"
        }
        found = rows_of(kit, folder)
        assert 0 < len(stays) < len(last)
        assert {
            bytes(row["kafka_key"]): (row["kafka_partition"], row["kafka_offset"]) for row in found
        } == stays
        assert len(found) == len(stays)
        assert_whole(kit)
    told = counted(kit)
    assert told["deleted"] > 0
    assert (told["dropped"], reasons(kit)) == (0, {"null_key": 2})
