"""Avro containers and Parquet files that land, through whole pipelines."""

from __future__ import annotations

import datetime as dt
import io
import json
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from tests.codecs.containers.containers import block, container, header
from tests.ingest.e2e.landing_kit import LandingKit
from typer.testing import CliRunner

from distributary.cli import app
from distributary.errors import EvolutionStopped
from distributary.ingest.rebuild.silver import replay
from distributary.ingest.storage.opening import open_files
from distributary.ingest.tables.handle import opened

pytestmark = pytest.mark.spark


def record(*fields: tuple[str, Any]) -> dict[str, Any]:
    return {"type": "record", "name": "Event", "fields": [{"name": name, "type": of} for name, of in fields]}


ONE = record(("n", "long"), ("game", "string"))
TWO = record(("n", "long"), ("game", "string"), ("at", {"type": "long", "logicalType": "timestamp-micros"}))


@pytest.fixture(params=["folder", pytest.param("s3", marks=pytest.mark.heavy)])
def landed(tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest) -> LandingKit:
    """A pipeline that routes by a field; in a store as test_landed.py shows for other files."""
    kit = LandingKit(tmp_path, spark).configured(route={"by": "field", "field": "game"})
    return kit if request.param == "folder" else kit.in_store(request.getfixturevalue("s3_store"))


def events(numbers: range, **more: Any) -> list[dict[str, Any]]:
    return [{"n": n, "game": "ludo" if n % 2 else "chess", **more} for n in numbers]


def all_numbers(kit: LandingKit) -> list[int]:
    return sorted(n for table in ("silver_chess", "silver_ludo") for n in kit.rows(table)["n"].to_pylist())


def test_avro_containers_land_by_their_own_schemas_and_evolve_as_a_registrys_do(landed: LandingKit) -> None:
    landed.configured(source={"files": {"format": "avro"}}, bronze={})
    landed.land({"a.avro": container(ONE, [events(range(5)), events(range(5, 10))], "deflate")})
    assert landed.run().summary.rows == 10
    at = dt.datetime(2026, 11, 28, tzinfo=dt.timezone.utc)
    bad = container(TWO, [events(range(10, 12), at=at)]) + block(2, b"\xff" * 9)
    landed.land({"b.avro": bad + container(TWO, [events(range(14, 16), at=at)])[len(header(TWO)) :]})
    landed.land({"c.avro": b"no Avro", "d.avro": container(ONE, [events(range(20, 22))], "snappy")})
    planned = CliRunner().invoke(app, ["plan", str(landed.settings_file)])
    assert planned.exit_code == 0, planned.output
    assert "at" in planned.output
    outcome = landed.run()
    assert len(outcome.restarts) == 1
    assert "brings at" in outcome.restarts[0].changes[0]
    assert all_numbers(landed) == [*range(12), *range(14, 16), 20, 21]
    rows = landed.rows("silver_chess").to_pylist()
    assert {row["n"]: row["at"] for row in rows if row["n"] in (8, 14)} == {8: None, 14: at}
    assert {row["schema_id"] for row in rows} == {1, 2}
    assert [(reason, path) for reason, path, _ in landed.quarantined()] == [
        ("file_damaged", "c.avro"),
        ("file_rows_damaged", "b.avro"),
    ]
    assert landed.rows("bronze").num_rows == 10 + 6 + 2
    landed.assert_clean()


def parquet(rows: list[dict[str, Any]], schema: pa.Schema, **options: Any) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, schema), file, **options)
    return file.getvalue()


def avro_files(numbers: range, **more: Any) -> bytes:
    return container(TWO if more else ONE, [events(numbers, **more)])


def parquet_files(numbers: range, **more: Any) -> bytes:
    at = [("at", pa.timestamp("us", tz="UTC"))] if more else []
    return parquet(events(numbers, **more), pa.schema([("n", pa.int64()), ("game", pa.string()), *at]))


@pytest.mark.parametrize(("of", "written"), [("avro", avro_files), ("parquet", parquet_files)])
def test_what_another_file_brings_comes_to_the_tables_only_where_the_settings_let_it(
    landed: LandingKit, of: str, written: Callable[..., bytes]
) -> None:
    landed.configured(source={"files": {"format": of}}, decode={"evolution": "fail"})
    landed.land({"a": written(range(4))})
    landed.run()
    landed.land({"b": written(range(4, 6), at=dt.datetime(2026, 11, 28, tzinfo=dt.timezone.utc))})
    for _ in range(2):
        with pytest.raises(EvolutionStopped, match="brings at"):
            landed.run()
    landed.configured(decode={"evolution": "inline"})
    assert landed.run().summary.rows == 2
    assert all_numbers(landed) == list(range(6))
    assert landed.rows("silver_chess")["at"].null_count == 2


PARQUET = pa.schema(
    [
        ("n", pa.int32()),
        ("game", pa.dictionary(pa.int32(), pa.string())),
        ("at", pa.timestamp("ns", tz="Europe/Berlin")),
        ("paid", pa.decimal128(20, 4)),
        ("raw", pa.binary()),
        ("tags", pa.list_(pa.struct([("name", pa.string()), ("weight", pa.float32())]))),
    ]
)


def test_parquet_files_land_with_their_types_and_what_another_file_has_beyond_them(
    landed: LandingKit,
) -> None:
    landed.configured(
        source={"files": {"format": "parquet"}},
        bronze={},
        tables=[{"match": "*", "expect": {"small": {"condition": "n < 1000", "otherwise": "drop"}}}],
    )
    at = dt.datetime(2026, 11, 28, 1, 2, 3, 456789, tzinfo=dt.timezone.utc)
    whole = {
        "at": at,
        "paid": Decimal("1234567890123456.7890"),
        "raw": b"\0\1",
        "tags": [{"name": "x", "weight": 0.5}],
    }
    landed.land({"a.parquet": parquet(events(range(6), **whole), PARQUET)})
    assert landed.run().summary.rows == 6
    wider = PARQUET.set(0, pa.field("n", pa.int64())).append(pa.field("more", pa.string()))
    data = bytearray(
        parquet(
            events(range(6, 36), more="m"),
            wider,
            row_group_size=10,
            write_page_checksum=True,
            compression="zstd",
        )
    )
    begin = pq.ParquetFile(io.BytesIO(bytes(data))).metadata.row_group(1).column(0).data_page_offset
    data[begin + 20 : begin + 30] = b"\0" * 10
    landed.land(
        {
            "b.parquet": bytes(data),
            "c.parquet": b"no Parquet",
            "d.parquet": parquet(events(range(2_000, 2_001)), PARQUET),
        }
    )
    assert landed.run().summary.rows == 20 + 2 + 1
    assert all_numbers(landed) == [*range(16), *range(26, 36)]
    rows = {row["n"]: row for row in landed.rows("silver_chess").to_pylist()}
    assert {name: rows[0][name] for name in whole} == whole
    assert (rows[0]["more"], rows[8]["more"], rows[8]["at"]) == (None, "m", None)
    assert landed.quarantined() == [("file_damaged", "c.parquet", 0), ("file_rows_damaged", "b.parquet", 10)]
    kept = {row["kafka_offset"]: row["value"] for row in landed.rows("bronze").to_pylist()}
    assert json.loads(kept[0])["at"] == "2026-11-28T01:02:03.456789Z"
    landed.assert_clean()


# Avro's are planned for just the same.
@pytest.mark.parametrize(
    ("of", "written"),
    [pytest.param("avro", avro_files, marks=pytest.mark.heavy), ("parquet", parquet_files)],
)
def test_what_files_will_do_to_tables_is_planned_and_their_rows_come_back_from_bronze_once(
    tmp_path: Path, spark: SparkSession, of: str, written: Callable[..., bytes]
) -> None:
    landed = LandingKit(tmp_path, spark).configured(
        route={"by": "field", "field": "game"}, source={"files": {"format": of}}, bronze={}
    )
    landed.land({"a": written(range(4))})
    landed.run()
    at = dt.datetime(2026, 11, 28, tzinfo=dt.timezone.utc)
    landed.land({"b": written(range(4, 6), at=at), "c": b"neither"})
    planned = CliRunner().invoke(app, ["plan", str(landed.settings_file), "--json"])
    assert planned.exit_code == 0, planned.output
    assert '"at' in planned.output
    assert landed.run().summary.rows == 3
    place = open_files(landed.settings.sink.root, landed.settings.storage).below("silver_chess")
    opened(place).delete("n > 1")
    for lacking in (2, 0):
        assert replay(landed.settings, spark=spark).lacking == lacking + 1, "and what tells of a damaged file"
    assert all_numbers(landed) == list(range(6))
    landed.assert_clean()
