from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from tests.ingest.commits import by_log
from tests.ingest.pipelines import make_table, table_book

from distributary.ingest.tables.change import create
from distributary.ingest.tables.log_commit import NativeCommits

A = pa.schema([("a", pa.int64())])


def test_tables_made_for_entities_are_found_by_them(tmp_path: Path) -> None:
    book = table_book(tmp_path)
    assert book.entities_there() == {}
    make_table(tmp_path, "t", A, "Golf!")
    make_table(tmp_path, "strays", A, "")
    make_table(tmp_path, "somebodys", A)
    make_table(tmp_path, ".t.replaced-1", A, "Golf!")
    (tmp_path / "lake" / "no_table").mkdir()
    assert book.entities_there() == {"Golf!": "t", "": "strays"}


def test_a_known_table_is_pinned_with_its_payloads_columns(tmp_path: Path) -> None:
    make_table(tmp_path, "t", A, "golf")
    pinned = table_book(tmp_path).pinned({"golf": "t", "gone": "g"})
    assert list(pinned) == ["t"]
    assert (pinned["t"].entity, pinned["t"].layout.names) == ("golf", ["a"])


def test_a_change_by_anybody_is_noticed_and_nothing_else_is_read_again(tmp_path: Path) -> None:
    book, path = table_book(tmp_path), make_table(tmp_path, "t", A)
    first = book.states(["t"])["t"]
    assert book.states(["t"])["t"] is first
    DeltaTable(path).alter.add_columns(Field("b", PrimitiveType("string")))
    assert "b" in book.states(["t"])["t"].layout.names
    shutil.rmtree(path)
    assert book.states(["t"]) == {}
    create(path, A, {})
    assert book.states(["t"])["t"].version == 0


def test_after_a_commit_of_our_own_nothing_is_read_again(tmp_path: Path) -> None:
    native = NativeCommits()
    book, path = table_book(tmp_path, native), make_table(tmp_path, "t", A)
    before = book.states(["t"])["t"]
    assert by_log(native, path, [], A, "app", 0, {})
    after = book.states(["t"])["t"]
    assert (after.version, after.layout is before.layout) == (1, True)


def test_a_rivals_commit_beside_our_own_is_noticed(tmp_path: Path) -> None:
    book, path = table_book(tmp_path), make_table(tmp_path, "t", A)
    book.states(["t"])
    DeltaTable(path).alter.add_columns(Field("b", PrimitiveType("string")))
    handle = DeltaTable(path)
    handle.create_write_transaction([], "append", handle.schema())
    state = book.states(["t"])["t"]
    assert (state.version, "b" in state.layout.names) == (2, True)
