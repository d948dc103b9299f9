"""What is wanted of a record's headers, out of those that were kept: the last of each name."""

from __future__ import annotations

import pyarrow as pa

from distributary.ingest.kafka.records import RAW_SCHEMA
from distributary.ingest.quarantine.resolved import IDENTITY
from distributary.ingest.replay.headers import Named
from distributary.ingest.replay.staging import as_raw
from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA

KIND = pa.list_(pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))


def rows(*headers: list[dict[str, object]] | None) -> pa.Table:
    own = {
        name: pa.nulls(len(headers), QUARANTINE_SCHEMA.field(name).type) for name in QUARANTINE_SCHEMA.names
    }
    own |= {"kafka_offset": pa.array(range(len(headers)), pa.int64())}
    assert set(IDENTITY) <= own.keys()
    return pa.table({**own, "headers": pa.array(list(headers), KIND)})


def test_of_several_headers_of_a_name_the_last_counts() -> None:
    told: list[dict[str, object]] = [
        {"key": "game", "value": b"go"},
        {"key": "trace", "value": b"7"},
        {"key": "game", "value": b"chess"},
    ]
    raw = as_raw(rows(told, []), Named("game", ("trace", "other")))
    assert raw.schema.equals(RAW_SCHEMA)
    assert raw["route"].to_pylist() == [b"chess", None]
    assert raw["headers"].to_pylist() == [[b"7", None], [None, None]]
    assert raw["offset"].to_pylist() == [0, 1]


def test_where_none_are_wanted_nobody_looks() -> None:
    raw = as_raw(rows(None), Named())
    assert raw["route"].to_pylist() == [None]
    assert raw["headers"].to_pylist() == [None]
