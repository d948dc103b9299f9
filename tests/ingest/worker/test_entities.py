from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from tests.ingest.kafka_records import columns_of, folder, pins

from distributary.ingest.columns.layout import Layout
from distributary.ingest.pins import PinnedTable
from distributary.ingest.settings.groups import Policies
from distributary.ingest.settings.patterns import Pattern
from distributary.ingest.settings.rule_book import FitRules, TableSpec
from distributary.ingest.worker.entities import DENIED, NONE, WAITING, EntityBook

A = pa.schema([("a", pa.int64())])
NARROW = pa.schema([("a", pa.int32())])
WIDE = pa.schema([("a", pa.int64()), ("b", pa.string())])


def codes(book: EntityBook, *entities: str | None) -> list[int]:
    found: list[int] = book.codes(pa.array(entities, pa.string()).dictionary_encode()).tolist()
    return found


def test_entities_are_numbered_as_they_come_and_keep_their_number(tmp_path: Path) -> None:
    book = EntityBook(pins(tmp_path))
    assert codes(book, "golf", None, "quest", "golf") == [0, NONE, 1, 0]
    assert codes(book, "quest", "new") == [1, 2]
    assert book.folders == [folder("golf"), folder("quest"), folder("new")]
    assert book.entity_of(folder("quest")) == "quest"


def test_new_entities_beyond_the_allowance_wait_or_are_denied_but_known_and_admitted_ones_never(
    tmp_path: Path,
) -> None:
    for final, beyond in ((False, WAITING), (True, DENIED)):
        changes = {
            "known": {folder("known"): PinnedTable("known", Layout(A))},
            "admitted": frozenset({folder("admitted")}),
            "denied": frozenset({folder("denied")}),
        }
        book = EntityBook(pins(tmp_path, new_tables=1, tables_final=final, **changes))
        found = codes(book, "first", "second", "known", "admitted", "denied", "second")
        assert found == [0, beyond, 1, 2, DENIED, beyond]


def test_no_new_table_is_made_for_a_name_that_would_fill_the_log(tmp_path: Path) -> None:
    long, longest = "x" * 20_001, "y" * 20_000
    book = EntityBook(pins(tmp_path))
    assert codes(book, long, longest, long) == [DENIED, 0, DENIED]
    there = {"known": {folder(long): PinnedTable(long, Layout(A))}}
    assert codes(EntityBook(pins(tmp_path, **there)), long) == [0]
    # The run is to stop for it.
    assert codes(EntityBook(pins(tmp_path, policies=Policies(new_entity="fail"))), long) == [0]


def test_entities_that_differ_by_case_share_a_table(tmp_path: Path) -> None:
    book = EntityBook(pins(tmp_path, new_tables=1))
    assert codes(book, "golf", "GOLF", "Golf") == [0, 0, 0]


def test_tables_with_the_same_columns_share_one_layout_and_one_conversion(tmp_path: Path) -> None:
    book = EntityBook(pins(tmp_path))
    codes(book, "a", "b")
    assert [book.grow(code, 0, columns_of(1)) for code in (0, 1, 0)] == [True, True, False]
    assert book.layouts[0] == book.layouts[1]
    conversions = {id(book.conversion(0, columns_of(1), code)) for code in (0, 1)}
    assert len(conversions) == 1
    assert book.grow(1, 1, columns_of(2))
    assert book.layout_of(folder("b")).names[-1] == "achievements"
    assert book.layouts[0] != book.layouts[1]


def test_rescued_values_get_their_column_once(tmp_path: Path) -> None:
    book = EntityBook(pins(tmp_path))
    codes(book, "a")
    for _ in range(2):
        book.rescue([0])
        assert book.layouts[0].names == ["_rescued_data"]


def test_the_table_for_strays_is_no_entitys(tmp_path: Path) -> None:
    book = EntityBook(pins(tmp_path, new_tables=0, tables_final=True))
    number = book.named_table("strays")
    assert (number, book.named_table("strays"), book.entity_of("strays")) == (0, 0, "")
    assert codes(book, "strays") == [DENIED]


def test_a_table_whose_rule_has_policies_of_its_own_keeps_to_them(tmp_path: Path) -> None:
    rules = {
        "specs": (TableSpec(0, "kept"), TableSpec(1, "wide"), TableSpec(2, "new")),
        "patterns": tuple(Pattern(name, folds=True) for name in ("kept", "wide", "new")),
        "fits": {
            0: FitRules(Policies(new_field="rescue"), grows=False, widens=False),
            1: FitRules(Policies(wider_type="widen"), grows=True, widens=True),
            2: FitRules(Policies(new_field="ignore"), grows=False, widens=False),
        },
    }
    names = ("kept", "wide", "other")
    there = {folder(name): PinnedTable(name, Layout(NARROW)) for name in names}
    book = EntityBook(pins(tmp_path, known=there, **rules))
    assert codes(book, "KEPT", "wide", "other", "new") == [0, 1, 2, 3]
    assert [book.rule(code) for code in range(4)] == [0, 1, None, 2]
    assert [book.grow(code, 0, WIDE) for code in range(4)] == [False, True, True, True]
    assert [book.wish(code, 0, WIDE) is not None for code in range(3)] == [False, True, False]
    assert book.layouts[1] == book.layouts[2]
    assert book.conversion(0, WIDE, 1) is not book.conversion(0, WIDE, 2)
    assert book.conversion(0, WIDE, 1) is book.conversion(0, WIDE, 1)
