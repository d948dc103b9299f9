from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from tests.ingest.commits import by_log
from tests.ingest.foreign import ODD_ABOVE, ODD_BESIDE, foreign_entries
from tests.ingest.pipelines import make_table, table_book

from distributary.ingest.settings.groups import Columns
from distributary.ingest.tables.change import create
from distributary.ingest.tables.known import ENTITY_PROPERTY, PIPELINE_PROPERTY, MadeWith, TableBook
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


def test_tables_of_another_pipeline_are_not_told_whoever_says_whose_they_are(tmp_path: Path) -> None:
    book = table_book(tmp_path)
    for folder, entity in [("mine", "golf"), ("recorded", "golf"), ("nobodys", "quest")]:
        make_table(tmp_path, folder, A, entity)
    create(tmp_path / "lake" / "told", A, {ENTITY_PROPERTY: "golf", PIPELINE_PROPERTY: "other"})
    owners = {"mine": "games", "recorded": "other"}
    assert book.entities_there("games", owners) == {"golf": "mine", "quest": "nobodys"}
    assert book.entities_there("other", owners)["quest"] == "nobodys"


def test_of_several_tables_of_an_entity_that_one_is_its_own_which_it_would_get_now(tmp_path: Path) -> None:
    """As behind `start: again` into tables of other names: from the other one everything would be made that is derived."""
    for folder, entity in [("a_golf", "golf"), ("b_golf", "golf"), ("b_quest", "quest")]:
        make_table(tmp_path, folder, A, entity)
    place = table_book(tmp_path).root
    for named, golf in (("a_{}", "a_golf"), ("b_{}", "b_golf")):
        book = TableBook(place, Columns(), None, made_with=MadeWith(named=named.format))
        assert book.entities_there() == {"golf": golf, "quest": "b_quest"}


def test_entries_that_are_not_ours_are_passed_by(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    make_table(tmp_path, "t", A, "golf")
    (tmp_path / "lake" / "t" / "circle").symlink_to(tmp_path / "lake" / "t" / "circle")
    foreign_entries(tmp_path / "lake", monkeypatch)
    assert table_book(tmp_path).entities_there() == {"golf": "t"}
    assert "lost+found is passed by, since it may not be read" in caplog.text


@pytest.mark.parametrize("odd", ODD_ABOVE)
def test_folders_above_and_beside_tables_may_be_called_as_they_like(tmp_path: Path, odd: str) -> None:
    root = tmp_path / odd
    make_table(root, "t", A, "golf")
    for beside in ODD_BESIDE:
        (root / "lake" / beside).mkdir()
    assert table_book(root).entities_there() == {"golf": "t"}


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
    native.expect(lambda _: "app")
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
