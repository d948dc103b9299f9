"""Tables in a folder and in S3: made, copied, grown, committed to and read back, all by the same calls."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from deltalake.table import TableAlterer
from tests.ingest.commits import by_log, table_commit
from tests.ingest.kafka_records import GENERATION
from tests.ingest.storage.relay import relayed
from tests.ingest.storage.stores import Store
from tests.ingest.tables.test_ledger import batch_row, change_row

from distributary.errors import CommitImpossible
from distributary.ingest.batch.sweep import sweep
from distributary.ingest.checkpoint.earlier_runs import earlier_commits
from distributary.ingest.columns.growth import Change
from distributary.ingest.columns.layout import Layout
from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE
from distributary.ingest.kafka.columns import table_schema
from distributary.ingest.log_paths import entry_path
from distributary.ingest.parquet.buffers import TableBuffers
from distributary.ingest.parquet.data_file import DataFile, file_name
from distributary.ingest.settings.groups import Columns
from distributary.ingest.storage.clients import sent
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables import handle, ledger, log_commit
from distributary.ingest.tables.change import PlannedChange, TableChanger, create, evolve
from distributary.ingest.tables.commit import commit_tables
from distributary.ingest.tables.handle import is_there, opened
from distributary.ingest.tables.known import ENTITY_PROPERTY, TableBook
from distributary.ingest.tables.log import put_entry, tables_under
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.state import read_state, table_folder
from distributary.ingest.tables.state_by_spark import path_for_spark, snapshot
from distributary.ingest.tables.transaction import is_committed
from distributary.producer_sim.verify.lake import Lake

A = pa.schema([("a", pa.int64())])
AB = A.append(pa.field("b", pa.string()))

NO_SPARK = cast("Any", None)


def written(place: Files, table: str, *numbers: int) -> DataFile:
    held = TableBuffers(place, GENERATION, 0, 10**6, lambda _: Layout(A))
    held.add(table, pa.RecordBatch.from_pydict({"a": numbers}, A))
    held.close()
    (file,) = held.files
    return file


def read(table: Files) -> list[dict[str, Any]]:
    handle = opened(table)
    found: list[dict[str, Any]] = handle.to_pyarrow_table(filesystem=table_folder(handle)).to_pylist()
    return found


def test_files_are_committed_once_and_read_back(place: Files) -> None:
    table = place.below("t")
    create(table, A, {})
    commits = NativeCommits()
    file = written(place, "t", 1, 2)
    assert by_log(commits, table, [file], A, "app", 0, {})
    assert not by_log(commits, table, [file], A, "app", 0, {})
    assert not by_log(NativeCommits(), table, [file], A, "app", 0, {})
    assert is_committed(table, "app", 0) and not is_committed(table, "app", 1)
    assert read(table) == [{"a": 1}, {"a": 2}]


def test_a_file_that_is_gone_is_told_of(place: Files) -> None:
    table = place.below("t")
    create(table, A, {})
    file = written(place, "t", 1)
    place.delete([f"t/{file.name}"])
    with pytest.raises(CommitImpossible, match=f"file {file.name} is gone"):
        by_log(NativeCommits(), table, [file], A, "app", 0, {})


def test_a_commit_to_a_table_in_a_store_that_is_known_is_two_requests(in_s3: Files) -> None:
    """Whether the newest entry is the one that was seen, and the next one: files that were written just now are there."""
    commits, table = NativeCommits(), in_s3.below("t")
    # By its random URL it may be the log's turn to be asked for its checkpoint, aside.
    create(table, A, {"delta.checkpointInterval": str(10**9)})
    files = [written(in_s3, "t", number) for number in range(3)]
    for number, file in enumerate(files):
        before = sent()
        assert commits.commit(replace(table_commit(table, [file], A, "app", number, {}), fresh=True))
        # The first one opens the table.
        assert number == 0 or sent() - before == 2
    assert sorted(row["a"] for row in read(table)) == [0, 1, 2]


def test_a_table_made_anew_in_a_store_is_noticed_by_what_its_entries_say(in_s3: Files) -> None:
    commits, table = NativeCommits(), in_s3.below("t")
    for _ in range(2):
        create(table, A, {})
        assert by_log(commits, table, [written(in_s3, "t", 1)], A, "app", 0, {})
        in_s3.delete([info.path for info in in_s3.list("t/_delta_log")])
    create(table, AB, {})
    assert by_log(commits, table, [written(in_s3, "t", 2)], A, "app", 0, {})
    assert read(table) == [{"a": 2, "b": None}]


def test_a_table_made_as_a_copy_of_another_one_is_as_good(place: Files) -> None:
    first = create(place.below("one"), A, {"distributary.entity": "one"})
    assert first is not None
    second = create(place.below("two"), A, {"distributary.entity": "two"}, first)
    assert second is not None
    assert second == read_state(place.below("two"))
    assert second.place == place.below("two")
    assert by_log(NativeCommits(), place.below("two"), [written(place, "two", 7)], A, "app", 0, {})
    assert (read(place.below("one")), read(place.below("two"))) == ([], [{"a": 7}])


def test_a_table_grows_and_the_change_is_noticed(place: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_commit, "TRUSTED_SECONDS", 0.0)
    book = TableBook(place, Columns(), None, 4)
    assert book.entities_there() == {}
    create(place.below("t"), A, {ENTITY_PROPERTY: "golf"})
    before = book.states(["t", "gone"])["t"]
    assert book.states(["t"])["t"] is before
    assert evolve(place.below("t"), AB) == ("b",)
    assert book.states(["t"])["t"].layout.names == ["a", "b"]
    assert book.entities_there() == {"golf": "t"}
    assert book.pinned({"golf": "t"})["t"].layout.names == ["a", "b"]


def test_a_table_that_grew_since_it_was_looked_at_takes_files_with_the_new_columns(place: Files) -> None:
    commits, table = NativeCommits(), place.below("t")
    create(table, A, {})
    assert by_log(commits, table, [written(place, "t", 1)], A, "app", 0, {})
    assert commits.known(table) is not None
    evolve(table, AB)
    held = TableBuffers(place, GENERATION, 1, 10**6, lambda _: Layout(AB))
    held.add("t", pa.RecordBatch.from_pydict({"a": [2], "b": ["x"]}, AB))
    held.close()
    assert by_log(commits, table, held.files, AB, "app", 1, {})
    assert sorted(read(table), key=lambda row: row["a"]) == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]
    unfit = AB.append(pa.field("c", pa.string()))
    with pytest.raises(CommitImpossible, match="no column c"):
        by_log(commits, table, held.files, unfit, "app", 2, {})


def test_between_commits_a_store_is_not_asked_for_what_it_told_a_moment_ago(in_s3: Files) -> None:
    commits, table = NativeCommits(), in_s3.below("t")
    book = TableBook(in_s3, Columns(), None, 4, commits)
    create(table, A, {})
    file = written(in_s3, "t", 1)
    assert by_log(commits, table, [file], A, "app", 0, {})
    in_s3.delete([info.path for info in in_s3.list("t/_delta_log")])
    assert book.states(["t"])["t"].version == 1
    with pytest.raises(CommitImpossible, match="there is no Delta table any more"):
        by_log(commits, table, [file], A, "app", 1, {})


def test_whoever_stood_still_until_a_store_cleaned_a_log_up_commits_behind_what_is_there(
    place: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    table, right, put = place.below("t"), time.time, put_entry
    create(table, A, {})

    def standing_still(of: Files, version: int, actions: Any) -> bool:
        monkeypatch.setattr(log_commit, "put_entry", put)
        for number in range(4):
            assert by_log(NativeCommits(), table, [written(place, "t", number)], A, "rival", number, {})
        opened(table).create_checkpoint()
        place.delete(f"t/{entry_path(earlier)}" for earlier in range(4))
        monkeypatch.setattr(time, "time", lambda: right() + 3 * 86_400)
        return put(of, version, actions)

    monkeypatch.setattr(log_commit, "put_entry", standing_still)
    assert by_log(NativeCommits(), table, [written(place, "t", 9)], A, "app", 0, {})
    assert sorted(row["a"] for row in read(table)) == [0, 1, 2, 3, 9]


def test_two_who_commit_in_turns_lose_nothing_and_commit_nothing_twice(place: Files) -> None:
    create(place.below("t"), A, {})
    one, other = NativeCommits(), NativeCommits()
    for number in range(4):
        file = written(place, "t", number)
        first, second = (one, other) if number % 2 else (other, one)
        assert by_log(first, place.below("t"), [file], A, "app", number, {})
        assert not by_log(second, place.below("t"), [file], A, "app", number, {})
    assert sorted(row["a"] for row in read(place.below("t"))) == [0, 1, 2, 3]


def test_a_table_made_anew_is_no_more_the_one_that_was_known(place: Files) -> None:
    commits, table = NativeCommits(), place.below("t")
    create(table, A, {})
    assert by_log(commits, table, [written(place, "t", 1)], A, "app", 0, {})
    place.delete([info.path for info in place.list("t/_delta_log")])
    create(table, A, {})
    assert by_log(commits, table, [written(place, "t", 2)], A, "app", 0, {})
    assert read(table) == [{"a": 2}]


def test_all_tables_of_a_batch_are_made_at_once(place: Files) -> None:
    book = TableBook(place, Columns(), None, 4)
    layouts = {f"t{number}": Layout(A) for number in range(5)}
    planned = [
        PlannedChange(folder, folder, True, (Change("a", "created", "bigint"),), 1, None)
        for folder in layouts
    ]
    TableChanger(book, None, Columns()).apply(planned, layouts, {"distributary.pipeline": "games"})
    found = book.states([*layouts, *(BATCHES_TABLE, CHANGES_TABLE)])
    assert len(found) == 7
    assert found["t3"].layout.names == table_schema(Columns(), Layout(A)).names
    assert found["t3"].properties[ENTITY_PROPERTY] == "t3"


def test_a_table_that_was_just_changed_is_known_as_it_is_now(place: Files) -> None:
    book = TableBook(place, Columns(), None, 4)
    changer = TableChanger(book, None, Columns())
    for layout, new in ((Layout(A), True), (Layout(AB), False)):
        planned = PlannedChange("t", "t", new, (Change("a", "created", "bigint"),), 1, None)
        changer.apply([planned], {"t": layout}, {})
        assert set(layout.names) <= set(book.states(["t"])["t"].layout.names)


def test_what_an_attempt_put_before_it_failed_is_put_again_on_a_disk_alone(
    place: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    book, put, plain = TableBook(place, Columns(), None, 1), list[str](), type(place).put

    def stop() -> None:
        raise OSError

    def noted(files: Files, path: str, *given: Any, **named: Any) -> None:
        put.append(path)
        plain(files, path, *given, **named)

    planned = PlannedChange("t", "t", True, (Change("a", "created", "bigint"),), 1, None)
    with pytest.raises(OSError):
        TableChanger(book, None, Columns(), changed=stop).apply([planned], {"t": Layout(A)}, {})
    monkeypatch.setattr(type(place), "put", noted)
    TableChanger(book, None, Columns()).apply([planned], {"t": Layout(A)}, {})
    # A store keeps what it answered for.
    assert bool(put) != place.remote
    assert "a" in book.states(["t"])["t"].layout.names


def test_a_batch_s_own_rows_are_kept_and_read_back(place: Files) -> None:
    create(place.below(BATCHES_TABLE), ledger.BATCHES_SCHEMA, {})
    create(place.below(CHANGES_TABLE), ledger.CHANGES_SCHEMA, {})
    for file, schema in (
        (ledger.batch_file(place, batch_row()), ledger.BATCHES_SCHEMA),
        (ledger.changes_file(place, [change_row("elo"), change_row("name")]), ledger.CHANGES_SCHEMA),
    ):
        info = place.info(f"{file.table}/{file.name}")
        assert info is not None and info.size == file.bytes
        assert by_log(NativeCommits(), place.below(file.table), [file], schema, "app", 4, {})
    assert [row["rows_read"] for row in read(place.below(BATCHES_TABLE))] == [12]
    assert [row["column"] for row in read(place.below(CHANGES_TABLE))] == ["elo", "name"]


def test_what_killed_writers_left_is_swept_and_nothing_else(place: Files) -> None:
    create(place.below("t"), A, {})
    kept = written(place, "t", 1)
    assert by_log(NativeCommits(), place.below("t"), [kept], A, "app", 0, {})
    torn, foreign = file_name(GENERATION, 4), file_name("f" * 32, 4)
    place.put(f"t/{torn}", b"PAR1 and no more", named_later=True)
    place.put(f"t/{foreign}", b"PAR1", named_later=True)
    place.put(f"new/{torn}", b"", named_later=True)
    assert sorted(sweep(place, GENERATION, [range(4, 5)], ())) == [f"new/{torn}", f"t/{torn}"]
    assert {info.name for info in place.list("t")} == {kept.name, foreign}
    assert read(place.below("t")) == [{"a": 1}]


@pytest.mark.parametrize("name", ["at=2026%2F01", "what?", "one#two", "one\\two"])
def test_another_program_s_folder_of_any_name_keeps_no_table_from_being_found(
    place: Files, name: str
) -> None:
    """As Spark calls the parts of a table, by values that it escapes."""
    create(place.below("t"), A, {ENTITY_PROPERTY: "golf"})
    place.put(f"{name}/file", b"somebody else's")
    assert TableBook(place, Columns(), None).entities_there() == {"golf": "t"}
    assert tables_under(place) == ["t"]
    assert earlier_commits(place) == []
    assert Lake(root=place, template="{entity}").entity_tables() == []
    assert place.read(f"{name}/file")


def test_more_tables_are_waited_for_side_by_side_in_a_store(in_s3: Files, tmp_path: Path) -> None:
    assert TableBook(in_s3, Columns(), None).threads > TableBook(tmp_path, Columns(), None).threads
    assert TableBook(in_s3, Columns(), None, 3).threads == 3


def constrained(place: Files) -> Files:
    """A table that only Spark's writer may append to."""
    table = place.below("t")
    create(table, table_schema(Columns(), Layout(A)), {ENTITY_PROPERTY: "golf"})
    opened(table).alter.add_constraint({"positive": "a > 0"})
    return table


def test_a_table_for_spark_s_writer_is_refused_in_s3_before_anything_is_read(in_s3: Files) -> None:
    constrained(in_s3)
    book = TableBook(in_s3, Columns(), None, 4)
    assert not book.states(["t"])["t"].native
    with pytest.raises(
        CommitImpossible, match=rf"table {in_s3}/t: .*constraint.* on S3 may replace an entry"
    ):
        book.pinned({"golf": "t"})
    found, refused = book.readable({"golf": "t"})
    assert (found, list(refused)) == ({}, ["t"])


def test_a_table_in_s3_that_got_a_constraint_during_a_batch_waits_until_that_is_taken_away(
    in_s3: Files,
) -> None:
    """The batch was decided as one for Spark's writer, which never gets there."""
    constrained(in_s3)
    one = replace(table_commit(in_s3.below("t"), [written(in_s3, "t", 1)], A, "app", 0), native=False)
    with pytest.raises(
        CommitImpossible, match=r"does not take files as they are any more.*constraint"
    ) as waits:
        commit_tables(NO_SPARK, [one], 1)
    assert waits.value.tables == ("t",)
    opened(in_s3.below("t")).alter.drop_constraint("positive")
    assert commit_tables(NO_SPARK, [one], 1) == {"t": True}
    assert commit_tables(NO_SPARK, [one], 1) == {"t": False}


def test_a_table_for_spark_s_writer_is_welcome_in_a_folder(tmp_path: Path) -> None:
    place = files_at(tmp_path)
    constrained(place)
    assert list(TableBook(place, Columns(), None, 4).pinned({"golf": "t"})) == ["t"]


def test_no_way_leads_spark_to_a_table_in_s3(in_s3: Files) -> None:
    wider = pa.schema([("a", pa.int32())])
    create(in_s3.below("w"), wider, {})
    with pytest.raises(CommitImpossible, match=r"a would become wider\. .*on S3"):
        evolve(in_s3.below("w"), A, object(), widen=True)  # type: ignore[arg-type]
    with pytest.raises(CommitImpossible, match="on S3"):
        snapshot(NO_SPARK, in_s3.below("w"))


@pytest.mark.parametrize(
    "url",
    ["/lake/t", "abfss://lake@account.dfs.core.windows.net/t", "gs://lake/t", "hdfs://node:8020/lake/t"],
)
def test_spark_is_let_near_tables_where_its_commits_are_put_if_absent(url: str) -> None:
    assert path_for_spark(url) == url


def test_spark_needs_azure_s_account_in_the_url() -> None:
    with pytest.raises(CommitImpossible, match="write abfss://"):
        path_for_spark("az://lake/t")


def test_whether_there_is_a_table_is_asked_while_others_go_on(place: Files) -> None:
    table = place.below("t")
    assert not is_there(table)
    table.put("_delta_log/_last_checkpoint", b"{}")
    assert not is_there(table)
    create(table, A, {})
    assert is_there(table)
    opened(table).create_checkpoint()
    table.delete([f"_delta_log/{0:020d}.json"])
    assert is_there(table)


def test_why_a_table_cannot_be_opened_just_now_is_told_on_one_line(
    place: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As delta-rs tells it of S3 whose keys have expired."""
    said = (
        "Kernel error -> Generic S3 error\n          \x1b[31m↳\x1b[0m Error performing GET http://a/b?c=hush in 4ms\n"
        "           \x1b[31m↳\x1b[0m 400 Bad Request\n            \x1b[31m↳\x1b[0m <Error><Code>ExpiredToken</Code>\n"
        "<Token-0>hush</Token-0></Error>\n"
    )

    def refusing(*_: Any, **__: Any) -> None:
        raise OSError(said)

    monkeypatch.setattr(handle, "DeltaTable", refusing)
    with pytest.raises(OSError, match="400 Bad Request: <Error><Code>ExpiredToken</Code>") as caught:
        opened(place.below("t"))
    assert str(caught.value).startswith(
        f"{place.url}/t: Kernel error -> Generic S3 error: Error performing GET"
    )
    assert "hush" not in str(caught.value)
    assert str(caught.value).isprintable()


def test_why_a_table_cannot_be_made_or_changed_just_now_is_told_without_what_the_store_quotes(
    place: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = place.below("t")

    def refusing(*_: Any, **__: Any) -> None:
        raise OSError(
            "Generic S3 error\n  \x1b[31m↳\x1b[0m <Code>ExpiredToken</Code><Token-0>hush</Token-0>\n"
        )

    def refused() -> str:
        with pytest.raises(OSError, match="ExpiredToken") as caught:
            create(table, AB, {})
        return str(caught.value)

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "create", refusing)
        made = refused()
    create(table, A, {})
    monkeypatch.setattr(TableAlterer, "add_columns", refusing)
    for why in (made, refused()):
        assert why.startswith(f"{table.url}: Generic S3 error: <Code>ExpiredToken")
        assert "hush" not in why
        assert why.isprintable()


def test_a_store_that_is_slow_to_say_whether_there_is_a_table_stops_nobody(s3_store: Store) -> None:
    """The relay in this process cannot answer before another thread of it goes on."""
    with relayed(s3_store.port) as relay:
        assert not is_there(s3_store.files(relay.port))
