"""Columns that become wider while their table is parked, whichever of the batches that wait brings them or is given up."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from tests.ingest import queries
from tests.ingest.batch.test_unreadable import newer_protocol
from tests.ingest.e2e.handmade import Schema
from tests.ingest.handover.test_heritage import begin_at
from tests.ingest.kafka_records import Sent
from tests.ingest.pipelines import SUBJECT, checkpoint, rules_for, settings, table_book
from tests.ingest.queries import GOLF, Query

from distributary.errors import CommitImpossible
from distributary.ingest import failpoints
from distributary.ingest.batch import parking
from distributary.ingest.commit_log import writing
from distributary.ingest.handover.heritage import Heritage
from distributary.ingest.handover.reaching import Reaching
from distributary.ingest.resolve import resolve
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.registry.memory import MemoryRegistry

NARROW = 'syntax = "proto3"; message Event { string game_name = 1; int32 level = 2; }'
WIDE = NARROW.replace("int32", "int64")
BIG = 2**40
SETTINGS: dict[str, Any] = {
    "policies": {"stuck_table": "park", "wider_type": "widen"},
    "decode": {"evolution": "inline"},
}


@pytest.fixture
def schemas(monkeypatch: pytest.MonkeyPatch) -> tuple[Schema, Schema]:
    """A narrow one and a wide one, which the registry knows."""
    held = MemoryRegistry()
    monkeypatch.setattr(queries, "registry", lambda: held)
    narrow, wide = (Schema(held.register(SUBJECT, text, "PROTOBUF"), text) for text in (NARROW, WIDE))
    return narrow, wide


@pytest.fixture
def golf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schemas: tuple[Schema, Schema]) -> Path:
    """A table that was put right: a batch of a wider schema waits for it, and the one before that, whose file was gone, was given up."""
    (narrow, wide), table = schemas, tmp_path / "lake" / GOLF

    def spoil(point: str, batch_id: int) -> None:
        if point == failpoints.AFTER_MANIFEST and batch_id == 2:
            other = pa.table({"kafka_offset": pa.array(["high"])})
            write_deltalake(table, other, mode="overwrite", schema_mode="overwrite")

    monkeypatch.setattr(failpoints, "reach", spoil)
    query = Query(tmp_path, **SETTINGS)
    query.resume()
    for offset, (schema, level) in enumerate([(narrow, 1), (narrow, 2), (wide, BIG)]):
        query.batch(offset, [Sent(schema.value(game_name="golf", level=level), offset)])
    for file in query.done[1].manifest.table(GOLF).files:
        (table / file.name).unlink()
    resolve(settings(tmp_path, **SETTINGS), GOLF, "skip_lost")
    DeltaTable(table).restore(DeltaTable(table).version() - 1)
    return table


def begun(root: Path, spark: SparkSession) -> Query:
    query = Query(root, **SETTINGS)
    query.runner.attempts.run.tables._spark = spark
    query.resume()
    return query


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether wider columns were asked for, each time that a table was to get columns: there is no Spark here that makes them."""
    found: list[bool] = []

    def evolve(*given: Any, widen: bool, partitions: Any) -> None:
        found.append(widen)
        raise CommitImpossible("there is no Spark", (GOLF,))

    monkeypatch.setattr(parking, "evolve", evolve)
    return found


def test_wider_ones_are_asked_for(tmp_path: Path, golf: Path, asked: list[bool]) -> None:
    begun(tmp_path, cast("SparkSession", object()))
    assert asked == [True]


@pytest.fixture
def unread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, schemas: tuple[Schema, Schema]) -> None:
    """A table that was put right: a batch of a wider schema waits for it alone, as nobody could open it when that came, and the log named none of before."""
    monkeypatch.setattr(writing, "KEPT", 2)
    monkeypatch.setattr(writing, "AT_ONCE", 1)
    narrow, wide = schemas
    query = Query(tmp_path, **SETTINGS)
    query.resume()
    for offset, game in enumerate(["golf", *["quest"] * 6]):
        query.batch(offset, [Sent(narrow.value(game_name=game, level=1), offset)])
    mend = newer_protocol(tmp_path / "lake" / GOLF)
    query.batch(7, [Sent(wide.value(game_name="golf", level=BIG), 7)])
    assert len(query.log.so_far.parked[GOLF]) == 1
    mend()


def test_they_are_asked_for_where_the_first_that_waits_brings_them(
    tmp_path: Path, unread: None, asked: list[bool]
) -> None:
    begun(tmp_path, cast("SparkSession", object()))
    assert asked == [True]


@pytest.mark.parametrize("waits", ["golf", "unread"])
def test_they_are_asked_for_where_a_new_checkpoint_takes_the_tables_over(
    waits: str, tmp_path: Path, asked: list[bool], request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(waits)
    tables, spark = table_book(tmp_path, native := NativeCommits()), cast("SparkSession", object())
    reaching = Reaching(
        tables,
        native,
        spark,
        lambda log: checkpoint(tmp_path, Path(log).name),
        rules_for(settings(tmp_path, **SETTINGS)).widens,
    )
    new, owners = begin_at(tmp_path, "second", "from_tables")
    with pytest.raises(CommitImpossible, match="there is no Spark"):
        Heritage(reaching).complete(new, owners)
    assert asked == [True]


# Lighter: what the start asks for is told above.
@pytest.mark.heavy
@pytest.mark.spark
def test_the_table_has_them_and_gets_what_waits(tmp_path: Path, golf: Path, spark: SparkSession) -> None:
    assert begun(tmp_path, spark).log.so_far.parked == {}
    rows = spark.read.format("delta").load(str(golf)).select("kafka_offset", "level").collect()
    assert sorted(map(tuple, rows)) == [(0, 1), (2, BIG)]
