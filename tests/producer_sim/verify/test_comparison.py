"""Tables without a fault pass; every fault put into them is named, where it is and as what it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from tests.producer_sim.conftest import EVENTS, GAMES, SCHEMA_IDS, TOPIC, ColumnOf, HandMade

from distributary.errors import CheckFailed
from distributary.producer_sim.truth.sent import Group, PartitionOffset, Sent, Truth
from distributary.producer_sim.verify.comparison import SurveyedSoFar, compare
from distributary.producer_sim.verify.verdict import DifferenceKind, Verdict

PART = ("golf", 13)


def kinds(verdict: Verdict) -> set[DifferenceKind]:
    return {difference.kind for difference in verdict.differences}


def test_tables_as_they_should_be_pass(hand_made: HandMade) -> None:
    hand_made.write()
    verdict = compare(hand_made.lake, hand_made.truth)
    assert verdict.differences == ()
    verdict.check()
    assert verdict.rows_in_tables == EVENTS * len(SCHEMA_IDS) == hand_made.truth.good
    assert (verdict.rows_quarantined, verdict.rows_dropped, verdict.batches) == (18, 3, 3)
    assert verdict.sent == hand_made.truth.records == EVENTS * 3 + 18 + 3
    assert {table.schema_ids for table in verdict.tables} == {(11, 13, 14)}


def test_they_pass_without_truth_too(hand_made: HandMade) -> None:
    hand_made.write()
    verdict = compare(hand_made.lake)
    assert verdict.differences == ()
    assert verdict.sent is None


def without_ids(truth: Truth, of_game: str) -> Truth:
    """The same truth, told by someone whose records of a game name no schema."""
    sent: dict[Group, Sent] = {}
    for group, found in truth.sent.items():
        key = Group(group.game, None) if group.game == of_game else group
        sent[key] = sent[key].added(found) if key in sent else found
    return replace(truth, sent=sent)


def test_records_that_name_no_schema_are_compared_whatever_id_their_rows_have(hand_made: HandMade) -> None:
    hand_made.write()
    truth = without_ids(hand_made.truth, "golf")
    assert len(truth.sent) == len(hand_made.truth.sent) - len(SCHEMA_IDS) + 1
    assert compare(hand_made.lake, truth).differences == ()


def test_records_that_name_no_schema_are_what_ids_leave_over(hand_made: HandMade) -> None:
    """Several formats in one topic: some records of a game have an id, some have none."""
    hand_made.write()
    sent = dict(hand_made.truth.sent)
    sent[Group("golf", None)] = sent.pop(Group("golf", 13))
    assert compare(hand_made.lake, replace(hand_made.truth, sent=sent)).differences == ()


def test_a_changed_value_shows_without_an_id_too(hand_made: HandMade, with_column: ColumnOf) -> None:
    part = hand_made.part(*PART)
    rows = hand_made.parts[part]
    scores = rows["score"].to_pylist()
    hand_made.parts[part] = with_column(rows, "score", [scores[0] + 1, *scores[1:]])
    hand_made.write()
    verdict = compare(hand_made.lake, without_ids(hand_made.truth, "golf"))
    assert [(d.kind, d.where) for d in verdict.differences] == [
        ("values_differ", "silver_golf_events, game 'golf', any schema id")
    ]


def test_a_lost_row(hand_made: HandMade) -> None:
    part = hand_made.part(*PART)
    lost = hand_made.parts[part].slice(0, 1).to_pylist()[0]
    hand_made.parts[part] = hand_made.parts[part].slice(1)
    hand_made.write()
    verdict = compare(hand_made.lake, hand_made.truth)
    assert kinds(verdict) == {"rows_missing", "record_lost", "ledger_rows"}
    by_kind = {difference.kind: difference for difference in verdict.differences}
    assert by_kind["record_lost"].where == f"{TOPIC}/{lost['kafka_partition']}"
    assert by_kind["record_lost"].detail == f"offset {lost['kafka_offset']}"
    assert by_kind["rows_missing"].where == "silver_golf_events, game 'golf', schema id 13"


def test_a_row_twice_in_its_table(hand_made: HandMade) -> None:
    part = hand_made.part(*PART)
    rows = hand_made.parts[part]
    hand_made.parts[part] = pa.concat_tables([rows, rows.slice(3, 1)])
    hand_made.write()
    verdict = compare(hand_made.lake, hand_made.truth)
    assert kinds(verdict) == {"rows_surplus", "record_twice", "ledger_rows"}
    twice = next(d for d in verdict.differences if d.kind == "record_twice")
    offset = rows["kafka_offset"][3].as_py()
    assert twice.detail == f"offset {offset}, found in silver_golf_events (offset {offset}, 2 times)"
    assert kinds(compare(hand_made.lake)) == {"record_twice", "ledger_rows"}


def test_one_row_in_place_of_another(hand_made: HandMade) -> None:
    """The counts agree; only the coordinates and the checksum tell."""
    part = hand_made.part(*PART)
    rows = hand_made.parts[part]
    hand_made.parts[part] = pa.concat_tables([rows.slice(1), rows.slice(1, 1)])
    hand_made.write()
    verdict = compare(hand_made.lake, hand_made.truth)
    assert {"values_differ", "record_twice", "record_lost"} <= kinds(verdict)


def test_a_changed_value(hand_made: HandMade, with_column: ColumnOf) -> None:
    part = hand_made.part(*PART)
    rows = hand_made.parts[part]
    scores = rows["score"].to_pylist()
    hand_made.parts[part] = with_column(rows, "score", [scores[0] + 1, *scores[1:]])
    hand_made.write()
    verdict = compare(hand_made.lake, hand_made.truth)
    assert [difference.kind for difference in verdict.differences] == ["values_differ"]
    assert "schema id 13" in verdict.differences[0].where


@pytest.mark.parametrize("column", ["score", "tags", "inventory", "position", "wallet"])
def test_two_rows_with_values_exchanged(hand_made: HandMade, with_column: ColumnOf, column: str) -> None:
    part = hand_made.part(*PART)
    rows = hand_made.parts[part]
    values = rows[column].to_pylist()
    other = next(place for place, value in enumerate(values) if value != values[0])
    values[0], values[other] = values[other], values[0]
    hand_made.parts[part] = with_column(rows, column, values)
    hand_made.write()
    verdict = compare(hand_made.lake, hand_made.truth)
    assert [difference.kind for difference in verdict.differences] == ["values_differ"]


def test_a_null_in_place_of_a_zero(hand_made: HandMade, with_column: ColumnOf) -> None:
    part = hand_made.part(*PART)
    rows = hand_made.parts[part]
    hand_made.parts[part] = with_column(rows, "premium", [v or None for v in rows["premium"].to_pylist()])
    hand_made.write()
    assert kinds(compare(hand_made.lake, hand_made.truth)) == {"values_differ"}


def test_rows_in_another_game_s_table(hand_made: HandMade) -> None:
    golf, quest = hand_made.part("golf", 11), hand_made.part("quest", 11)
    rows = hand_made.parts[golf]
    hand_made.parts[golf] = rows.slice(2)
    hand_made.parts[quest] = pa.concat_tables([hand_made.parts[quest], rows.slice(0, 2)])
    hand_made.write()
    verdict = compare(hand_made.lake, hand_made.truth)
    assert kinds(verdict) == {"rows_missing", "rows_surplus"}
    surplus = next(d for d in verdict.differences if d.kind == "rows_surplus")
    assert surplus.where == "silver_quest_events, game 'golf', schema id 11"


def test_rows_with_another_schema_s_id(hand_made: HandMade, with_column: ColumnOf) -> None:
    part = hand_made.part(*PART)
    rows = hand_made.parts[part]
    hand_made.parts[part] = with_column(rows, "schema_id", [12] * rows.num_rows)
    hand_made.write()
    assert kinds(compare(hand_made.lake, hand_made.truth)) == {"rows_missing", "rows_surplus"}


def test_a_table_that_is_not_there(hand_made: HandMade) -> None:
    for schema_id in SCHEMA_IDS.values():
        del hand_made.parts[hand_made.part("golf", schema_id)]
    hand_made.write()
    assert kinds(compare(hand_made.lake, hand_made.truth)) == {"table_missing", "record_lost", "ledger_rows"}


def test_nothing_at_all(hand_made: HandMade) -> None:
    verdict = compare(hand_made.lake, hand_made.truth)
    assert kinds(verdict) == {"table_missing", "record_lost", "corrupt_not_quarantined"}
    assert compare(hand_made.lake).differences == ()


def test_a_file_that_is_gone(hand_made: HandMade) -> None:
    hand_made.write()
    folder = Path(hand_made.lake.root.url, hand_made.lake.table_of("golf"))
    next(folder.glob("*.parquet")).unlink()
    verdict = compare(hand_made.lake, hand_made.truth)
    unreadable = [d.where for d in verdict.differences if d.kind == "table_unreadable"]
    assert unreadable == ["silver_golf_events"]


def test_a_corrupt_record_missing_from_quarantine(hand_made: HandMade) -> None:
    missing = hand_made.quarantine.pop(7)
    hand_made.write()
    verdict = compare(hand_made.lake, hand_made.truth)
    assert kinds(verdict) == {"corrupt_not_quarantined", "ledger_rows"}
    difference = next(d for d in verdict.differences if d.kind == "corrupt_not_quarantined")
    assert difference.where == missing["reason"]
    assert f"{missing['kafka_partition']}/{missing['kafka_offset']}" in difference.detail


def test_a_corrupt_record_twice_in_quarantine(hand_made: HandMade) -> None:
    hand_made.quarantine.append(hand_made.quarantine[3])
    hand_made.write()
    verdict = compare(hand_made.lake, hand_made.truth)
    assert kinds(verdict) == {"record_twice", "ledger_rows"}
    assert "quarantine" in next(d.detail for d in verdict.differences if d.kind == "record_twice")


def test_a_quarantined_record_with_other_bytes(hand_made: HandMade) -> None:
    hand_made.quarantine[3]["value"] += b"\0"
    hand_made.write()
    assert kinds(compare(hand_made.lake, hand_made.truth)) == {"corrupt_bytes_differ"}


def test_a_good_record_in_quarantine(hand_made: HandMade) -> None:
    part = hand_made.part(*PART)
    good = hand_made.parts[part].slice(0, 1).to_pylist()[0]
    hand_made.parts[part] = hand_made.parts[part].slice(1)
    place = {name: good[name] for name in ("kafka_partition", "kafka_offset")}
    hand_made.quarantine.append({**hand_made.quarantine[0], **place, "reason": "undecodable", "batch_id": 1})
    hand_made.write()
    verdict = compare(hand_made.lake, hand_made.truth)
    assert kinds(verdict) == {"rows_missing", "good_in_quarantine", "ledger_rows"}
    assert next(d.where for d in verdict.differences if d.kind == "good_in_quarantine") == "undecodable"


def _move_to_golf(hand_made: HandMade, with_column: ColumnOf, place: PartitionOffset) -> None:
    """A row of golf's table says it came from this place."""
    part = hand_made.part(*PART)
    row = hand_made.parts[part].slice(0, 1)
    row = with_column(row, "kafka_partition", [place.partition])
    row = with_column(row, "kafka_offset", [place.offset])
    hand_made.parts[part] = pa.concat_tables([hand_made.parts[part], row])


def test_a_corrupt_record_in_a_table(hand_made: HandMade, with_column: ColumnOf) -> None:
    _move_to_golf(hand_made, with_column, next(iter(hand_made.truth.corrupt)))
    hand_made.write()
    verdict = compare(hand_made.lake, hand_made.truth)
    assert {"corrupt_in_table", "record_twice", "rows_surplus"} <= kinds(verdict)


def test_a_tombstone_in_a_table(hand_made: HandMade, with_column: ColumnOf) -> None:
    _move_to_golf(hand_made, with_column, next(iter(hand_made.truth.tombstones)))
    hand_made.write()
    assert "tombstone_kept" in kinds(compare(hand_made.lake, hand_made.truth))


def test_a_record_that_nobody_sent(hand_made: HandMade, with_column: ColumnOf) -> None:
    _move_to_golf(hand_made, with_column, PartitionOffset(2, 999_999))
    hand_made.write()
    verdict = compare(hand_made.lake, hand_made.truth)
    assert {"record_unsent", "rows_surplus", "ledger_rows"} <= kinds(verdict)


def test_a_row_without_coordinates(hand_made: HandMade, with_column: ColumnOf) -> None:
    part = hand_made.part(*PART)
    rows = hand_made.parts[part]
    offsets = rows["kafka_offset"].to_pylist()
    hand_made.parts[part] = with_column(rows, "kafka_offset", [None, *offsets[1:]])
    hand_made.write()
    assert "record_without_coordinates" in kinds(compare(hand_made.lake))


Break = Callable[[list[dict[str, Any]]], object]


@pytest.mark.parametrize(
    ("broken", "expected"),
    [
        (lambda ledger: ledger.pop(1), {"ledger_offsets", "ledger_rows"}),
        (lambda ledger: ledger.append(ledger[0]), {"ledger_sum", "ledger_offsets"}),
        (lambda ledger: ledger[0].update(rows_tables=119, rows_dropped=2), {"ledger_rows"}),
        (lambda ledger: ledger[0].update(rows_quarantined=5, rows_dropped=2), {"ledger_rows"}),
        (lambda ledger: ledger[0].update(rows_tables=119, rows_already=1), set()),
        (lambda ledger: ledger[0].update(rows_tables=119, rows_already=2), {"ledger_sum", "ledger_rows"}),
        (lambda ledger: ledger[0].update(rows_read=1, rows_dropped=-125), {"ledger_sum"}),
        (lambda ledger: ledger[0].update(gaps=json.dumps({TOPIC: {"0": 1}})), {"ledger_sum"}),
        (lambda ledger: ledger.clear(), {"ledger_missing"}),
    ],
)
@pytest.mark.parametrize("informed", [True, False])
def test_a_ledger_that_does_not_agree(
    hand_made: HandMade, broken: Break, expected: set[DifferenceKind], informed: bool
) -> None:
    broken(hand_made.ledger)
    hand_made.write()
    assert kinds(compare(hand_made.lake, hand_made.truth if informed else None)) == expected


def test_another_topic_s_rows_are_not_held_against_the_truth(
    hand_made: HandMade, with_column: ColumnOf
) -> None:
    part = hand_made.part(*PART)
    rows = hand_made.parts[part]
    others = with_column(rows, "kafka_topic", ["other"] * rows.num_rows)
    hand_made.parts[part] = pa.concat_tables([rows, others])
    hand_made.write()
    assert kinds(compare(hand_made.lake, hand_made.truth)) == {"ledger_rows"}


def test_what_differs_is_all_in_the_error(hand_made: HandMade) -> None:
    hand_made.quarantine.pop()
    hand_made.write()
    verdict = compare(hand_made.lake, hand_made.truth)
    with pytest.raises(CheckFailed) as caught:
        verdict.check()
    assert all(str(difference) in str(caught.value) for difference in verdict.differences)
    assert caught.value.exit_code == 3


def test_progress_names_each_table(hand_made: HandMade) -> None:
    hand_made.write()
    seen: list[SurveyedSoFar] = []
    compare(hand_made.lake, hand_made.truth, seen.append)
    assert [step.table for step in seen] == sorted(hand_made.lake.table_of(game) for game in GAMES)
    assert [(step.done, step.total) for step in seen] == [(0, 3), (1, 3), (2, 3)]
