from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import CommitProperties, DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.ingest.commits import by_log
from tests.ingest.foreign import ODD_ABOVE, ODD_BESIDE, foreign_entries

from distributary.ingest.checkpoint import earlier_runs
from distributary.ingest.checkpoint.earlier_runs import (
    Done,
    after_lineage,
    earlier_commits,
    newest_in_ledger,
    read_by,
    without_owners,
)
from distributary.ingest.checkpoint.generation import Start
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.kafka.offsets import Offsets, Positions, offsets_from_json, offsets_to_json
from distributary.ingest.parquet.buffers import TableBuffers
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.change import create
from distributary.ingest.tables.ledger import (
    BATCHES_SCHEMA,
)
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.transaction import BATCH, GENERATION, LINEAGE, OFFSETS

TOPIC = "events"
TABLES = ("a", "b", "quarantine")
SCHEMA = pa.schema([("x", pa.int64())])


class Tables:
    """Real tables whose commits say what the pipeline's say; the rows themselves are only counted."""

    def __init__(self, root: Path) -> None:
        self.root, self.lineage, self.pipeline = root, "l", "games"
        self.rows: Counter[tuple[str, int, int]] = Counter()

    def commit(self, table: str, generation: str, batch_id: int, offsets: Offsets) -> None:
        if not (self.root / table).exists():
            create(self.root / table, SCHEMA, {})
        handle = DeltaTable(self.root / table)
        told = metadata(generation, batch_id, offsets, self.lineage)
        handle.create_write_transaction(
            [], "append", handle.schema(), commit_properties=CommitProperties(custom_metadata=told)
        )

    def complete(self, generation: str, batch_id: int, offsets: Offsets) -> None:
        row = {
            "pipeline": self.pipeline,
            "generation": generation,
            "batch_id": batch_id,
            "offsets": json.dumps(offsets_to_json(offsets)),
        }
        told = CommitProperties(custom_metadata=metadata(generation, batch_id, offsets, self.lineage))
        rows = pa.Table.from_pylist([row], BATCHES_SCHEMA)
        write_deltalake(self.root / BATCHES_TABLE, rows, mode="append", commit_properties=told)

    def maintain(self, table: str) -> None:
        if (self.root / table).exists():
            handle = DeltaTable(self.root / table)
            handle.create_write_transaction([], "append", handle.schema())


def metadata(generation: str, batch_id: int, offsets: Offsets, lineage: str = "l") -> dict[str, str]:
    return {
        GENERATION: generation,
        LINEAGE: lineage,
        BATCH: str(batch_id),
        OFFSETS: json.dumps(offsets_to_json(offsets)),
    }


def table_of(partition: int, offset: int) -> str:
    """Where a record belongs; nobody sends one kind only."""
    return TABLES[(offset * 7 + partition * 3 + offset // 5) % len(TABLES)]


class Checkpoint:
    """A generation that reads on from where it starts, leaving out what its start says is in already."""

    def __init__(self, name: str, start: Start, tables: Tables) -> None:
        self._name, self._start, self._tables = name, start, tables
        self._at = {partition: (start.offsets or {}).get(TOPIC, {}).get(partition, 0) for partition in (0, 1)}
        self._next = 0

    def batch(self, steps: tuple[int, int], committed: list[str] | None = None) -> None:
        """One batch; with `committed`, a crash leaves it with these tables' commits only."""
        ends = {partition: self._at[partition] + steps[partition] for partition in (0, 1)}
        offsets: Offsets = {
            TOPIC: {partition: (self._at[partition], ends[partition]) for partition in (0, 1)}
        }
        rows: dict[str, list[tuple[int, int]]] = {}
        for partition in (0, 1):
            for offset in range(self._at[partition], ends[partition]):
                table = table_of(partition, offset)
                already = self._start.already.get(table, {}).get(TOPIC, {}).get(partition, 0)
                if offset >= already:
                    rows.setdefault(table, []).append((partition, offset))
        for table in rows if committed is None else [name for name in committed if name in rows]:
            self._tables.commit(table, self._name, self._next, offsets)
            self._tables.rows.update((table, *place) for place in rows[table])
        if committed is None:
            self._tables.complete(self._name, self._next, offsets)
        self._next, self._at = self._next + 1, ends

    def read_to(self, end: int) -> None:
        self.batch((max(0, end - self._at[0]), max(0, end - self._at[1])))


STEPS = st.tuples(st.integers(0, 6), st.integers(0, 6))
CRASHES = st.none() | st.lists(st.sampled_from(TABLES), unique=True)
HISTORIES = st.lists(st.tuples(st.lists(STEPS, max_size=3), STEPS, CRASHES), min_size=1, max_size=4)


@given(HISTORIES, st.sampled_from([*TABLES, None]))
@settings(max_examples=examples(10), deadline=None)
def test_going_on_from_tables_loses_nothing_and_doubles_nothing(
    history: list[tuple[list[tuple[int, int]], tuple[int, int], list[str] | None]], maintained: str | None
) -> None:
    """Each checkpoint is lost after some complete batches, and maybe one that it was committing."""
    with TemporaryDirectory() as folder:
        tables = Tables(Path(folder))
        for number, (whole, last, crash) in enumerate([*history, ([], (0, 0), None)]):
            start = after_lineage(folder, earlier_commits(folder), "l")
            generation = Checkpoint(f"g{number}", start, tables)
            for steps in whole:
                generation.batch(steps)
            if crash is not None:
                generation.batch(last, crash)
            if maintained:
                tables.maintain(maintained)
        start = after_lineage(folder, earlier_commits(folder), "l")
        Checkpoint("last", start, tables).read_to(100)
        every = {(table_of(p, o), p, o) for p in (0, 1) for o in range(100)}
        assert tables.rows == dict.fromkeys(every, 1)


def test_where_no_table_tells_of_a_lineage_it_starts_where_the_settings_say(tmp_path: Path) -> None:
    assert earlier_commits(str(tmp_path / "nowhere")) == []
    assert after_lineage(tmp_path, [], "l") == Start("from_tables", None, {}, "l")


@pytest.fixture
def filled(tmp_path: Path) -> Path:
    tables = Tables(tmp_path)
    tables.commit("a", "g", 0, {TOPIC: {0: (5, 10)}})
    tables.complete("g", 0, {TOPIC: {0: (5, 10)}})
    tables.commit("a", "g", 1, {TOPIC: {0: (10, 20)}})
    return tmp_path


def test_commits_of_others_are_told_apart_by_owners_and_by_the_ledger(filled: Path) -> None:
    tables = Tables(filled)
    tables.pipeline = "other"
    tables.commit("b", "h", 0, {TOPIC: {0: (0, 3)}})
    tables.complete("h", 0, {TOPIC: {0: (0, 3)}})
    commits = earlier_commits(filled)
    mine = without_owners(filled, commits, "games", set())
    assert {commit.generation for commit in mine} == {"g"}
    assert without_owners(filled, commits, "games", {"g"}) == []
    newest = newest_in_ledger(mine)
    assert newest is not None and (newest.generation, newest.batch_id) == ("g", 0)
    assert {commit.table for commit in earlier_commits(filled, ["a", "b"])} == {BATCHES_TABLE}


def test_a_half_committed_batch_is_left_out_of_its_table_only(filled: Path) -> None:
    start = after_lineage(filled, earlier_commits(filled), "l")
    ends: Positions = {TOPIC: {0: 20}}
    assert start == Start("from_tables", {TOPIC: {0: 10}}, {"a": ends}, "l")


def test_what_was_read_before_starting_again_says_nothing_about_where_to_go_on(filled: Path) -> None:
    tables = Tables(filled)
    tables.lineage = "again"
    tables.commit("a", "h", 0, {TOPIC: {0: (0, 3)}})
    tables.complete("h", 0, {TOPIC: {0: (0, 3)}})
    start = after_lineage(filled, earlier_commits(filled), "again")
    assert start == Start("from_tables", {TOPIC: {0: 3}}, {}, "again")


def test_before_the_first_batch_is_complete_its_start_counts(tmp_path: Path) -> None:
    Tables(tmp_path).commit("a", "g", 0, {TOPIC: {0: (5, 10)}})
    start = after_lineage(tmp_path, earlier_commits(tmp_path), "l")
    assert start == Start("from_tables", {TOPIC: {0: 5}}, {"a": {TOPIC: {0: 10}}}, "l")


def test_a_table_that_was_put_aside_says_nothing(filled: Path) -> None:
    shutil.move(filled / "a", filled / ".a.replaced-1")
    assert {commit.table for commit in earlier_commits(str(filled))} == {BATCHES_TABLE}


def test_what_sparks_writer_says_is_read_too(tmp_path: Path) -> None:
    create(tmp_path / "t", SCHEMA, {})
    told = json.dumps(metadata("g", 3, {TOPIC: {0: (0, 4)}}))
    handle = DeltaTable(tmp_path / "t")
    for text in (told, "a note of somebody's", '"text"'):
        properties = CommitProperties(custom_metadata={"userMetadata": text})
        handle.create_write_transaction([], "append", handle.schema(), commit_properties=properties)
        handle = DeltaTable(tmp_path / "t")
    (commit,) = earlier_commits(str(tmp_path))
    assert (commit.generation, commit.batch_id, commit.offsets) == ("g", 3, {TOPIC: {0: (0, 4)}})


def test_a_table_that_delta_rs_cannot_open_is_read_from_its_log(filled: Path) -> None:
    # Without it all of its commits tell something.
    shutil.rmtree(filled / BATCHES_TABLE)
    log = filled / "a" / "_delta_log" / f"{3:020d}.json"
    log.write_text(json.dumps({"protocol": {"minReaderVersion": 99, "minWriterVersion": 99}}))
    assert [commit.batch_id for commit in earlier_commits(str(filled)) if commit.table == "a"] == [1, 0]


def test_entries_that_are_not_ours_are_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    Tables(tmp_path).commit("a", "g", 0, {TOPIC: {0: (0, 5)}})
    foreign_entries(tmp_path, monkeypatch)
    assert [commit.table for commit in earlier_commits(tmp_path)] == ["a"]
    assert "lost+found is passed by, since it may not be read" in caplog.text


@pytest.mark.parametrize("odd", ODD_ABOVE)
def test_folders_above_and_beside_tables_may_be_called_as_they_like(tmp_path: Path, odd: str) -> None:
    root = tmp_path / odd
    tables = Tables(root)
    tables.commit("a", "g", 0, {TOPIC: {0: (0, 5)}})
    tables.complete("g", 0, {TOPIC: {0: (0, 5)}})
    tables.commit("a", "g", 1, {TOPIC: {0: (5, 7)}})
    for beside in ODD_BESIDE:
        (root / beside).mkdir()
    started = after_lineage(root, earlier_commits(root), "l")
    assert started == Start("from_tables", {TOPIC: {0: 5}}, {"a": {TOPIC: {0: 7}}}, "l")


def test_of_batches_that_the_ledger_has_no_more_is_kept_than_tells_where_to_go_on(tmp_path: Path) -> None:
    """A thousand commits of a thousand tables would not fit into memory."""
    tables = Tables(tmp_path)
    for generation in ("g1", "g2"):
        for batch in range(4):
            offsets: Offsets = {TOPIC: {0: (batch, batch + 1)}}
            tables.commit("a", generation, batch, offsets)
            tables.complete(generation, batch, offsets)
    tables.commit("a", "g2", 4, {TOPIC: {0: (4, 5)}})
    found = earlier_commits(tmp_path)
    kept = [(one.generation, one.batch_id) for one in found if one.table == "a"]
    assert kept == [("g2", 4), ("g1", 3)]
    start = after_lineage(tmp_path, found, "l")
    assert (start.offsets, start.already) == ({TOPIC: {0: 4}}, {"a": {TOPIC: {0: 5}}})


def test_of_a_ledger_of_years_the_newest_batch_of_a_generation_alone_is_looked_into(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A start asks that of a pipeline that shares the ledger with busier ones: all of a million took it half a minute."""
    tables, looked_into = Tables(tmp_path), list[object]()
    for generation, batches in (("g1", 4), ("g2", 6)):
        for batch in range(batches):
            tables.complete(generation, batch, {TOPIC: {0: (batch, batch + 1)}})

    def looked(value: Mapping[str, Any]) -> Offsets:
        looked_into.append(value)
        return offsets_from_json(value)

    monkeypatch.setattr(earlier_runs, "offsets_from_json", looked)
    assert read_by(tmp_path, {"g1"}) == {TOPIC: {0: 4}}
    assert len(looked_into) == 1


def test_a_file_that_is_gone_is_guessed_about_and_one_that_cannot_be_read_just_now_is_not(
    tmp_path: Path,
) -> None:
    """A store that does not answer for a moment would have records lost or doubled by that guess."""
    offsets: Offsets = {TOPIC: {0: (0, 2)}}
    create(tmp_path / "a", SCHEMA, {})
    held = TableBuffers(files_at(tmp_path), "g1", 0, 10**6, lambda _: Layout(SCHEMA))
    held.add("a", pa.RecordBatch.from_pydict({"x": [1, 2]}, SCHEMA))
    held.close()
    told = metadata("g1", 0, offsets)
    assert by_log(NativeCommits(), tmp_path / "a", held.files, SCHEMA, "g1/events", 0, told)
    file = tmp_path / "a" / held.files[0].name
    file.unlink()
    commits = earlier_commits(tmp_path)
    assert after_lineage(tmp_path, commits, "l").already == {"a": {TOPIC: {0: 2}}}
    file.symlink_to(file)
    with pytest.raises(OSError, match="symbolic links"):
        after_lineage(tmp_path, commits, "l")


def test_records_are_told_by_their_partition_where_somebody_made_the_table_so(tmp_path: Path) -> None:
    """Its files do not have the column, and which records it has was guessed."""
    schema = pa.schema(
        [("kafka_topic", pa.string()), ("kafka_partition", pa.int32()), ("kafka_offset", pa.int64())]
    )
    by = ("kafka_partition",)
    create(tmp_path / "a", schema, {}, partitions=by)
    held = TableBuffers(
        files_at(tmp_path), "g1", 0, 10**6, lambda _: Layout(schema), partitions_of=lambda _: by
    )
    rows = {"kafka_topic": [TOPIC] * 3, "kafka_partition": [0, 1, 1], "kafka_offset": [0, 5, 6]}
    held.add("a", pa.RecordBatch.from_pydict(rows, schema))
    held.close()
    told = metadata("g1", 0, {TOPIC: {0: (0, 2), 1: (5, 9)}})
    assert by_log(NativeCommits(), tmp_path / "a", held.files, schema, "g1/events", 0, told)
    start = after_lineage(tmp_path, earlier_commits(tmp_path), "l")
    assert start.already == {}
    assert start.placed == {TOPIC: {0: [(0, 1)], 1: [(5, 7)]}}


@settings(max_examples=examples(100), deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.integers(-3, 30), st.one_of(st.none(), st.integers(0, 9))),
        max_size=20,
    )
)
def test_a_batch_is_in_the_ledger_by_a_row_of_its_own_or_by_one_that_tells_of_many(
    told: list[tuple[str, int, int | None]],
) -> None:
    rows = [
        {"generation": of, "batch_id": last, "first_batch_id": None if more is None else last - more}
        for of, last, more in told
    ]
    done = Done(rows)
    model = {(of, number) for of, last, more in told for number in range(last - (more or 0), last + 1)}
    assert {(of, number) for of in "abc" for number in range(-15, 35) if (of, number) in done} == model
