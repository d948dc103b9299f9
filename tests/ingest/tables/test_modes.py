"""Tables with one row a key are made so that rows can be marked as gone, and stay what they were made for."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from distributary.errors import CommitImpossible
from distributary.ingest.columns.layout import Layout
from distributary.ingest.kafka.columns import table_schema
from distributary.ingest.reshaping.rule import OfKey, Op, Reshape, Secret
from distributary.ingest.reshaping.rule import Path as Path_
from distributary.ingest.settings.groups import Columns
from distributary.ingest.settings.rule_book import TableSpec
from distributary.ingest.settings.upserts import Keeping, Upsert
from distributary.ingest.tables.change import PlannedChange, TableChanger, create, evolve
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.known import MadeWith, TableBook, properties_of, require_mode
from distributary.ingest.tables.properties import Retellings, retell
from distributary.ingest.tables.state import TableState, read_state

BY_ID = TableSpec(0, "*", upsert=Upsert(("id",)))
BY_ID_AND_TIME = TableSpec(0, "*", upsert=Upsert(("id",), ("at",)))
BY_KEY = TableSpec(0, "*", upsert=Upsert())
ADDED = TableSpec()

SCHEMA = pa.schema([("id", pa.string()), ("at", pa.timestamp("us")), ("rate", pa.decimal128(10, 2))])


def made(place: Path, spec: TableSpec, **more: str) -> TableState:
    create(place, SCHEMA, {**more, **properties_of(spec)}, comment="Mine")
    state = read_state(place)
    assert state is not None
    return state


def test_a_table_with_one_row_a_key_has_the_features_that_it_needs_and_no_others(tmp_path: Path) -> None:
    state = made(tmp_path / "t", BY_ID, **{"delta.enableChangeDataFeed": "true", "mine": "x"})
    protocol = opened(tmp_path / "t").protocol()
    assert (protocol.min_reader_version, protocol.min_writer_version) == (3, 7)
    assert set(protocol.reader_features or ()) == {"deletionVectors", "timestampNtz"}
    assert set(protocol.writer_features or ()) == {
        *(protocol.reader_features or ()),
        *("appendOnly", "invariants", "changeDataFeed"),
    }
    assert state.native
    assert state.comment == "Mine"
    assert state.properties["mine"] == "x"
    assert state.properties["delta.enableDeletionVectors"] == "true"
    assert state.layout == SCHEMA
    evolve(tmp_path / "t", SCHEMA.append(pa.field("more", pa.int64())))
    after = read_state(tmp_path / "t")
    assert after is not None
    assert after.layout.names == [*SCHEMA.names, "more"]
    assert after.native
    assert set(opened(tmp_path / "t").protocol().reader_features or ()) == set(protocol.reader_features or ())


def test_a_table_to_which_each_row_is_added_stays_as_it_was(tmp_path: Path) -> None:
    made(tmp_path / "t", ADDED)
    assert "deletionVectors" not in (opened(tmp_path / "t").protocol().reader_features or ())


@pytest.mark.spark
def test_spark_reads_such_a_table(tmp_path: Path, spark: SparkSession) -> None:
    made(tmp_path / "t", BY_ID)
    found = spark.read.format("delta").load(str(tmp_path / "t"))
    assert (found.columns, found.count()) == (SCHEMA.names, 0)


@pytest.mark.parametrize(
    ("was", "wanted"),
    [(ADDED, BY_ID), (BY_ID, ADDED), (BY_ID, BY_ID_AND_TIME), (BY_ID, BY_KEY), (BY_KEY, ADDED)],
)
def test_a_table_whose_rows_landed_otherwise_is_refused_with_the_way_out(
    tmp_path: Path, was: TableSpec, wanted: TableSpec
) -> None:
    state = made(tmp_path / "t", was)
    require_mode(state, was)
    with pytest.raises(CommitImpossible, match=r"Write it as it was; or move the table away"):
        require_mode(state, wanted)


def test_a_table_that_only_spark_can_add_to_is_refused(tmp_path: Path) -> None:
    state = made(tmp_path / "t", BY_ID, **{"delta.constraints.some": "id > 0"})
    with pytest.raises(CommitImpossible, match="CHECK constraint some"):
        require_mode(state, BY_ID)


def test_a_table_is_held_against_its_rule_before_anything_is_decided_by_it(tmp_path: Path) -> None:
    columns = Columns()
    layout = Layout(pa.schema([("id", pa.string())]))
    for folder, spec in (("a", BY_ID), ("b", ADDED)):
        create(tmp_path / folder, table_schema(columns, layout), properties_of(spec))
    book = TableBook(str(tmp_path), columns, None, made_with=MadeWith(spec_of=lambda _: BY_ID))
    assert set(book.pinned({"x": "a"})) == {"a"}
    with pytest.raises(CommitImpossible, match="rows that landed with mode append, and"):
        book.pinned({"x": "a", "y": "b"})
    # One that another hand made meanwhile, and that nobody has pinned.
    change = PlannedChange("b", "y", True, (), None, None)
    for wanted in (layout, Layout(pa.schema([("z", pa.int64())]))):
        with pytest.raises(CommitImpossible, match="rows that landed with mode append, and"):
            TableChanger(book, None, columns).apply([change], {"b": wanted}, {})


def test_tables_of_one_layout_and_several_modes_are_made_side_by_side(tmp_path: Path) -> None:
    columns, layout = Columns(), Layout(pa.schema([("id", pa.string())]))
    specs = {"a": BY_ID, "b": BY_ID_AND_TIME, "c": ADDED}
    book = TableBook(str(tmp_path), columns, None, made_with=MadeWith(spec_of=specs.__getitem__))
    planned = [PlannedChange(name, name, True, (), None, None) for name in specs]
    TableChanger(book, None, columns).apply(planned, dict.fromkeys(specs, layout), {})
    for name, spec in specs.items():
        state = read_state(tmp_path / name)
        assert state is not None
        require_mode(state, spec)
        features = opened(tmp_path / name).protocol().reader_features or []
        assert ("deletionVectors" in features) == (spec.upsert is not None)


@pytest.mark.parametrize(("was", "wanted"), [(False, True), (True, False)])
def test_rows_named_by_the_bytes_of_a_key_are_not_named_by_its_text(
    tmp_path: Path, was: bool, wanted: bool
) -> None:
    """Rows that are there have none of the other, so each key would get a second row beside them."""
    for spec in (BY_KEY, BY_ID):
        create(tmp_path / str(spec.upsert), SCHEMA, properties_of(spec, by_text=was))
    by_key, by_id = (read_state(tmp_path / str(spec.upsert)) for spec in (BY_KEY, BY_ID))
    assert by_key is not None and by_id is not None
    require_mode(by_key, BY_KEY, by_text=was)
    require_mode(by_id, BY_ID, by_text=wanted)
    with pytest.raises(CommitImpossible, match=r"Write decode\.key as it was"):
        require_mode(by_key, BY_KEY, by_text=wanted)


def by_hash(word: str, upsert: Upsert, *ops: tuple[Path_, Op], key: OfKey = "keep") -> TableSpec:
    return TableSpec(0, "*", upsert=upsert, reshape=Reshape(ops, secret=Secret(word.encode()), key=key))


WHO = Upsert(("who.id",))
# Of `user.mail`, which the rule calls `who.id`; hashes see no case.
NAMED = ((("user",), Op("rename", "who")), (("user", "mail"), Op("rename", "id")))
HASHED = (*NAMED, (("User", "Mail"), Op("hash")))
OTHER = (*NAMED, (("user", "phone"), Op("hash")))


@pytest.mark.parametrize(
    ("was", "same", "wanted"),
    [
        (by_hash("one", WHO, *HASHED), by_hash("one", WHO, *HASHED), by_hash("two", WHO, *HASHED)),
        (by_hash("one", WHO, *HASHED), by_hash("one", WHO, *HASHED), by_hash("one", WHO, *OTHER)),
        (by_hash("one", WHO, *OTHER), by_hash("two", WHO, *OTHER), by_hash("one", WHO, *HASHED)),
        (TableSpec(upsert=WHO), by_hash("one", WHO, *NAMED), by_hash("one", WHO, *HASHED)),
        (
            by_hash("one", Upsert(), key="hash"),
            by_hash("one", Upsert(), *HASHED, key="hash"),
            by_hash("two", Upsert(), key="hash"),
        ),
        (BY_KEY, by_hash("one", Upsert(), *HASHED), by_hash("one", Upsert(), key="hash")),
    ],
)
def test_rows_named_by_hashes_are_not_named_by_those_of_another_secret(
    tmp_path: Path, was: TableSpec, same: TableSpec, wanted: TableSpec
) -> None:
    state = made(tmp_path / "t", was)
    require_mode(state, was)
    require_mode(state, same)
    assert "one" not in state.properties["distributary.upsert"]
    with pytest.raises(CommitImpossible, match=r"each key would get a second row\. Write columns\.hash"):
        require_mode(state, wanted)


def test_a_table_that_positions_order_takes_no_topic_that_was_made_anew(tmp_path: Path) -> None:
    timed = TableSpec(0, "*", upsert=Upsert(moved="timestamp"))
    before, anew = {"orders": "a+/A", "more": ""}, {"orders": "BBBB", "more": "CCCC"}
    for spec in (BY_KEY, BY_ID_AND_TIME):
        create(tmp_path / str(spec.upsert), SCHEMA, properties_of(spec, before))
    by_key, by_time = (read_state(tmp_path / str(spec.upsert)) for spec in (BY_KEY, BY_ID_AND_TIME))
    assert by_key is not None and by_time is not None
    # As librdkafka and Java spell the same one; from a broker that has none nobody can tell.
    for same in (before, {"orders": "a-_A", "others": "D"}, {"orders": ""}, {}):
        require_mode(by_key, BY_KEY, same)
    with pytest.raises(CommitImpossible, match="has rows of orders, which was made anew since"):
        require_mode(by_key, BY_KEY, anew)
    require_mode(by_key, timed, anew)
    require_mode(by_time, BY_ID_AND_TIME, anew)


def test_a_topic_that_was_made_anew_is_nothing_to_tables_of_other_topics(tmp_path: Path) -> None:
    before, anew = {"orders": "AAAA", "more": "BBBB"}, {"orders": "CCCC", "more": "BBBB"}
    columns, layout = Columns(), Layout(pa.schema([("id", pa.string())]))
    made_with = MadeWith(spec_of=lambda _: BY_KEY, topics=before, folder_of=str)
    book = TableBook(str(tmp_path), columns, None, made_with=made_with)
    planned = [PlannedChange(name, name, True, (), None, None) for name in before]
    TableChanger(book, None, columns).apply(planned, dict.fromkeys(before, layout), {})
    book.made_with = replace(made_with, topics=anew)
    assert set(book.pinned({"more": "more"})) == {"more"}
    assert not Retellings(book).wanted({"more": "more"})
    with pytest.raises(CommitImpossible, match="has rows of orders, which was made anew since"):
        book.pinned({"orders": "orders"})
    # By a field any of them may go to any table.
    book.made_with = replace(made_with, topics=anew, folder_of=None)
    with pytest.raises(CommitImpossible, match="has rows of"):
        book.pinned({"orders": "orders"})


def test_a_topic_that_came_after_the_table_was_made_is_known_from_then_on(tmp_path: Path) -> None:
    create(tmp_path / "t", SCHEMA, properties_of(BY_KEY, {"orders": "AAAA"}, by_text=True))
    topics = {"orders": "AAAA", "more": "BBBB", "unknown": ""}
    made_with = MadeWith(spec_of=lambda _: BY_KEY, topics=topics)
    (one,) = Retellings(TableBook(str(tmp_path), Columns(), None, made_with=made_with)).wanted({"t": "t"})
    retell(tmp_path / "t", one.spec)
    assert not Retellings(TableBook(str(tmp_path), Columns(), None, made_with=made_with)).wanted({"t": "t"})
    state = read_state(tmp_path / "t")
    assert state is not None
    require_mode(state, BY_KEY, topics, by_text=True)
    for name in ("orders", "more"):
        with pytest.raises(CommitImpossible, match=f"has rows of {name}, which was made anew since"):
            require_mode(state, BY_KEY, {**topics, name: "CCCC"})


KEPT = TableSpec(0, "*", upsert=Upsert(("id",), ("at",), history=Keeping(("seen",), days=7)))


@pytest.mark.parametrize(
    "wanted",
    [
        BY_ID_AND_TIME,
        ADDED,
        TableSpec(0, "*", upsert=Upsert(("id",), ("at",), history=Keeping())),
        TableSpec(0, "*", upsert=Upsert(("id",), ("at",), history=Keeping(("seen",), ("a", "b", "c")))),
    ],
)
def test_a_table_that_keeps_what_was_is_none_of_another_kind(tmp_path: Path, wanted: TableSpec) -> None:
    state = made(tmp_path / "t", KEPT)
    require_mode(state, KEPT)
    # For how long records are remembered may change.
    require_mode(
        state, TableSpec(0, "*", upsert=Upsert(("id",), ("at",), history=Keeping(("seen",), days=1)))
    )
    with pytest.raises(CommitImpossible, match="has rows that landed with"):
        require_mode(state, wanted)
    with pytest.raises(
        CommitImpossible, match="has rows that landed with mode upsert, keys id, sequence_by at"
    ):
        require_mode(made(tmp_path / "other", BY_ID_AND_TIME), KEPT)
