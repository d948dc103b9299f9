"""The golden records of the codecs' contract, and how rows are read by Spark: for every Spark that it is held by."""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from tests.codecs.contract_shapes import Field, ListOf, MapOf, Record

from distributary.codecs.base import RecordReader
from distributary.errors import DecoderUnavailable

EVENT = Record(
    (
        Field("id", "text"),
        Field("n", "long"),
        Field("score", "double", optional=True),
        Field("won", "bool", optional=True),
        Field("at", "time"),
        Field("last", "time", optional=True),
        Field("colour", "colour"),
        Field("device", Record((Field("os", "text"), Field("memory", "long", optional=True))), optional=True),
        Field("tags", ListOf("text")),
        Field("times", ListOf("time")),
        Field("bets", ListOf("double")),
        Field("rounds", ListOf(Record((Field("cards", ListOf("long")), Field("won", "bool"))))),
        Field("counts", MapOf("long")),
        Field("players", MapOf(Record((Field("name", "text", optional=True), Field("bet", "double"))))),
    )
)


def at(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=timezone.utc)  # type: ignore[arg-type,misc]


EVENTS: list[dict[str, Any]] = [
    {
        "id": "ä\U0001f600",
        "n": -(2**63),
        "score": 5e-324,
        "won": False,
        "at": at(2026, 1, 2, 3, 4, 5, 678_901),
        "last": at(9999, 12, 31, 23, 59, 59, 999_999),
        "colour": "BLUE",
        "device": {"os": "", "memory": 2**63 - 1},
        "tags": ["", "x"],
        "bets": [16842771.0, -0.1],
        "times": [at(1, 1, 1), at(1969, 12, 31, 23, 59, 59, 1)],
        "rounds": [{"cards": [1, -1, 0], "won": True}, {"cards": [], "won": False}],
        "counts": {"": 0, "k": -7},
        "players": {"a": {"name": None, "bet": -1.7976931348623157e308}, "b": {"name": "", "bet": 0.0}},
    },
    {
        **dict.fromkeys(("score", "won", "last", "device"), None),
        "tags": [],
        "times": [],
        "bets": [],
        "rounds": [],
        "counts": {},
        "players": {},
        "id": "",
        "n": 0,
        "at": at(1970, 1, 1),
        "colour": "RED",
    },
]


def rows_by_spark(spark: SparkSession, reader: RecordReader, payloads: list[bytes]) -> list[dict[str, Any]]:
    """What `column` gives, in the types that `decode` has."""
    frame = spark.createDataFrame([(bytearray(payload),) for payload in payloads], "payload binary").coalesce(
        1
    )
    try:
        column = reader.column(F.col("payload"))
    except DecoderUnavailable as missing:
        pytest.skip(str(missing))
    batches = frame.select(column.alias("r")).select("r.*")._collect_as_arrow()  # type: ignore[operator]
    return list(pa.Table.from_batches(batches).cast(reader.schema).to_pylist())
