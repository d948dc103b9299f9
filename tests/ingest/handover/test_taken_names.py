"""A new checkpoint whose settings give a column of ours the name that a field of records has in a table that is there, or one by which its rows are not found: it is refused, and nothing is mixed."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.ingest import queries
from tests.ingest.e2e.handmade import Schema
from tests.ingest.handover.test_heritage import NO_SPARK, WORLD
from tests.ingest.kafka_records import Sent, folder
from tests.ingest.pipelines import SUBJECT, checkpoint
from tests.ingest.queries import GOLF, Query

from distributary.errors import ConfigError
from distributary.ingest.checkpoint.generation import StartMode
from distributary.ingest.columns.layout import SOURCE, Layout
from distributary.ingest.columns.safe_names import CHANGES_TABLE
from distributary.ingest.handover.heritage import Heritage
from distributary.ingest.handover.reaching import Reaching
from distributary.ingest.handover.taken_names import require_free_names
from distributary.ingest.kafka.columns import table_schema
from distributary.ingest.settings.groups import Columns
from distributary.ingest.tables.change import create
from distributary.ingest.tables.known import ENTITY_PROPERTY, MadeWith, TableBook
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.registry.memory import MemoryRegistry

TEXT = 'syntax = "proto3"; message Event { string game_name = 1; string Kafka_Key_Text = 2; string ts = 3; }'


def with_columns(root: Path, columns: Columns, named: Callable[[str], str] = folder) -> Heritage:
    made_with = MadeWith(named=named)
    tables = TableBook(str(root / "lake"), columns, None, 4, native := NativeCommits(), made_with)
    return Heritage(Reaching(tables, native, NO_SPARK, lambda log: checkpoint(root, Path(log).name)))


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> MemoryRegistry:
    held = MemoryRegistry()
    monkeypatch.setattr(queries, "registry", lambda: held)
    return held


@pytest.fixture
def root(tmp_path: Path, held: MemoryRegistry) -> Path:
    schema = Schema(held.register(SUBJECT, TEXT, "PROTOBUF"), TEXT)
    query = Query(tmp_path)
    query.resume()
    query.batch(0, [Sent(schema.value(game_name="golf", Kafka_Key_Text="a", ts="b"), 0)])
    return tmp_path


@pytest.mark.parametrize("mode", ["from_tables", "again"])
@pytest.mark.parametrize(
    ("columns", "role", "name"),
    [
        (Columns(key_text="kafka_key_text"), "key_text", "Kafka_Key_Text"),
        (Columns(kafka_ts="ts"), "kafka_ts", "ts"),
    ],
)
def test_it_is_refused_by_name(root: Path, mode: StartMode, columns: Columns, role: str, name: str) -> None:
    with pytest.raises(
        ConfigError, match=rf"sink.columns.{role}: table .*{GOLF} has a column {name} .*another name"
    ):
        with_columns(root, columns).start(mode, "games", (), WORLD)
    assert not (root / "second").exists()


@pytest.mark.parametrize("mode", ["from_tables", "again"])
def test_rows_that_are_there_keep_the_names_by_which_they_are_found(root: Path, mode: StartMode) -> None:
    """By others a replay saw none of them, and the key of a record that came again got a second row."""
    for role in ("kafka_topic", "kafka_partition", "kafka_offset", "kafka_ts", "kafka_key"):
        why = rf"sink.columns.{role}: table .*{GOLF} has no column at.*as it was; or move"
        with pytest.raises(ConfigError, match=why):
            with_columns(root, Columns(**{role: "at"})).start(mode, "games", (), WORLD)
    assert not (root / "second").exists()


def test_a_table_that_nobody_can_open_is_told_of_where_it_is_asked_for(root: Path) -> None:
    for entry in (root / "lake" / GOLF / "_delta_log").glob("*.json"):
        entry.write_text("{")
    started = with_columns(root, Columns(kafka_offset="at")).start("again", "games", (), WORLD)
    assert started.mode == "again"


def test_other_names_are_free(root: Path) -> None:
    for columns in (Columns(), Columns(key_text="key"), Columns(schema_id="id", rescued="rest")):
        assert with_columns(root, columns).start("from_tables", "games", (), WORLD).mode == "from_tables"
    others = with_columns(root, Columns(kafka_ts="ts"), "other_{}".format)
    assert others.start("again", "games", (), WORLD).mode == "again"
    # Of another pipeline's tables it says nothing.
    assert (
        with_columns(root, Columns(kafka_ts="ts")).start("from_tables", "other", (), WORLD).mode == "resume"
    )


def test_what_the_ledger_of_changes_does_not_tell_any_more_keeps_nobody_from_going_on(root: Path) -> None:
    for file in (root / "lake" / "ledger_changes").glob("*.parquet"):
        file.unlink()
    start = with_columns(root, Columns(kafka_ts="ts")).start("from_tables", "games", (), WORLD)
    assert start.mode == "from_tables"


def test_a_table_made_anew_by_these_names_has_the_field_elsewhere(root: Path) -> None:
    """The ledger of changes tells of the one before it as well."""
    columns, table = Columns(kafka_ts="ts"), root / "lake" / GOLF
    shutil.rmtree(table)
    field = pa.field("ts_26dbd2a1", pa.string(), metadata={SOURCE: b"ts"})
    create(table, table_schema(columns, Layout(pa.schema([field]))), {ENTITY_PROPERTY: "golf"})
    require_free_names(TableBook(str(root / "lake"), columns, None, made_with=MadeWith(named=folder)), [GOLF])


def test_a_table_made_anew_has_nothing_of_a_field_that_only_the_one_before_it_had(
    root: Path, held: MemoryRegistry
) -> None:
    columns, table = Columns(kafka_ts="ts"), root / "lake" / GOLF
    shutil.rmtree(table)
    text = 'syntax = "proto3"; message Event { string game_name = 1; }'
    schema = Schema(held.register(SUBJECT, text, "PROTOBUF"), text)
    query = Query(root)
    query.resume()
    query.batch(1, [Sent(schema.value(game_name="golf"), 1)])
    # As a run whose settings name the column so has made it.
    shutil.rmtree(table)
    columns_there = table_schema(columns, Layout(pa.schema([("game_name", pa.string())])))
    create(table, columns_there, {ENTITY_PROPERTY: "golf"})
    require_free_names(TableBook(str(root / "lake"), columns, None, made_with=MadeWith(named=folder)), [GOLF])


def test_columns_that_the_attempt_after_one_that_died_gave_a_new_table_are_no_other_table(root: Path) -> None:
    ledger = DeltaTable(root / "lake" / CHANGES_TABLE)
    told = ledger.to_pyarrow_table().filter(pc.field("column") == "game_name")
    told = told.set_column(told.schema.get_field_index("column"), "column", pa.array(["later"]))
    later = pc.add(told["at"], pa.scalar(timedelta(minutes=1)))
    write_deltalake(ledger, told.set_column(told.schema.get_field_index("at"), "at", later), mode="append")
    with pytest.raises(ConfigError, match="has a column ts"):
        with_columns(root, Columns(kafka_ts="ts")).start("from_tables", "games", (), WORLD)
