from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from pyspark.sql import SparkSession

from distributary.codecs.base import load_codec
from distributary.errors import CheckpointMismatch, ConfigError, SetupError
from distributary.ingest.inputs.delta import channels
from distributary.ingest.inputs.delta import versions as module
from distributary.ingest.inputs.delta.channels import TableRecords, Tables, open_tables
from distributary.ingest.inputs.delta.versions import CHANGE
from distributary.ingest.kafka.offsets import Offsets
from distributary.ingest.settings.groups import Route, Source
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.posix import PosixFiles
from distributary.registry.base import Schema

pytestmark = pytest.mark.spark


def tables(*places: Path, **more: Any) -> tuple[Tables, Source]:
    source = Source.model_validate({"delta": {"paths": [str(place) for place in places], **more}})
    assert source.delta is not None
    with open_tables(source.delta, StorageOptions()) as opened:
        return opened, source


def reader(spark: SparkSession, *places: Path, **more: Any) -> TableRecords:
    opened, source = tables(*places, **more)
    return opened.records(spark, "gold", source, Route(by="topic"))


def values(records: TableRecords, offsets: Offsets) -> dict[int, Any]:
    rows = records.range(offsets).collect()
    return {row["offset"]: json.loads(bytes(row["value"])) for row in rows}


def versions(topic: str, first: int, behind: int) -> Offsets:
    return {topic: {0: (first << 32, behind << 32)}}


def make(place: Path, count: int, **more: Any) -> None:
    write_deltalake(str(place), pa.table({"a": pa.array(range(count), pa.int64())}), mode="append", **more)


def test_rows_keep_their_values_and_types_on_their_way_as_json(tmp_path: Path, spark: SparkSession) -> None:
    moment = datetime(2026, 11, 28, 1, 2, 3, 456789, timezone.utc)
    row: Mapping[str, tuple[pa.DataType, Any]] = {
        "whole": (pa.int64(), 2**63 - 1),
        "small": (pa.int8(), -3),
        "price": (pa.decimal128(38, 10), Decimal("1234567890123456789012345678.0123456789")),
        "raw": (pa.binary(), b"\x00\xff"),
        "at": (pa.timestamp("us", "UTC"), moment),
        "local": (pa.timestamp("us"), moment.replace(tzinfo=None)),
        "day": (pa.date32(), date(1969, 12, 31)),
        "text": (pa.string(), 'é "quoted" \U0001f3ae\n'),
        "ratio": (pa.float64(), -1e-300),
        "none": (pa.int32(), None),
        "inner": (pa.struct([("x", pa.float32()), ("when", pa.date32())]), {"x": 1.5, "when": date(2026, 1, 1)}),
        "list": (pa.list_(pa.int16()), [1, None, 3]),
        "by_name": (pa.map_(pa.string(), pa.decimal128(5, 2)), [("a", Decimal("1.50"))]),
    }  # fmt: skip
    table = pa.table({name: pa.array([value], dtype) for name, (dtype, value) in row.items()})
    write_deltalake(str(tmp_path / "t"), table)
    records = reader(spark, tmp_path / "t")
    told = records.tables.columns()
    assert told is not None
    decode = load_codec("json").reader(Schema(0, "STRUCT", told), ())
    payloads = [bytes(one["value"]) for one in records.range(versions("t", 0, 1)).collect()]
    decoded = decode.decode(pa.array(payloads, pa.binary()))
    assert not decoded.failures
    assert decoded.rescued is None or decoded.rescued.null_count == 1
    assert decoded.rows.to_pylist() == [{name: value for name, (_, value) in row.items()}]


def test_keys_of_maps_are_the_texts_of_what_they_are(tmp_path: Path, spark: SparkSession) -> None:
    keys: Mapping[str, tuple[pa.DataType, Any, str]] = {
        "name": (pa.string(), "a", "a"),
        "number": (pa.int32(), -3, "-3"),
        "day": (pa.date32(), date(1969, 12, 31), "1969-12-31"),
        "moment": (pa.timestamp("us", "UTC"), datetime(2026, 1, 2, 3, tzinfo=timezone.utc), "2026-01-02T03:00:00Z"),
        "raw": (pa.binary(), b"\x00\xff", "AP8="),
        "fields": (pa.struct([("day", pa.date32()), ("name", pa.string())]), {"day": date(2026, 1, 2), "name": "ann"}, '{"day":"2026-01-02","name":"ann"}'),
        "items": (pa.list_(pa.int16()), [1, None], "[1,null]"),
    }  # fmt: skip
    columns = {
        name: pa.array([[(key, 1)], None], pa.map_(of, pa.int64())) for name, (of, key, _) in keys.items()
    }
    within = pa.array([[{"m": [(date(2026, 1, 2), {"x": 1})]}], []], pa.list_(pa.struct([("m", pa.map_(pa.date32(), pa.struct([("x", pa.int64())])))])))  # fmt: skip
    write_deltalake(str(tmp_path / "t"), pa.table({**columns, "within": within}))
    found = values(reader(spark, tmp_path / "t"), versions("t", 0, 1))
    assert found == {
        0: {**{name: {text: 1} for name, (_, _, text) in keys.items()}, "within": [{"m": {"2026-01-02": {"x": 1}}}]},
        1: {"within": []},
    }  # fmt: skip


def test_numbers_that_are_none_arrive_as_what_they_are(tmp_path: Path, spark: SparkSession) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"f": [math.inf, -math.inf, math.nan]}))
    records = reader(spark, tmp_path / "t")
    told = records.tables.columns()
    assert told is not None
    payloads = [bytes(one["value"]) for one in records.range(versions("t", 0, 1)).collect()]
    found = load_codec("json").reader(Schema(0, "STRUCT", told), ()).decode(pa.array(payloads, pa.binary()))
    assert str(found.rows["f"].to_pylist()) == "[inf, -inf, nan]"


def test_the_place_of_a_row_is_its_version_and_its_number_in_it(tmp_path: Path, spark: SparkSession) -> None:
    make(tmp_path / "t", 3)
    make(tmp_path / "t", 2)
    assert values(reader(spark, tmp_path / "t"), versions("t", 0, 2)) == {
        0: {"a": 0},
        1: {"a": 1},
        2: {"a": 2},
        1 << 32: {"a": 0},
        (1 << 32) + 1: {"a": 1},
    }


def test_a_partitions_value_is_in_each_of_its_rows(tmp_path: Path, spark: SparkSession) -> None:
    table = pa.table({"day": pa.array([date(2026, 1, 1), date(2026, 1, 2)]), "a": [1, 2]})
    write_deltalake(str(tmp_path / "t"), table, partition_by=["day"])
    found = values(reader(spark, tmp_path / "t"), versions("t", 0, 1))
    assert sorted(found.values(), key=str) == [{"day": "2026-01-01", "a": 1}, {"day": "2026-01-02", "a": 2}]


def test_a_moment_or_bytes_that_a_table_is_in_partitions_by_are_those_that_it_was_given(
    tmp_path: Path, spark: SparkSession
) -> None:
    """delta-rs writes a moment without its zone, and bytes one by one; Spark both otherwise."""
    at = datetime(2026, 1, 1, 10, 0, 0, 250_000, tzinfo=timezone.utc)
    columns = {"at": pa.array([at, None], pa.timestamp("us", tz="UTC")), "b": [b"\x00\xff", b"a"]}
    write_deltalake(str(tmp_path / "t"), pa.table({**columns, "a": [1, 2]}), partition_by=["at", "b"])
    frame = spark.createDataFrame([(at, bytearray(b"a"), 3)], "at timestamp, b binary, a long")
    frame.write.format("delta").mode("append").partitionBy("at", "b").save(str(tmp_path / "t"))
    found = values(reader(spark, tmp_path / "t"), versions("t", 0, 2))
    moment = {"at": "2026-01-01T10:00:00.250000Z"}
    assert sorted(found.values(), key=lambda one: one["a"]) == [
        {**moment, "b": "AP8=", "a": 1},
        {"b": "YQ==", "a": 2},
        {**moment, "b": "YQ==", "a": 3},
    ]


def test_rows_that_only_moved_into_other_files_are_not_read_again(
    tmp_path: Path, spark: SparkSession
) -> None:
    place = tmp_path / "t"
    make(place, 3)
    make(place, 2)
    DeltaTable(str(place)).optimize.compact()
    assert DeltaTable(str(place)).version() == 2
    records = reader(spark, place)
    assert values(records, versions("t", 2, 3)) == {}
    assert records.tables.lag({"t": {0: 2 << 32}}) == {"t": {0: 0}}


def test_deleted_rows_are_refused_by_the_name_of_their_version(tmp_path: Path, spark: SparkSession) -> None:
    place = tmp_path / "t"
    make(place, 3)
    DeltaTable(str(place)).delete("a = 1")
    with pytest.raises(
        CheckpointMismatch, match=rf"version 1 of {place} deletes or replaces rows.*read: changes"
    ):
        reader(spark, place).range(versions("t", 1, 2))


def test_changes_are_read_by_the_tables_own_feed(tmp_path: Path, spark: SparkSession) -> None:
    place = tmp_path / "t"
    make(place, 3, configuration={"delta.enableChangeDataFeed": "true"})
    DeltaTable(str(place)).delete("a = 1")
    DeltaTable(str(place)).update(predicate="a = 2", updates={"a": "20"})
    records = reader(spark, place, read="changes")
    found = [
        (offset >> 32, row["_change_type"], row["a"])
        for offset, row in values(records, versions("t", 0, 3)).items()
    ]
    assert sorted(found) == [
        (0, "insert", 0),
        (0, "insert", 1),
        (0, "insert", 2),
        (1, "delete", 1),
        (2, "update_postimage", 20),
    ]


def feed(place: Path, *rows: tuple[str, int, str]) -> None:
    """A version with these rows in its change data feed, in this order, as a MERGE may write it."""
    kinds, numbers, texts = (list(of) for of in zip(*rows, strict=True))
    table = pa.table({"a": pa.array(numbers, pa.int64()), "b": texts, CHANGE: kinds})
    (place / "_change_data").mkdir(exist_ok=True)
    number = DeltaTable(str(place)).version() + 1
    name = f"_change_data/cdc-{number}.parquet"
    pq.write_table(table, place / name)
    size = (place / name).stat().st_size
    cdc = {"path": name, "partitionValues": {}, "size": size, "dataChange": False}
    told = [{"commitInfo": {"timestamp": 1000, "operation": "MERGE"}}, {"cdc": cdc}]
    (place / f"_delta_log/{number:020d}.json").write_text("\n".join(map(json.dumps, told)))


def test_what_a_version_takes_away_comes_before_what_it_brings(tmp_path: Path, spark: SparkSession) -> None:
    """A row may go, and another one of the same key come, in whatever order the feed has them."""
    place = tmp_path / "t"
    write_deltalake(
        str(place),
        pa.table({"a": [1, 2], "b": ["x", "y"]}),
        configuration={"delta.enableChangeDataFeed": "true"},
    )
    rows = [
        ("insert", 9, "x"),
        ("update_postimage", 2, "z"),
        ("update_preimage", 2, "y"),
        ("delete", 1, "x"),
    ]
    feed(place, *rows)
    records = reader(spark, place, read="changes")
    brought = [("insert", 9, "x"), ("update_postimage", 2, "z")]
    assert in_order(records) == [("delete", 1, "x"), *brought]
    assert records.tables.lag({"t": {0: 1 << 32}}) == {"t": {0: 4}}, "each row counts once"
    whole = reader(spark, place, read="changes", preimages="delete")
    assert in_order(whole) == [("delete", 2, "y"), ("delete", 1, "x"), *brought]
    both = values(whole, versions("t", 1, 2))
    assert {at: both[at] for at in values(records, versions("t", 1, 2))} == values(
        records, versions("t", 1, 2)
    ), "each record has the same offset in either way"


def in_order(records: TableRecords) -> list[tuple[Any, ...]]:
    """What the second version brings."""
    found = sorted(values(records, versions("t", 1, 2)).items())
    return [(row[CHANGE], row["a"], row["b"]) for _, row in found]


def test_without_a_feed_whole_files_that_come_and_go_are_inserted_and_deleted(
    tmp_path: Path, spark: SparkSession
) -> None:
    place = tmp_path / "t"
    make(place, 1)
    write_deltalake(str(place), pa.table({"a": pa.array([7], pa.int64())}), mode="overwrite")
    records = reader(spark, place, read="changes")
    found = [(row["_change_type"], row["a"]) for row in values(records, versions("t", 1, 2)).values()]
    assert sorted(found) == [("delete", 0), ("insert", 7)]


def test_a_file_that_vacuum_took_is_told_by_its_name(tmp_path: Path, spark: SparkSession) -> None:
    place = tmp_path / "t"
    make(place, 1)
    (file,) = place.glob("*.parquet")
    file.unlink()
    with pytest.raises(CheckpointMismatch, match=rf"no file {file.name} any more.*VACUUM"):
        reader(spark, place).range(versions("t", 0, 1))


def test_versions_that_retention_took_are_told_by_their_numbers(tmp_path: Path, spark: SparkSession) -> None:
    place = tmp_path / "t"
    make(place, 1)
    make(place, 1)
    DeltaTable(str(place)).create_checkpoint()
    (place / "_delta_log" / f"{0:020d}.json").unlink()
    records = reader(spark, place)
    assert records.tables.earliest_offsets() == {"t": {0: 1 << 32}}
    with pytest.raises(ConfigError, match=r"begins with version 1.*starting_version: 1 to read topic t"):
        records.tables.beginning()
    with pytest.raises(CheckpointMismatch, match=r"no entry of version 0 in its log any more"):
        records.range(versions("t", 0, 1))


def test_columns_are_those_of_all_tables_together_as_of_a_version(
    tmp_path: Path, spark: SparkSession
) -> None:
    make(tmp_path / "t", 1)
    write_deltalake(str(tmp_path / "t"), pa.table({"a": [1], "b": ["x"]}), mode="append", schema_mode="merge")
    make(tmp_path / "u", 1)
    opened, _ = tables(tmp_path / "t", tmp_path / "u")

    def names(text: str | None) -> list[str]:
        return [field["name"] for field in json.loads(text or "{}")["fields"]]

    assert names(opened.columns()) == ["a", "b"]
    assert names(opened.columns({"t": {0: 1 << 32}, "u": {0: 1 << 32}})) == ["a"]


def test_a_column_that_tables_have_of_types_at_odds_is_as_the_first_has_it(tmp_path: Path) -> None:
    write_deltalake(str(tmp_path / "t"), pa.table({"a": pa.array([1], pa.int32()), "n": [1]}))
    write_deltalake(str(tmp_path / "u"), pa.table({"a": ["x"], "n": [1.5], "b": [True]}))
    opened, _ = tables(tmp_path / "t", tmp_path / "u")
    told = json.loads(opened.columns() or "{}")["fields"]
    assert [(one["name"], one["type"]) for one in told] == [
        ("a", "integer"),
        ("n", "double"),
        ("b", "boolean"),
    ]


def test_of_entries_no_more_is_held_than_they_weigh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_ACTIONS_KEPT", 10)
    for number in range(8):
        make(tmp_path / "t", number + 1)
    opened, _ = tables(tmp_path / "t")
    assert opened.lag({"t": {0: 0}}) == {"t": {0: 36}}
    assert sum(map(len, opened.logs["t"]._entries.values())) <= 10


def test_what_is_no_table_is_told_by_its_place(tmp_path: Path) -> None:
    opened, _ = tables(tmp_path / "none")
    for ask in (opened.topic_ids, opened.columns):
        with pytest.raises(SetupError, match=rf"there is no Delta table in {tmp_path}/none"):
            ask()


def changed(records: TableRecords, first: int, behind: int) -> list[tuple[int, str, Any]]:
    """The version, the change and the value of each record."""
    found = values(records, versions("t", first, behind)).items()
    return sorted((offset >> 32, row["_change_type"], row.get("a")) for offset, row in found)


# Lighter: tests of single entries here have such rows.
@pytest.mark.heavy
def test_rows_that_were_marked_and_are_put_back_are_inserted(tmp_path: Path, spark: SparkSession) -> None:
    place = tmp_path / "t"
    rows = spark.range(0, 4, 1, 1).withColumnRenamed("id", "a")
    rows.write.format("delta").option("delta.enableDeletionVectors", "true").save(str(place))
    for row in (1, 2):
        spark.sql(f"DELETE FROM delta.`{place}` WHERE a = {row}")  # noqa: S608 - a folder of this test
    assert list(place.glob("deletion_vector_*"))
    spark.sql(f"RESTORE TABLE delta.`{place}` TO VERSION AS OF 1")
    records = reader(spark, place, read="changes")
    assert changed(records, 1, 4) == [(1, "delete", 1), (2, "delete", 2), (3, "insert", 2)]


def test_rows_have_the_columns_that_the_table_had_when_they_came(tmp_path: Path, spark: SparkSession) -> None:
    place = tmp_path / "t"
    make(place, 1)
    write_deltalake(str(place), pa.table({"a": [2**40], "b": ["x"]}), mode="append", schema_mode="merge")
    narrow = pa.table({"a": pa.array([7], pa.int32())})
    write_deltalake(str(place), narrow, mode="overwrite", schema_mode="overwrite")
    write_deltalake(str(place), pa.table({"a": ["no number"]}), mode="overwrite", schema_mode="overwrite")
    records = reader(spark, place, read="changes")
    found = values(records, versions("t", 0, 4))
    assert sorted(changed(records, 0, 4), key=str) == [
        (0, "insert", 0),
        (1, "insert", 2**40),
        (2, "delete", 0),
        (2, "delete", 2**40),
        (2, "insert", 7),
        (3, "delete", 7),
        (3, "insert", "no number"),
    ]
    assert [row["_change_type"] for row in found.values() if row.get("b") == "x"] == ["insert", "delete"]
    ends = records.tables.end_offsets()
    assert records.next_range({"t": {0: 0}}, ends, 100) == versions("t", 0, 1), "what comes next is learnt"


@pytest.mark.parametrize("folders", ["", "TBLPROPERTIES ('delta.randomizeFilePrefixes' = 'true')"])
def test_what_goes_of_a_partition_without_a_value_is_what_came_of_it(
    tmp_path: Path, spark: SparkSession, folders: str
) -> None:
    """A text without a character is no value there; a removal says nothing of such, and Spark's files have the column as it was given."""
    table = f"delta.`{tmp_path / 't'}`"
    spark.sql(f"CREATE TABLE {table} (a INT, p STRING) USING delta PARTITIONED BY (p) {folders}")
    spark.sql(f"INSERT INTO {table} VALUES (1, '')")  # noqa: S608
    spark.sql(f"DELETE FROM {table} WHERE p IS NULL")  # noqa: S608
    found = values(reader(spark, tmp_path / "t", read="changes"), versions("t", 1, 3))
    assert [*found.values()] == [{"a": 1, CHANGE: "insert"}, {"a": 1, CHANGE: "delete"}]


def test_what_a_writer_says_nothing_of_is_in_the_partition_that_it_came_into(
    tmp_path: Path, spark: SparkSession
) -> None:
    place = tmp_path / "t"
    write_deltalake(str(place), pa.table({"day": ["monday"], "a": [1]}), partition_by=["day"])
    write_deltalake(str(place), pa.table({"day": ["sunday"], "a": [2]}), mode="overwrite")
    entry = place / "_delta_log" / f"{1:020d}.json"
    actions = [json.loads(line) for line in entry.read_text().splitlines()]
    for action in actions:
        for name in ("partitionValues", "extendedFileMetadata", "size"):
            action.get("remove", {}).pop(name, None)
    entry.write_text("\n".join(map(json.dumps, actions)))
    found = values(reader(spark, place, read="changes"), versions("t", 1, 2)).values()
    told = sorted((row["_change_type"], row["day"], row["a"]) for row in found)
    assert told == [("delete", "monday", 1), ("insert", "sunday", 2)]


def test_what_delta_rs_says_of_a_table_is_told_without_logins(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(_: object) -> None:
        raise DeltaError("Kernel error: GET https://a.blob.core.windows.net/lake?sv=2024&sig=geheim: 403")

    monkeypatch.setattr(channels, "opened", refused)
    with pytest.raises(CheckpointMismatch, match=r"Kernel error: GET https://a\.blob") as told:
        channels._handle(PosixFiles(tmp_path))
    assert "geheim" not in str(told.value)
