"""Whatever a database does and whatever batches its changes come in, a table that takes them has its rows."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.debezium import SOURCES, Change, Database
from tests.ingest.merge.test_any_cut import cut
from tests.ingest.merge.upserted import Upserted, ordered_by

from distributary.codecs.base import Enveloped, load_codec
from distributary.codecs.envelope.said import POSITION
from distributary.ingest.merge.rule import MergeRule
from distributary.registry.base import Schema

START = datetime(2026, 1, 1, tzinfo=timezone.utc)
TABLE = "customers"
ROWS = Schema(
    1,
    "STRUCT",
    '{"type":"struct","fields":[{"name":"id","type":"long","nullable":true,"metadata":{}},'
    '{"name":"score","type":"long","nullable":true,"metadata":{}}]}',
)
COLUMNS = [("key", pa.string()), ("id", pa.int64()), ("score", pa.int64()), (POSITION, pa.string())]

IDS = st.integers(0, 4)
ACTIONS = st.one_of(
    st.tuples(st.just("put"), IDS, st.integers(0, 9)),
    st.tuples(st.just("delete"), IDS),
    st.tuples(st.just("move"), IDS, IDS),
    st.tuples(st.just("snapshot")),
    # The connector starts over, and sends so many of its last records once more.
    st.tuples(st.just("resend"), st.integers(1, 6)),
)


def done(database: Database, actions: Sequence[Any]) -> list[Change]:
    """The records of all that is done to a table, of what can be done."""
    rows = database.tables.setdefault(TABLE, {})
    found: list[Change] = []
    for name, *given_to in actions:
        if name == "put":
            found += database.put(TABLE, given_to[0], score=given_to[1])
        elif name == "snapshot":
            found += database.snapshot(TABLE)
        elif name == "resend":
            found += found[-given_to[0] :]
        elif name == "delete" and given_to[0] in rows:
            found += database.delete(TABLE, given_to[0])
        elif name == "move" and given_to[0] in rows and given_to[1] not in rows:
            found += database.move(TABLE, *given_to)
    return found


def merged(table: Upserted, placed: Sequence[tuple[int, Change]]) -> None:
    """Decode a batch of changes as workers do, and merge it."""
    values = [(offset, change) for offset, change in placed if change.value is not None]
    codec = load_codec(Enveloped("json", "debezium", ("op",)))
    payloads = pa.array([change.json for _, change in values], pa.binary())
    decoded = codec.reader(ROWS, ()).decode(payloads)
    assert not decoded.failures
    rows: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for row, (offset, change) in zip(decoded.rows.to_pylist(), values, strict=True):
        place = {"topic": "t", "partition": 0, "offset": offset, "ts": START + timedelta(seconds=offset)}
        rows[row.pop("__op") == "d"].append({**place, "key": change.key_bytes.decode(), **row})
    table.merge(rows[False], rows[True])


@pytest.mark.parametrize("connector", SOURCES)
@given(actions=st.lists(ACTIONS, min_size=1, max_size=25), data=st.data())
def test_the_table_has_the_databases_rows(
    connector: str, actions: Sequence[Any], data: st.DataObject
) -> None:
    database = Database(connector, full=data.draw(st.booleans(), label="full"))
    # MongoDB's deletes do not tell the row's key but by the record's own.
    keys = ("key",) if connector == "mongodb" else (data.draw(st.sampled_from(["key", "id"]), label="key"),)
    stream = list(enumerate(done(database, actions)))
    with TemporaryDirectory() as folder:
        rule = MergeRule(keys, ordered_by(POSITION))
        table = Upserted.made(Path(folder), COLUMNS, rule, deletes=True)
        for batch in cut(data, stream):
            if batch:
                merged(table, batch)
        found = {row["id"]: {"id": row["id"], "score": row["score"]} for row in table.rows()}
        assert len(found) == len(table.rows())
    assert found == database.tables[TABLE]
