"""Decoded by Spark or natively, a batch comes to the same rows in the same tables, and the same account of itself."""

from __future__ import annotations

import datetime
import io
import json
import struct
import zipfile
from collections.abc import Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.codecs.avro_samples import long
from tests.ingest.kafka_records import TOPIC, Sent, aside_rows, batch, numbered, pins, rows_of

from distributary.codecs.base import load_codec
from distributary.codecs.types.spark_struct import struct_json
from distributary.errors import DecoderUnavailable
from distributary.ingest.batch.passes import Workers
from distributary.ingest.batch.spark_decode import check_decoders, spark_decoded
from distributary.ingest.pins import PinnedRecord, Pins
from distributary.ingest.routing.parser import native_tree
from distributary.ingest.schemas.inferred_per_entity import NO_FIELDS
from distributary.ingest.settings.groups import Route
from distributary.ingest.worker.fields_seen import LackedField, Sighting
from distributary.ingest.worker.report import TaskReport
from distributary.registry.base import Schema

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

INNER = {"type": "record", "name": "At", "fields": [{"name": "x", "type": "double"}, {"name": "tags", "type": {"type": "array", "items": "string"}}]}  # fmt: skip
MOVE = {
    "type": "record",
    "name": "Move",
    "namespace": "games",
    "fields": [
        {"name": "game", "type": ["null", "string"]},
        {"name": "ply", "type": "int"},
        {"name": "day", "type": {"type": "int", "logicalType": "date"}},
        {"name": "seen", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "local", "type": {"type": "long", "logicalType": "local-timestamp-millis"}},
        {"name": "at", "type": ["null", INNER]},
        {"name": "by", "type": {"type": "map", "values": ["null", "long"]}},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
    ],
}
SEEN = {
    "type": "record",
    "name": "Seen",
    "namespace": "games",
    "fields": [{"name": "game", "type": "string"}],
}
AVRO = [
    PinnedRecord((1, ()), Schema(1, "AVRO", json.dumps(MOVE))),
    PinnedRecord((2, ()), Schema(2, "AVRO", json.dumps(SEEN))),
]
LEVELS = pa.schema(
    [
        ("game", pa.string()),
        ("level", pa.int64()),
        ("at", pa.struct([("x", pa.float64())])),
        ("tags", pa.list_(pa.field("element", pa.string()))),
        ("seen", pa.timestamp("us", "UTC")),
    ]
)
JSON = PinnedRecord((-1, ()), Schema(-1, "STRUCT", struct_json(LEVELS)))


def avro(schema: dict[str, Any], schema_id: int, **fields: Any) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), fields)
    return struct.pack(">bI", 0, schema_id) + out.getvalue()


def move(n: int) -> bytes:
    return avro(
        MOVE,
        1,
        game=[None, "go", "Chess"][n % 3],
        ply=n,
        day=datetime.date(2024, 2, 1 + n % 28),
        seen=datetime.datetime(2024, 1, 1, 2, 3, 4, n, tzinfo=datetime.timezone.utc),
        local=datetime.datetime(2024, 1, 1, 2, 3, 4),
        at=None if n % 4 == 0 else {"x": n / 3, "tags": ["a"] * (n % 3)},
        by={"k": n, "none": None},
        price=Decimal(n) / 4,
    )


AVRO_VALUES = [
    *(move(n) for n in range(12)),
    avro(SEEN, 2, game="go"),
    move(1) + b"\x00",
    move(1)[:-3],
    struct.pack(">bI", 0, 1) + b"\xff" * 40,
    struct.pack(">bI", 0, 2) + long(-5),
    struct.pack(">bI", 0, 2) + long(1) + b"\xff",
    struct.pack(">bI", 0, 77) + b"\x00",
    None,
    b"",
    b"\x07abc",
    *(move(n) for n in range(3)),
]
JSON_VALUES = [
    b'{"game":"go","level":1,"at":{"x":1.5},"tags":["a",null],"seen":"2024-01-01T02:03:04Z"}',
    b'{"game":"Chess","level":"high"}',
    b'{"game":"go","level":12.7}',
    b'{"game":"go","news":{"a":1}}',
    b'{"game":"go","at":{"x":1,"y":2}}',
    b'{"level":3}',
    b'{"game":null}',
    b" {}",
    b"[1]",
    b"{",
    b'{"game":"go"}x',
    b'{"game":"\xff"}',
    b"[" * 50_000,
    b'{"at":' * 3_000,
    b'{"game":"go","game":"Chess"}',
    b'{"game":"go","level":9223372036854775808}',
    None,
]


# All other tests are in UTC.
@pytest.fixture(params=[pytest.param("UTC", marks=pytest.mark.heavy), "Asia/Tokyo"])
def zoned(spark: SparkSession, request: pytest.FixtureRequest) -> Any:
    """A session in this time zone, which must not matter."""
    before = str(spark.conf.get("spark.sql.session.timeZone"))
    spark.conf.set("spark.sql.session.timeZone", request.param)
    yield spark
    spark.conf.set("spark.sql.session.timeZone", before)


def frame(spark: SparkSession, records: list[Sent]) -> DataFrame:
    return spark.createDataFrame(pa.Table.from_batches([batch(records)]))


def outcome(by: Pins, report: TaskReport) -> dict[str, Any]:
    """All that may not depend on what decoded: rows, quarantine, what waits, what is asked and counted."""
    tables = sorted({written.file.table for written in report.files.written})
    return {
        "rows": {
            table: sorted(rows_of(by, report, table), key=lambda row: row["kafka_offset"]) for table in tables
        },
        "layouts": {written.file.table: written.layout for written in report.files.written},
        "aside": sorted(row["offset"] for row in aside_rows(Path(by.batch.root.url).parent, report)),
        "counts": [
            report.counts.rows,
            report.counts.quarantined,
            report.counts.dropped,
            report.counts.decoded,
            report.questions.records,
        ],
        "proposals": report.questions.proposals,
        "spans": report.counts.spans,
        "unknown": report.sightings.unknown,
        "stops": report.stops,
    }


def both(
    spark: SparkSession, root: Path, values: Sequence[bytes | None], **changes: Any
) -> list[dict[str, Any]]:
    found = []
    for engine in ("arrow", "spark"):
        by = pins(root / engine, engine=engine, **changes)
        if engine == "arrow" and by.rules.route.expression:
            by = pins(root / engine, expression=native_tree(spark, by.rules.route.expression), **changes)
        found.append(outcome(by, Workers(1, {}, 20_000).run(frame(spark, numbered(values)), by)))
    return found


GAME = Route(field="game", table="t_{entity}")


# By a field JSON is routed below.
@pytest.mark.parametrize("route", [pytest.param(GAME, marks=pytest.mark.heavy), Route(by="expression", expression="lower(game) || '_' || isnull(PLY)", table="t_{entity}")])  # fmt: skip
def test_avro_comes_to_the_same(zoned: SparkSession, tmp_path: Path, route: Route) -> None:
    natively, by_spark = both(zoned, tmp_path, AVRO_VALUES, codec="avro", records=tuple(AVRO), route=route)
    assert by_spark == natively
    assert natively["counts"][1]["trailing_bytes"] == 1
    assert sum(map(len, natively["rows"].values())) > 20


@pytest.mark.parametrize("more", [{}, {"grow": False}, {"guarded": True}])
def test_json_comes_to_the_same_and_what_from_json_drops_is_rescued(
    spark: SparkSession, tmp_path: Path, more: dict[str, Any]
) -> None:
    given: dict[str, Any] = {"codec": "auto", "records": (JSON,), "route": GAME, **more}
    natively, by_spark = both(spark, tmp_path, JSON_VALUES, **given)
    assert by_spark == natively
    rescued = [row.get("_rescued_data") for rows in natively["rows"].values() for row in rows]
    assert '{"level":"high"}' in rescued
    assert bool(natively["aside"]) == (more != {"grow": False})


@pytest.mark.parametrize("guarded", [False, pytest.param(True, marks=pytest.mark.heavy)])
def test_formats_beside_each_other_come_to_the_same(
    spark: SparkSession, tmp_path: Path, guarded: bool
) -> None:
    values = [value for pair in zip(AVRO_VALUES, JSON_VALUES, strict=False) for value in pair]
    given: dict[str, Any] = {
        "codec": "auto",
        "records": (JSON, *AVRO),
        "inferred_final": True,
        "guarded": guarded,
    }
    route = Route(
        by="expression", expression="coalesce(game, 'none') || coalesce(level, ply)", table="t_{entity}"
    )
    natively, by_spark = both(spark, tmp_path, values, route=route, **given)
    assert by_spark == natively
    assert "t_go1" in natively["rows"]


EMPTY = {"type": "record", "name": "Ping", "namespace": "games", "fields": []}


@pytest.mark.parametrize(
    ("route", "guarded"),
    [
        (Route(by="topic", table="t_{entity}"), True),
        (Route(by="expression", expression="coalesce(game, 'none')", table="t_{entity}"), False),
    ],
)
def test_record_types_without_a_column_come_to_the_same_beside_others(
    spark: SparkSession, tmp_path: Path, route: Route, guarded: bool
) -> None:
    ping = PinnedRecord((3, ()), Schema(3, "AVRO", json.dumps(EMPTY)))
    inferred = PinnedRecord((-1, ()), Schema(-1, "STRUCT", NO_FIELDS))
    values = [avro(EMPTY, 3), avro(EMPTY, 3) + b"\x00", b"{}", b'{"game":"go"}', b"{", *AVRO_VALUES[:2]]
    given: dict[str, Any] = {"codec": "auto", "records": (inferred, *AVRO, ping), "guarded": guarded}
    natively, by_spark = both(spark, tmp_path, values, route=route, **given)
    assert by_spark == natively
    assert natively["aside"] == [3]  # what brings a first field waits for the schema to grow
    assert sum(natively["counts"][0].values()) == 4
    assert natively["counts"][1]["trailing_bytes"] == 1


def test_spark_evaluates_what_workers_cannot(spark: SparkSession, tmp_path: Path) -> None:
    route = Route(
        by="expression",
        expression="date_format(day, 'yyyy_MM') || lower(soundex(`game`))",
        table="t_{entity}",
    )
    by = pins(tmp_path, engine="spark", codec="avro", records=tuple(AVRO), route=route)
    report = Workers(1, {}, 20_000).run(frame(spark, numbered(AVRO_VALUES[:13])), by)
    assert report.counts.rows == {"t_2024_02g000": 4, "t_2024_02c200": 4}
    assert report.counts.quarantined["no_entity"] == 5


# One that does not go with a type of theirs, and one that fails on single values.
@pytest.mark.parametrize(("expression", "landed"), [("size(game)", {}), ("cast(game as int)", {"t_5": 1})])
def test_records_that_an_expression_does_not_go_with_have_no_entity(
    spark: SparkSession, tmp_path: Path, expression: str, landed: dict[str, int]
) -> None:
    route = Route(by="expression", expression=expression, table="t_{entity}")
    by = pins(tmp_path, engine="spark", codec="avro", records=tuple(AVRO), route=route)
    values = [*AVRO_VALUES[:2], avro(SEEN, 2, game="5")]
    report = Workers(1, {}, 20_000).run(frame(spark, numbered(values)), by)
    assert (report.counts.rows, report.counts.quarantined) == (landed, {"no_entity": 3 - len(landed)})


def test_what_spark_cannot_decode_here_is_refused_by_name(spark: SparkSession) -> None:
    chain = {"type": "record", "name": "Chain", "fields": [{"name": "next", "type": ["null", "Chain"]}]}
    pinned = PinnedRecord((1, ()), Schema(1, "AVRO", json.dumps(chain)))
    with pytest.raises(DecoderUnavailable, match="Chain"):
        check_decoders(load_codec("avro"), [pinned])
    check_decoders(load_codec("avro"), AVRO)


def test_values_are_spark_s_for_every_record_that_is_whole(spark: SparkSession, tmp_path: Path) -> None:
    by = pins(tmp_path, engine="spark", codec="auto", records=(JSON, *AVRO), route=GAME)
    values = [*JSON_VALUES[:3], *AVRO_VALUES[:5], *AVRO_VALUES[12:14]]
    found = spark_decoded(frame(spark, numbered(values)), by).orderBy("offset").collect()
    wholes = [[row[f"whole_{number}"] or False for number in range(3)] for row in found]
    json_, move_, seen, none = [True, False, False], [False, True, False], [False, False, True], [False] * 3
    assert wholes == [json_, none, none, *[move_] * 5, seen, none]
    # What the native decoder took in part is there for expressions; what nobody can decode is not.
    assert [row["decoded_0"] is not None for row in found[:3]] == [True] * 3
    assert found[-1]["decoded_1"] is None


# Another package's codec: Protobuf with one field, which Spark's functions on binary can read; and a payload that kills.
SPELLED = """
import os
import signal
from pathlib import Path

from pyspark.sql import functions as sql

from distributary import RecordReader
from distributary.codecs.protobuf.codec import ProtobufCodec

DEATHS = Path({deaths!r})


class SpelledReader(RecordReader):
    def __init__(self, reader):
        self._reader, self.name, self.schema = reader, reader.name, reader.schema

    def decode(self, payloads):
        if any(b"KILLS" in payload for payload in payloads.to_pylist()):
            with DEATHS.open("a") as deaths:
                deaths.write(".")
            os.kill(os.getpid(), signal.SIGKILL)
        return self._reader.decode(payloads)

    def column(self, payload, mode="FAILFAST"):
        size = sql.conv(sql.hex(payload.substr(2, 1)), 16, 10).cast("int")
        return sql.struct(payload.substr(sql.lit(3), size).cast("string").alias("game"))


class SpelledCodec(ProtobufCodec):
    def reader(self, schema, path):
        return SpelledReader(super().reader(schema, path))
"""
GAMES = Schema(5, "PROTOBUF", 'syntax = "proto3"; package games; message Named { string game = 1; }')
NAMED: dict[str, Any] = {"codec": "spelled", "records": (PinnedRecord((5, (0,)), GAMES),)}


@pytest.fixture(scope="module")
def deaths(tmp_path_factory: pytest.TempPathFactory, spark: SparkSession) -> Iterator[Path]:
    """Where the codec `spelled`, which workers have, writes down each process that it ends."""
    folder = tmp_path_factory.mktemp("spelled")
    package, found = folder / "spelled_codec.zip", folder / "deaths"
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("spelled_codec.py", SPELLED.format(deaths=str(found)))
        about = "spelled_codec-1.0.dist-info"
        archive.writestr(f"{about}/METADATA", "Metadata-Version: 2.1\nName: spelled-codec\nVersion: 1.0\n")
        archive.writestr(
            f"{about}/entry_points.txt", "[distributary.codecs]\nspelled = spelled_codec:SpelledCodec\n"
        )
    spark.sparkContext.addPyFile(str(package))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(package))
        yield found


def spelled(game: str, more: bytes = b"") -> bytes:
    return struct.pack(">bIbbb", 0, 5, 0, 0x0A, len(game)) + game.encode() + more


@pytest.mark.parametrize("guarded", [False, True])
def test_fields_that_a_schema_lacks_are_told_of_where_spark_decodes_too(
    spark: SparkSession, deaths: Path, tmp_path: Path, guarded: bool
) -> None:
    values = [
        spelled("go"),
        b"\x00",
        spelled("go", b"\x38\x01"),
        spelled("Chess", b"\x38\x02\x40\x01"),
        spelled("go"),
    ]
    natively, by_spark = both(spark, tmp_path, values, route=GAME, guarded=guarded, **NAMED)
    assert by_spark == natively
    assert by_spark["unknown"] == {
        LackedField(5, "games.Named", "7"): Sighting(2, (TOPIC, 0, 2)),
        LackedField(5, "games.Named", "8"): Sighting(1, (TOPIC, 0, 3)),
    }


def test_a_codec_that_makes_a_struct_of_no_payload_delivers_no_broken_record(
    spark: SparkSession, deaths: Path, tmp_path: Path
) -> None:
    natively, by_spark = both(spark, tmp_path, [spelled("go"), spelled("go")[:-1]], route=GAME, **NAMED)
    assert by_spark == natively
    assert by_spark["counts"][:2] == [{"t_go": 1}, {"malformed": 1}]


def test_records_that_kill_their_decoder_are_tried_no_more_often_than_it_takes(
    spark: SparkSession, deaths: Path, tmp_path: Path
) -> None:
    values = [spelled(game) for game in ("go", "go", "KILLS", "go")]
    counts = {}
    for engine in ("arrow", "spark"):
        deaths.unlink(missing_ok=True)
        by = pins(tmp_path / engine, engine=engine, guarded=True, route=GAME, **NAMED)
        report = Workers(1, {}, 20_000).run(frame(spark, numbered(values)), by)
        assert (report.counts.rows, report.counts.quarantined) == ({"t_go": 3}, {"killed_worker": 1})
        counts[engine] = len(deaths.read_text())
    # All four, the second two of them, and the first of these, twice.
    assert counts == {"arrow": 4, "spark": 4}
