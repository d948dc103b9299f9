from __future__ import annotations

import json
import shutil
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from statistics import median
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import CommitProperties, DeltaTable, Field, Transaction
from deltalake.schema import PrimitiveType
from tests.ingest.commits import by_log

from distributary.errors import CommitImpossible, TableAhead
from distributary.ingest.columns.layout import Layout
from distributary.ingest.log_paths import entry_path
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.parquet.statistics import statistics
from distributary.ingest.tables import change, log_commit
from distributary.ingest.tables.change import create
from distributary.ingest.tables.handle import is_there
from distributary.ingest.tables.log import append_actions, put_entry
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.transaction import FORGETS, OFFSETS

SCHEMA = pa.schema([("a", pa.int64()), ("s", pa.struct([("x", pa.int32()), ("y", pa.string())]))])
ROWS: list[dict[str, Any]] = [{"a": 1, "s": {"x": 1, "y": "e"}}, {"a": None, "s": None}]


def written(path: Path, rows: list[dict[str, Any]] = ROWS, schema: pa.Schema = SCHEMA) -> DataFile:
    name = file_name("0" * 32, 0)
    pq.write_table(pa.Table.from_pylist(rows, schema), path / name)
    text = statistics(pq.read_metadata(path / name), Layout(schema))
    return DataFile(path.name, name, len(rows), (path / name).stat().st_size, text)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    create(tmp_path / "t", SCHEMA, {})
    return tmp_path / "t"


def test_files_are_in_once_with_their_transaction_and_metadata(table: Path) -> None:
    files = [written(table), written(table)]
    for new in (True, False):
        told = {"distributary.offsets": "{}"}
        assert by_log(NativeCommits(), table, files, SCHEMA, "app/events", 0, told) is new
    opened = DeltaTable(table)
    assert opened.to_pyarrow_table().num_rows == 4
    assert opened.transaction_version("app/events") == 0
    assert opened.history(1)[0]["distributary.offsets"] == "{}"
    actions = pa.table(opened.get_add_actions(flatten=True))
    assert actions["num_records"].to_pylist() == [2, 2]


def test_a_repeat_needs_neither_files_nor_fit(table: Path) -> None:
    file = written(table)
    assert by_log(NativeCommits(), table, [file], SCHEMA, "app", 7, {})
    assert not by_log(
        NativeCommits(), table, [replace(file, bytes=1)], pa.schema([("z", pa.int8())]), "app", 7, {}
    )


def of(start: int, end: int) -> dict[str, str]:
    """What the commit of a batch of these offsets says of itself."""
    return {OFFSETS: json.dumps({"events": {"0": [start, end]}})}


def test_a_batch_that_the_log_does_not_know_of_stops_the_one_behind_it(table: Path) -> None:
    commits = NativeCommits()
    assert by_log(commits, table, [written(table)], SCHEMA, "app", 7, of(0, 9))
    for known in (commits, NativeCommits()):
        with pytest.raises(
            TableAhead, match=rf"{table} has batch 7 already, and this log .* comes to batch 6"
        ):
            by_log(known, table, [written(table)], SCHEMA, "app", 6, of(0, 5), 5)
        # Another run's, between this log's newest batch and the next one.
        with pytest.raises(TableAhead, match=r"batch 7 already, .* to batch 9.*`start: from_tables`"):
            by_log(known, table, [written(table)], SCHEMA, "app", 9, of(5, 9), 5)
        with pytest.raises(TableAhead, match=r"has a batch 7 of other offsets.* an older copy"):
            by_log(known, table, [written(table)], SCHEMA, "app", 7, of(0, 5), 5)
    assert DeltaTable(table).to_pyarrow_table().num_rows == 2
    assert by_log(commits, table, [written(table)], SCHEMA, "app", 9, of(9, 10), 7)


def test_whether_a_batch_is_in_is_told_by_its_own_commit_behind_those_of_others(table: Path) -> None:
    files = [written(table)]
    assert by_log(NativeCommits(), table, files, SCHEMA, "app", 7, of(0, 9))
    for batch in range(3):
        by_log(NativeCommits(), table, [], SCHEMA, "rival", batch, of(3, 4))
    assert not by_log(NativeCommits(), table, files, SCHEMA, "app", 7, of(0, 9), 3)
    # Those of another decision about the same offsets: the table's own would be garbage to this one.
    for others, offsets in [(files, of(0, 8)), ([written(table)], of(0, 9))]:
        with pytest.raises(TableAhead, match="of other offsets or files"):
            by_log(NativeCommits(), table, others, SCHEMA, "app", 7, offsets, 3)
    # Cleaned up after a checkpoint: the transaction's number is all that there is.
    DeltaTable(table).create_checkpoint()
    (table / "_delta_log" / f"{1:020d}.json").unlink()
    assert not by_log(NativeCommits(), table, [], SCHEMA, "app", 7, of(0, 8), 3)


def test_what_others_append_is_taken_note_of_without_opening_the_table_again(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Opening one of many files takes so long that of several pipelines with one ledger somebody else would always be first."""
    mine, others = NativeCommits(), NativeCommits()
    for commits, app in ((mine, "app"), (others, "other")):
        assert by_log(commits, table, [], SCHEMA, app, 0, {})
    with monkeypatch.context() as patch:
        patch.setattr(log_commit, "_look_at", opened_again)
        for batch in range(1, 9):
            for commits, app in ((mine, "app"), (others, "other")):
                assert by_log(commits, table, [written(table)], SCHEMA, app, batch, {})
        assert by_log(others, table, [], SCHEMA, "app", 9, of(0, 9))
        assert not by_log(mine, table, [], SCHEMA, "app", 9, of(0, 9), 8)
    DeltaTable(table).alter.add_columns([Field("b", PrimitiveType("long"))])
    assert mine.state(table).layout.names == ["a", "s", "b"]
    assert DeltaTable(table).to_pyarrow_table().num_rows == 32


def opened_again(place: object) -> NoReturn:
    raise AssertionError(f"{place} is opened again")


def test_a_later_batch_and_another_app_go_on(table: Path) -> None:
    assert by_log(NativeCommits(), table, [written(table)], SCHEMA, "app", 1, {})
    assert by_log(NativeCommits(), table, [written(table)], SCHEMA, "app", 2, {})
    assert by_log(NativeCommits(), table, [written(table)], SCHEMA, "other", 1, {})
    assert DeltaTable(table).to_pyarrow_table().num_rows == 6


def test_of_eight_who_commit_the_same_batch_one_does(table: Path) -> None:
    file = written(table)
    with ThreadPoolExecutor(8) as pool:
        done = list(
            pool.map(lambda _: by_log(NativeCommits(), table, [file], SCHEMA, "app", 0, {}), range(8))
        )
    assert sorted(done) == [False] * 7 + [True]
    assert DeltaTable(table).to_pyarrow_table().num_rows == 2


def test_one_of_those_who_commit_the_same_batch_within_a_millisecond_does(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now)
    actions = [append_actions([], "app", 0, {}) for _ in range(2)]
    assert [put_entry(table, 1, each) for each in actions] == [True, False]


def test_rivals_of_other_apps_all_get_in(table: Path) -> None:
    files = [written(table) for _ in range(8)]
    with ThreadPoolExecutor(8) as pool:
        done = list(
            pool.map(lambda i: by_log(NativeCommits(), table, [files[i]], SCHEMA, f"app{i}", 0, {}), range(8))
        )
    assert all(done)
    assert DeltaTable(table).to_pyarrow_table().num_rows == 16


def test_a_rival_between_check_and_commit_is_met_by_checking_again(
    table: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = written(table)
    versions: list[int] = []

    def with_rival_first(folder: str, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
        versions.append(version)
        if len(versions) == 1:
            DeltaTable(table).alter.add_columns(Field("new", PrimitiveType("string")))
            assert by_log(NativeCommits(), table, [file], SCHEMA, "app", 3, {})
        return put_entry(folder, version, actions)

    monkeypatch.setattr("distributary.ingest.tables.log_commit.put_entry", with_rival_first)
    assert not by_log(NativeCommits(), table, [file], SCHEMA, "app", 3, {})
    assert DeltaTable(table).to_pyarrow_table().num_rows == 2
    assert versions == [1, 2]


def cleaned_up_by_another(table: Path) -> None:
    """Another writer goes on, and the log keeps nothing from before its newest checkpoint."""
    for batch in range(5):
        by_log(NativeCommits(), table, [written(table)], SCHEMA, "rival", batch, {})
    DeltaTable(table).create_checkpoint()
    newest = DeltaTable(table).version()
    for version in range(newest):
        (table / entry_path(version)).unlink(missing_ok=True)


@pytest.mark.parametrize("known", [False, True])
def test_whoever_stands_still_until_the_log_is_cleaned_up_commits_behind_what_is_there(
    table: Path, monkeypatch: pytest.MonkeyPatch, known: bool
) -> None:
    """The number that would have been next is free again, and nobody reads an entry there."""
    commits = NativeCommits()
    assert not known or by_log(commits, table, [], SCHEMA, "app", 2, {})
    stood_still: list[int] = []

    def standing_still(folder: str, version: int, actions: Sequence[Mapping[str, Any]]) -> bool:
        if not stood_still:
            stood_still.append(version)
            cleaned_up_by_another(table)
        return put_entry(folder, version, actions)

    monkeypatch.setattr("distributary.ingest.tables.log_commit.put_entry", standing_still)
    for batch in (3, 4):
        assert by_log(commits, table, [written(table)], SCHEMA, "app", batch, {})
    assert DeltaTable(table).transaction_version("app") == 4
    assert DeltaTable(table).to_pyarrow_table().num_rows == 2 * (5 + 2)


@pytest.mark.parametrize("how", ["anew", "as a copy"])
def test_whoever_stood_still_before_he_made_a_table_commits_to_the_one_that_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    table, commits = tmp_path / "t", NativeCommits()
    like = create(tmp_path / "like", SCHEMA, {}) if how == "as a copy" else None

    def standing_still(place: Any) -> bool:
        monkeypatch.setattr(change, "is_there", is_there)
        create(table, SCHEMA, {})
        cleaned_up_by_another(table)
        return False

    monkeypatch.setattr(change, "is_there", standing_still)
    if (made := create(table, SCHEMA, {}, like)) is not None:
        commits.created(made)
    assert by_log(commits, table, [written(table)], SCHEMA, "app", 0, {})
    assert DeltaTable(table).to_pyarrow_table().num_rows == 2 * (5 + 1)


def test_a_table_changed_by_somebody_else_is_read_again(table: Path) -> None:
    commits = NativeCommits()
    assert by_log(commits, table, [written(table)], SCHEMA, "app", 0, {})
    DeltaTable(table).alter.add_constraint({"positive": "a > 0 OR a IS NULL"})
    with pytest.raises(CommitImpossible, match="CHECK constraint positive"):
        by_log(commits, table, [written(table)], SCHEMA, "app", 1, {})


def test_a_table_made_anew_is_not_taken_for_the_one_that_was_seen(table: Path) -> None:
    commits = NativeCommits()
    for batch in range(3):
        assert by_log(commits, table, [written(table)], SCHEMA, "app", batch, {})
    shutil.rmtree(table)
    create(table, SCHEMA, {})
    for batch in range(3):
        by_log(NativeCommits(), table, [written(table)], SCHEMA, "rival", batch, {})
    assert by_log(commits, table, [written(table)], SCHEMA, "app", 3, {})
    assert DeltaTable(table).to_pyarrow_table().num_rows == 8


def test_the_entry_is_the_protocols(table: Path) -> None:
    file = written(table)
    assert by_log(NativeCommits(), table, [file], SCHEMA, "app", 4, {"told": "so"})
    lines = [json.loads(line) for line in (table / "_delta_log" / f"{1:020d}.json").read_text().splitlines()]
    info, txn, add = lines[0]["commitInfo"], lines[1]["txn"], lines[2]["add"]
    assert (info["told"], info["isBlindAppend"], info["operationMetrics"]["numOutputRows"]) == (
        "so",
        True,
        "2",
    )
    assert (txn["appId"], txn["version"]) == ("app", 4)
    assert (add["path"], add["size"], add["dataChange"]) == (file.name, file.bytes, True)
    assert not list((table / "_delta_log").glob(".*.tmp"))


def test_a_files_columns_may_be_fewer_than_the_tables(table: Path) -> None:
    part = pa.schema([("s", pa.struct([("y", pa.string())]))])
    assert by_log(NativeCommits(), table, [written(table, [{"s": {"y": "only"}}], part)], part, "app", 0, {})
    assert DeltaTable(table).to_pyarrow_table().to_pylist() == [{"a": None, "s": {"x": None, "y": "only"}}]


@pytest.mark.parametrize(
    ("schema", "why"),
    [
        (pa.schema([("z", pa.int64())]), "no column z"),
        (pa.schema([("a", pa.int32())]), "column a is int64 in the table and int32 in the files"),
        (pa.schema([("s", pa.struct([("y", pa.binary())]))]), r"column s\.y is string"),
        (pa.schema([("s", pa.struct([("n", pa.binary())]))]), r"no column s\.n"),
    ],
)
def test_files_that_do_not_fit_are_refused_for_good(table: Path, schema: pa.Schema, why: str) -> None:
    with pytest.raises(CommitImpossible, match=rf"table {table}.* batch 4: {why}.*distributary resolve"):
        by_log(NativeCommits(), table, [written(table, [], schema)], schema, "app", 4, {})
    assert DeltaTable(table).version() == 0


def test_a_file_that_is_gone_or_cut_off_is_refused_for_good(table: Path) -> None:
    file = written(table)
    with pytest.raises(CommitImpossible, match=r"has \d+ bytes, not \d+ as written"):
        by_log(NativeCommits(), table, [replace(file, bytes=file.bytes + 1)], SCHEMA, "app", 0, {})
    (table / file.name).unlink()
    with pytest.raises(CommitImpossible, match="is gone"):
        by_log(NativeCommits(), table, [file], SCHEMA, "app", 0, {})


def test_a_table_that_is_gone_is_refused_for_good(tmp_path: Path) -> None:
    with pytest.raises(CommitImpossible, match="no Delta table any more"):
        by_log(NativeCommits(), tmp_path / "t", [], SCHEMA, "app", 0, {})


def test_a_table_that_got_a_constraint_takes_no_files_as_they_are(table: Path) -> None:
    DeltaTable(table).alter.add_constraint({"positive": "a > 0"})
    with pytest.raises(CommitImpossible, match="CHECK constraint positive"):
        by_log(NativeCommits(), table, [written(table)], SCHEMA, "app", 0, {})


def test_a_tables_200th_commit_costs_no_more_than_twice_its_first(tmp_path: Path) -> None:
    commits, old = NativeCommits(), tmp_path / "old"
    create(old, SCHEMA, {})
    for batch in range(200):
        by_log(commits, old, [written(old)], SCHEMA, "app", batch, {})
    costs = []
    for turn in range(20):
        young = tmp_path / f"young{turn}"
        create(young, SCHEMA, {})
        costs.append((cpu_seconds(commits, old, 200 + turn), cpu_seconds(commits, young, 0)))
    assert median(cost[0] for cost in costs) < 2 * median(cost[1] for cost in costs)


def cpu_seconds(commits: NativeCommits, path: Path, batch_id: int) -> float:
    file = written(path)
    began = time.process_time()
    assert by_log(commits, path, [file], SCHEMA, "app", batch_id, {})
    return time.process_time() - began


def test_ids_written_by_a_rival_library_count(table: Path) -> None:
    properties = CommitProperties(app_transactions=[Transaction("app", 5)])
    DeltaTable(table).create_write_transaction([], "append", SCHEMA, commit_properties=properties)
    assert not by_log(NativeCommits(), table, [], SCHEMA, "app", 5, {})
    lines = [json.loads(line) for line in (table / "_delta_log" / f"{1:020d}.json").read_text().splitlines()]
    assert any("txn" in line for line in lines)


def forgetful(table: Path) -> None:
    """The table forgets transactions at once."""
    DeltaTable(table).alter.set_table_properties({FORGETS: "interval 0 seconds"})


def test_a_repeat_finds_what_the_table_forgot_though_its_files_were_compacted(table: Path) -> None:
    files = [written(table), written(table)]
    by_log(NativeCommits(), table, files, SCHEMA, "app/events", 0)
    forgetful(table)
    DeltaTable(table).optimize.compact()
    assert DeltaTable(table).transaction_version("app/events") is None
    assert not by_log(NativeCommits(), table, files, SCHEMA, "app/events", 0)
    assert DeltaTable(table).to_pyarrow_table().num_rows == 4
    assert by_log(NativeCommits(), table, [written(table)], SCHEMA, "app/events", 1)
    assert DeltaTable(table).to_pyarrow_table().num_rows == 6


def test_a_table_that_forgot_and_whose_log_does_not_tell_any_more_takes_nothing(table: Path) -> None:
    files = [written(table), written(table)]
    by_log(NativeCommits(), table, files, SCHEMA, "app/events", 0)
    forgetful(table)
    DeltaTable(table).create_checkpoint()
    (table / entry_path(1)).unlink()
    with pytest.raises(CommitImpossible, match=f"the property {FORGETS}, by which it forgets .* UNSET"):
        by_log(NativeCommits(), table, files, SCHEMA, "app/events", 0)
    assert DeltaTable(table).to_pyarrow_table().num_rows == 4
