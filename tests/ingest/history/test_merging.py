"""What becomes of a batch's records in a table that keeps what was, one case after the other."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.ingest.history.kept import Kept, Recomputed, rule_by, same
from tests.ingest.merge.upserted import of_at_most

from distributary.errors import PipelineError
from distributary.ingest.erasure.forgetting import Remembered
from distributary.ingest.erasure.rewriting import Rows, without_rows
from distributary.ingest.history.merging import History
from distributary.ingest.merge import live_files
from distributary.ingest.merge.counts import MadeFiles, MergeCounts
from distributary.ingest.parquet.data_file import is_merged
from distributary.ingest.tables.log_commit import NativeCommits

START = datetime(2026, 1, 1, tzinfo=timezone.utc)

COLUMNS = [("k", pa.int64()), ("v", pa.string()), ("seen", pa.int64()), ("at", pa.timestamp("us", "UTC"))]


def made(root: Path, *apart: str) -> Kept:
    return Kept.new(root, COLUMNS, rule_by("at", apart=apart))


def hours(count: float) -> datetime:
    return START + timedelta(hours=count)


def row(key: int, at: float, v: str | None = None, offset: int | None = None, **more: Any) -> dict[str, Any]:
    offset = int(at * 10) if offset is None else offset
    place = {"topic": "t", "partition": 0, "offset": offset, "ts": hours(offset)}
    return {**place, "k": key, "v": v, "seen": 0, "at": hours(at), **more}


def spans(table: Kept, key: int = 1) -> list[tuple[str | None, float, float | None]]:
    """What was true of a key, and from which hour to which."""

    def hour(moment: datetime | None) -> float | None:
        return None if moment is None else (moment - START) / timedelta(hours=1)

    found = [one for one in table.rows() if one["k"] == key]
    for one in found:
        assert one["is_current"] == (one["valid_to"] is None)
    told = [
        (one["v"], (one["valid_from"] - START) / timedelta(hours=1), hour(one["valid_to"])) for one in found
    ]
    return sorted(told, key=lambda span: span[1])


def files(table: Kept) -> list[str]:
    return [name for name, _ in live_files.read(table.place, table.batch + 1)]


def test_a_newer_record_ends_the_row_before_it(tmp_path: Path) -> None:
    table = made(tmp_path)
    assert table.merge([row(1, 1, "a"), row(2, 1, "a")]) == MergeCounts(inserted=2)
    assert table.merge([row(1, 2, "b"), row(1, 3, "c")]) == MergeCounts(updated=2)
    assert spans(table) == [("a", 1, 2), ("b", 2, 3), ("c", 3, None)]
    assert spans(table, 2) == [("a", 1, None)]


def test_a_row_that_ends_keeps_what_is_in_a_column_whose_name_has_dots(tmp_path: Path) -> None:
    table = Kept.new(tmp_path, [*COLUMNS, ("tel.no", pa.string())], rule_by("at"))
    table.merge([{**row(1, 1, "a"), "tel.no": "+1"}])
    table.merge([{**row(1, 2, "b"), "tel.no": "+2"}])
    assert sorted((one["v"], one["tel.no"]) for one in table.rows()) == [("a", "+1"), ("b", "+2")]


def test_a_record_that_comes_late_lands_in_its_place(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "a"), row(1, 9, "c")])
    assert table.merge([row(1, 5, "b")]) == MergeCounts(updated=1)
    assert table.merge([row(1, 0, "before")]) == MergeCounts(inserted=1)
    assert spans(table) == [("before", 0, 1), ("a", 1, 5), ("b", 5, 9), ("c", 9, None)]


def test_a_delete_ends_a_row_and_a_later_record_begins_another(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "a")])
    assert table.merge([], [row(1, 2)]) == MergeCounts(deleted=1)
    assert spans(table) == [("a", 1, 2)]
    assert table.merge([row(1, 4, "a")]) == MergeCounts(inserted=1)
    assert spans(table) == [("a", 1, 2), ("a", 4, None)]


def test_a_delete_that_came_before_all_else_ends_what_comes_late(tmp_path: Path) -> None:
    table = made(tmp_path)
    assert table.merge([], [row(1, 5)]) == MergeCounts(deleted=1)
    assert spans(table) == []
    assert table.merge([row(1, 2, "a")]) == MergeCounts(inserted=1)
    assert spans(table) == [("a", 2, 5)]


def test_a_record_that_says_the_same_changes_no_file(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "a"), row(2, 1, "a")])
    before = files(table)
    assert table.merge([row(1, 2, "a"), row(2, 2, "a")]) == MergeCounts(unchanged=2)
    assert files(table) == before
    assert spans(table) == [("a", 1, None)]


def test_rows_end_that_have_more_text_than_one_array(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table, keys = made(tmp_path), range(10)
    long = {key: f"{key}" * 400 for key in keys}
    table.merge([row(key, 1, long[key]) for key in keys])
    of_at_most(monkeypatch, 2000)
    assert table.merge([row(key, 2, long[key] if key < 5 else "b") for key in keys]) == MergeCounts(
        updated=5, unchanged=5
    )
    monkeypatch.undo()
    assert [spans(table, key) for key in keys] == [
        [(long[key], 1, None)] if key < 5 else [(long[key], 1, 2), ("b", 2, None)] for key in keys
    ]


def test_what_said_the_same_begins_a_row_once_another_comes_between(tmp_path: Path) -> None:
    table = made(tmp_path, "seen")
    table.merge([row(1, 1, "a", seen=1)])
    table.merge([row(1, 5, "a", seen=5)])
    assert table.merge([row(1, 3, "b", seen=3)]) == MergeCounts(updated=1)
    assert spans(table) == [("a", 1, 3), ("b", 3, 5), ("a", 5, None)]
    # Each has what makes no history, and its place in Kafka, by the record that it began with.
    assert {(one["seen"], one["offset"]) for one in table.rows()} == {(1, 10), (3, 30), (5, 50)}


def test_rows_that_come_to_say_the_same_become_one(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "a"), row(1, 2, "b"), row(1, 3, "a")])
    # Of one moment the later record counts.
    assert table.merge([row(1, 2, "a", offset=99)]) == MergeCounts(unchanged=1)
    assert spans(table) == [("a", 1, None)]


def test_of_one_moment_the_last_record_counts(tmp_path: Path) -> None:
    table = made(tmp_path)
    counts = table.merge([row(1, 1, "a", offset=1), row(1, 1, "b", offset=3), row(1, 1, "c", offset=2)])
    assert counts == MergeCounts(inserted=1, duplicate=2)
    assert table.merge([row(1, 1, "d", offset=0)]) == MergeCounts(older=1)
    assert spans(table) == [("b", 1, None)]


def test_records_that_come_once_more_change_nothing(tmp_path: Path) -> None:
    table = made(tmp_path)
    first = [row(1, 1, "a"), row(1, 2, "a"), row(1, 4, "c")]
    table.merge(first, [row(1, 3)])
    before = spans(table)
    counts = table.merge(first, [row(1, 3)])
    assert counts.staged == 4
    assert counts.inserted == counts.updated == 0
    assert spans(table) == before == [("a", 1, 3), ("c", 4, None)]


def test_what_ended_before_a_batch_is_not_looked_into(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "a"), row(2, 1, "a")])
    table.merge([row(1, 2, "b")])
    (ended,) = [
        name
        for name, add in live_files.read(table.place, 2)
        if json.loads(add["stats"])["nullCount"]["valid_to"] == 0
    ]
    kept = table.place.read(ended)
    table.place.delete([ended])
    assert table.merge([row(1, 3, "c"), row(2, 3, "b")]) == MergeCounts(updated=2)
    table.place.put(ended, kept)
    assert spans(table) == [("a", 1, 2), ("b", 2, 3), ("c", 3, None)]


def test_what_is_remembered_is_not_looked_into_where_nothing_comes_late(tmp_path: Path) -> None:
    table = made(tmp_path)
    assert table.rule.deletes is not None
    memory = table.rule.deletes.memory
    table.merge([row(1, 1, "a")])
    table.merge([row(1, 2, "a")])
    memory.delete([name for name in memory.names() if name.endswith(".parquet")])
    assert table.merge([row(1, 3, "b")]) == MergeCounts(updated=1)
    assert spans(table) == [("a", 1, 3), ("b", 3, None)]


def test_of_what_is_forgotten_the_table_alone_tells(tmp_path: Path) -> None:
    table = made(tmp_path)
    assert table.rule.deletes is not None
    table.rule = replace(table.rule, deletes=replace(table.rule.deletes, days=1))
    table.merge([row(1, 1, "a"), row(1, 2, "a")], [row(1, 4)])
    # It is a month behind all others by Kafka's time, so that the one at 2 is forgotten; that the row ended at 4 is not.
    assert table.merge([row(1, 1.5, "b", offset=720)]) == MergeCounts(updated=1)
    assert spans(table) == [("a", 1, 1.5), ("b", 1.5, 4)]


def test_a_late_record_of_a_time_to_come_meets_what_is_remembered_of_now(tmp_path: Path) -> None:
    """Its producer's clock is ahead, and nothing else is in its batch."""
    table, now = made(tmp_path), int((datetime.now(timezone.utc) - START) / timedelta(hours=1))
    table.merge([], [row(1, 5, offset=now)])
    table.merge([row(1, 2, "a", offset=now + 40 * 24)])
    assert spans(table) == [("a", 2, 5)]


@pytest.mark.parametrize("size", [40])
def test_many_batches_with_a_delete_and_a_late_record_in_each(tmp_path: Path, size: int) -> None:
    table = made(tmp_path)
    model = Recomputed(table.rule)
    for number in range(size):
        rows = [
            row(key, number * 2 + key % 2, "ab"[(number // 3 + key) % 2], offset=number * 10 + key)
            for key in range(5)
        ]
        late = row(number % 5, number / 2, "late", offset=number * 10 + 7)
        deletes = [row(number % 3, number * 2 + 0.5, offset=number * 10 + 8)]
        table.merge([*rows, late], deletes)
        model.take([*rows, late], deletes)
        if number % 7 == 6:
            table.compact()
    assert same(table.rows(), table.schema) == same(model.rows(), table.schema)


def test_a_rule_that_does_not_say_when_rows_are_true_is_refused(tmp_path: Path) -> None:
    table = made(tmp_path)
    with pytest.raises(PipelineError, match="says nothing of when rows are true"):
        History(table.place, [], table.schema, replace(table.rule, history=None))


def test_a_struct_of_which_a_part_makes_no_history_counts_by_its_other_parts(tmp_path: Path) -> None:
    inner = pa.struct([("trace", pa.int64()), ("x", pa.string())])
    columns = [*COLUMNS, ("s", pa.struct([("in", inner), ("y", pa.struct([("z", pa.int64())]))]))]
    table = Kept.new(tmp_path, columns, rule_by("at", apart=("s.in.trace",)))
    # A schema without `x` and `y` knows nothing of them: however the stream is cut, there is nothing that differs.
    same_said = [None, {"in": None, "y": None}, {"in": {"trace": 1, "x": None}, "y": None}]
    counts = table.merge([row(1, at, s=s) for at, s in enumerate(same_said)])
    assert counts == MergeCounts(inserted=1, unchanged=2)
    other = [{"in": {"trace": 1, "x": "a"}, "y": None}, {"in": None, "y": {"z": None}}, None]
    counts = table.merge([row(1, at, s=s) for at, s in enumerate(other, 3)])
    assert counts == MergeCounts(updated=3)


def test_a_row_beside_one_in_a_file_that_is_passed_by_ends_where_it_did(tmp_path: Path) -> None:
    table = made(tmp_path)
    # Later moments of other keys have their files looked into.
    table.merge([row(2, 30, "x", offset=0)], [row(1, 2, offset=1)])
    table.merge([row(1, 1, "a", offset=5), row(3, 1, "x", offset=6), row(3, 20, "y", offset=7)])
    assert table.merge(
        [row(1, 2, "b", offset=9), row(1, 3, "c", offset=10), row(4, 30, "x", offset=11)]
    ) == MergeCounts(inserted=1, updated=2)
    before = [("a", 1, 2), ("b", 2, 3), ("c", 3, None)]
    assert spans(table) == before
    # Of the moment at which the first row ends a delete is known, and the record behind it, and not the row that this has made.
    assert table.merge([row(1, 10, "d", offset=12)]) == MergeCounts(updated=1)
    assert spans(table) == [*before[:2], ("c", 3, 10), ("d", 10, None)]


def test_records_behind_which_others_are_remembered_whose_rows_are_gone(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, "a", offset=5), row(1, 1, "b", offset=6)])
    gone = Rows(frozenset({"v"}), lambda rows: np.array([v == "b" for v in rows["v"].to_pylist()]))
    assert without_rows(table.place, gone, "this").rows == 1
    # Of all of its moments another record is known to count.
    assert table.merge([row(1, 1, "c", offset=3)]) == MergeCounts(older=1)
    assert spans(table) == []
    assert table.merge([row(1, 2, "d")]) == MergeCounts(inserted=1)
    assert spans(table) == [("d", 2, None)]


def test_of_rows_that_are_erased_nothing_is_remembered_that_would_decide_what_comes_late(
    tmp_path: Path,
) -> None:
    table = made(tmp_path)
    assert table.rule.deletes is not None
    memory = table.rule.deletes.memory
    for batch in ([row(1, 1, "a"), row(2, 1, "a")], [row(1, 5, "a")], [row(1, 9, "b")]):
        table.merge(batch)
    by = Remembered((("k",),), ("at",), ("valid_from", "valid_to"))

    def met(rows: pa.RecordBatch) -> Any:
        said = zip(rows["k"].to_pylist(), rows["v"].to_pylist(), strict=True)
        return np.array([one == (1, "a") for one in said], dtype=bool)

    def forget(gone: pa.Table) -> None:
        without_rows(memory, by.rows(gone), "this")

    without_rows(table.place, Rows(frozenset({"k", "v"}), met, by.told, forget), "this")
    assert spans(table) == [("b", 9, None)]
    assert spans(table, 2) == [("a", 1, None)]
    # Late records stand as if those had never come.
    table.merge([row(1, 0, "z", offset=100)])
    table.merge([row(1, 3, "y", offset=101)])
    assert spans(table) == [("z", 0, 3), ("y", 3, 9), ("b", 9, None)]


def test_a_commit_tells_of_the_files_that_it_made(tmp_path: Path) -> None:
    table = made(tmp_path)
    first = table.part([row(1, 1, "a")])
    table.commit(first)
    assert table.commits.made(first) == MadeFiles()
    second = table.part([row(1, 2, "b")])
    table.commit(second)
    sizes = [add["size"] for name, add in live_files.read(table.place, table.batch + 1) if is_merged(name, 1)]
    assert len(sizes) == 1
    for commits in (table.commits, NativeCommits()):
        assert commits.made(second) == MadeFiles(1, sizes[0])
        assert commits.merged(second) == MergeCounts(updated=1)


def test_a_delete_of_a_clock_that_nobody_set_ends_what_comes_late(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([], [row(1, 5, ts=datetime(1970, 1, 1, 0, 3, tzinfo=timezone.utc))])
    table.merge([row(1, 4, "late", ts=hours(24 * 40))])
    assert spans(table) == [("late", 4, 5)]


def test_rows_that_no_record_made_are_true_since_they_say_so(tmp_path: Path) -> None:
    """As of a history from before the topic: the first one was lost, and the other one began at no time."""
    table = made(tmp_path)
    by_hand = [
        {"k": 1, "v": "first", "valid_from": hours(1), "valid_to": hours(2), "is_current": False},
        {"k": 1, "v": "by hand", "valid_from": hours(2), "is_current": True},
    ]
    write_deltalake(tmp_path / table.folder, pa.Table.from_pylist(by_hand, table.schema), mode="append")
    before = [("first", 1, 2), ("by hand", 2, None)]
    assert spans(table) == before
    # Of the moment at which one begins a record is newer, and all of its own counts.
    assert table.merge([row(1, 2, "b"), row(1, 4, "c")]) == MergeCounts(updated=2)
    assert spans(table) == [before[0], ("b", 2, 4), ("c", 4, None)]
    assert table.merge([row(1, 1.5, "late"), row(1, 0, "z")]) == MergeCounts(inserted=1, updated=1)
    assert spans(table) == [("z", 0, 1), ("first", 1, 1.5), ("late", 1.5, 2), ("b", 2, 4), ("c", 4, None)]
