"""A merge that is done again: by a run after it, after another writer, in a store, with a table that grew."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from tests.ingest.merge.test_upsert import COLUMNS, row, values
from tests.ingest.merge.upserted import GENERATION, Upserted, ordered_by

from distributary.errors import CommitImpossible, PipelineError, TableAhead
from distributary.ingest import failpoints
from distributary.ingest.merge.attempts import Attempts
from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.merge.rule import MergeRule, Position
from distributary.ingest.parquet.data_file import merged_name
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables import log_commit
from distributary.ingest.tables.log import last_checkpoint
from distributary.ingest.tables.log_commit import NativeCommits

RULE = MergeRule(("id",), ordered_by("seq"))


@pytest.fixture
def table(tmp_path: Path) -> Upserted:
    table = Upserted.made(tmp_path, COLUMNS, RULE)
    table.merge([row(key, 1, "a") for key in range(5)])
    return table


def test_another_run_finds_it_in_with_its_counts_though_a_file_of_it_has_no_row_left(table: Upserted) -> None:
    part = table.part([row(1, 2, "b"), row(2, 0, "old")], files=2)
    counts = table.commit(part)
    later = NativeCommits()
    assert not later.commit(part)
    assert later.merged(part) == counts == MergeCounts(updated=1, older=1)
    other = replace(part, files=part.files[:1])
    with pytest.raises(TableAhead):
        NativeCommits().commit(other)


def test_what_a_killed_attempt_left_goes_behind_the_one_that_follows(table: Upserted) -> None:
    part = table.part([row(1, 2, "b")])
    left = [
        f"deletion_vector_{GENERATION[:8]}-0000-0000-0001-000000000000.bin",
        merged_name(GENERATION, part.batch_id),
    ]
    others = [
        f"deletion_vector_{GENERATION[:8]}-0000-0000-0002-000000000000.bin",
        merged_name(GENERATION, part.batch_id + 1),
        merged_name("f" * 32, part.batch_id),
        "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin",
    ]
    for name in (*left, *others):
        table.place.put(name, b"begun")
    table.commit(part)
    there = set(table.place.names())
    assert there.isdisjoint(left)
    assert there.issuperset(others)
    assert values(table)[1] == "b"


def test_what_died_before_its_entry_is_done_by_the_next(
    table: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    part = table.part([row(1, 2, "b")])
    with monkeypatch.context() as patch:
        patch.setenv(failpoints.VARIABLE, f"{failpoints.AMID_MERGE}:{part.batch_id}=fail")
        with pytest.raises(failpoints.Failpoint):
            table.commits.commit(part)
    assert sum(name.endswith(".bin") for name in table.place.names()) == 1
    table.commits = NativeCommits()
    assert table.commit(part) == MergeCounts(updated=1)
    assert sum(name.endswith(".bin") for name in table.place.names()) == 1
    assert values(table)[1] == "b"


@pytest.mark.parametrize("own", [False, True], ids=["of the table", "of the batch"])
@pytest.mark.parametrize("damage", [bytes, lambda size: b"PAR1" + bytes(size - 4)], ids=["blank", "cut off"])
def test_a_damaged_file_is_named_and_only_its_table_waits(
    table: Upserted, damage: Callable[[int], bytes], own: bool
) -> None:
    before = table.place.names()
    (name,) = [one for one in before if one.endswith(".parquet")]
    part = table.part([row(1, 2, "b")])
    name = part.files[0].name if own else name
    whole = table.place.read(name)
    table.place.put(name, damage(len(whole)))
    commits = NativeCommits()
    with pytest.raises(CommitImpossible, match=rf"its file {name} is damaged \(.*\). Put that right"):
        commits.commit(part)
    table.place.put(name, whole)
    assert table.commit(part) == MergeCounts(updated=1)


def test_a_null_among_keys_or_sequences_stops_before_anything_is_written(table: Upserted) -> None:
    for wrong in ({**row(1, 2), "id": None}, {**row(1, 2), "seq": None}):
        with pytest.raises(PipelineError, match="have no value in"):
            table.merge([wrong])
    assert len(values(table)) == 5


@pytest.mark.parametrize("lost", ["deletion_vector_", "0123abcd-0000000000-"])
def test_a_table_that_lacks_a_file_of_its_own_waits_for_a_decision(table: Upserted, lost: str) -> None:
    """As behind delta-rs' `vacuum(full=True)`, which deletes vectors that are in force."""
    table.merge([row(1, 2, "b")])
    table.place.delete([name for name in table.place.names() if name.startswith(lost)])
    part = table.part([row(1, 9, "z"), row(2, 9, "z")])
    with pytest.raises(CommitImpossible, match=f"a file of it is gone.*{lost}") as told:
        NativeCommits().commit(part)
    assert told.value.tables == ("players",)


def test_files_that_go_with_a_version_which_is_no_more_are_no_reason_to_wait(
    table: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = Attempts.actions
    table.merge([row(1, 2, "b")])

    def late(self: Attempts, *given: Any) -> Any:
        monkeypatch.setattr(Attempts, "actions", looked)
        before = [name for name in table.place.names() if name not in {file.name for file in part.files}]
        DeltaTable(table.place.url).optimize.compact()
        table.place.delete(before)
        return looked(self, *given)

    part = table.part([row(1, 9, "z")])
    monkeypatch.setattr(Attempts, "actions", late)
    assert table.commit(part) == MergeCounts(updated=1)
    assert values(table)[1] == "z"


def test_in_a_store_nothing_differs(in_s3: Files) -> None:
    table = Upserted.made(in_s3, COLUMNS, RULE, deletes=True)
    table.merge([row(key, 1, "a") for key in range(100)], files=2)
    table.merge([row(key, 2, "b") for key in range(0, 100, 3)], [row(1, 2)])
    # Another one's compaction is met with by putting ours.
    later = Upserted(in_s3, table.schema, table.rule, batch=table.batch)
    later.merge([row(0, 3, "c")])
    table.batch += 1
    table.merge([row(1, 1, "late"), row(3, 3, "d")])
    assert values(table) == {
        key: "c" if not key else "d" if key == 3 else "a" if key % 3 else "b"
        for key in range(100)
        if key != 1
    }


def test_entries_that_mark_rows_of_many_files_do_not_fill_the_memory(
    in_s3: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are kept for the log's next checkpoint, for which others are asked for again."""
    monkeypatch.setattr(log_commit, "_BYTES_KEPT", 10_000)
    table = Upserted.made(in_s3, COLUMNS, RULE, properties={"delta.checkpointInterval": "10"})
    table.merge([row(key, 1) for key in range(20)], files=20)
    for sequence in range(2, 21):
        table.merge([row(key, sequence, str(sequence)) for key in range(20)], files=20)
    kept = table.commits._seen[table.place.url].entries
    assert max(kept) == 20
    assert 1 < len(kept) < 10
    assert sum(map(len, kept.values())) <= 10_000
    table.commits.settle()
    assert last_checkpoint(table.place).version >= 9
    assert set(values(table).values()) == {"20"}


def test_rows_of_before_a_column_came_are_replaced_by_rows_that_have_it(
    table: Upserted, tmp_path: Path
) -> None:
    DeltaTable(tmp_path / "players").alter.add_columns([Field("w", PrimitiveType("long"))])
    table.schema = table.schema.append(pa.field("w", pa.int64()))
    assert table.merge([{**row(1, 2, "b"), "w": 7}, row(9, 1)]) == MergeCounts(inserted=1, updated=1)
    assert table.by_key()[1]["w"] == 7


def test_keys_that_were_narrower_before_are_the_same_keys(tmp_path: Path) -> None:
    columns = [("id", pa.int32()), *COLUMNS[1:]]
    table = Upserted.made(tmp_path, columns, RULE)
    table.merge([row(1, 1, "a"), row(2, 1, "a")])
    # As where the table's types were widened.
    first, table.schema = table.schema, pa.schema([*list(table.schema)[:4], *COLUMNS])
    table.folder, before = "wider", table.folder
    wide = Upserted.made(tmp_path / "other", COLUMNS, RULE)
    assert first != wide.schema
    for name in table.root.below(before).names():
        wide.place.put(name, table.root.below(before).read(name))
    entry = table.root.below(before).read("_delta_log/00000000000000000001.json")
    wide.place.put("_delta_log/00000000000000000001.json", entry)
    wide.batch = 0
    assert wide.merge([row(2, 2, "b"), row(2**40, 1, "c")]) == MergeCounts(inserted=1, updated=1)


def test_a_later_turn_of_the_topic_wins_whatever_its_offsets(tmp_path: Path) -> None:
    rule = MergeRule(
        ("id",), replace(ordered_by(), position=Position("topic", "partition", "offset", "ts", "turn"))
    )
    table = Upserted.made(tmp_path, COLUMNS, rule)
    table.merge([row(1, 0, "a", offset=100), row(2, 0, "b", offset=101)])
    DeltaTable(tmp_path / "players").alter.add_columns([Field("turn", PrimitiveType("integer"))])
    table.schema = table.schema.append(pa.field("turn", pa.int32()))

    def turned(one: dict[str, Any]) -> dict[str, Any]:
        return {**one, "turn": 1}

    assert table.merge([turned(row(1, 0, "c", offset=3, partition=1))]) == MergeCounts(updated=1)
    assert table.merge([row(1, 0, "late", offset=200)]) == MergeCounts(older=1)
    assert values(table) == {1: "c", 2: "b"}
