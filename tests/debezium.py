"""A database of a test's own, and the records that Debezium would send of its changes: in the shapes that its documentation shows."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]

# When the first change was made, in milliseconds.
BEGAN = 1_700_000_000_000


@dataclass(frozen=True)
class Change:
    """A record of a topic: its key, its value (None: a tombstone), and the key of the row that it is of."""

    key: Row
    value: Row | None
    row: Any

    @property
    def key_bytes(self) -> bytes:
        """The key as JSON without its schema."""
        return json.dumps(self.key).encode()

    @property
    def json(self) -> bytes | None:
        """The value as JSON without its schema."""
        return None if self.value is None else json.dumps(self.value).encode()


def postgresql(at: int, table: str) -> Row:
    """`source` of a PostgreSQL change."""
    lsn = 24_023_100 + 8 * at
    return {
        "version": "2.7.0.Final",
        "connector": "postgresql",
        "name": "server",
        "ts_ms": BEGAN + at,
        "snapshot": "false",
        "db": "shop",
        "sequence": json.dumps([str(lsn - 8), str(lsn)]),
        "schema": "public",
        "table": table,
        "txId": 500 + at,
        "lsn": lsn,
        "xmin": None,
    }


def mysql(at: int, table: str) -> Row:
    """`source` of a MySQL change; the file changes now and then, and its number gets a digit more."""
    return {
        "version": "2.7.0.Final",
        "connector": "mysql",
        "name": "server",
        "ts_ms": BEGAN + at,
        "snapshot": "false",
        "db": "shop",
        "sequence": None,
        "table": table,
        "server_id": 223344,
        "gtid": None,
        "file": f"mysql-bin.{999_990 + at // 4:06}",
        "pos": 9_000 if at % 4 == 0 else 10_000 * (at % 4),
        "row": 0,
        "thread": 7,
        "query": None,
    }


def sqlserver(at: int, table: str) -> Row:
    """`source` of a SQL Server change; of two in a transaction the number tells them apart."""
    commit = f"00000027:{0x758 + at // 2:08x}:0005"
    return {
        "version": "2.7.0.Final",
        "connector": "sqlserver",
        "name": "server",
        "ts_ms": BEGAN + at,
        "snapshot": "false",
        "db": "shop",
        "schema": "dbo",
        "table": table,
        "change_lsn": f"00000027:{0x758 + at // 2:08x}:0003",
        "commit_lsn": commit,
        "event_serial_no": 1 + at % 2,
    }


def mongodb(at: int, table: str) -> Row:
    """`source` of a MongoDB change; of those in one second the ordinal tells them apart."""
    return {
        "version": "2.7.0.Final",
        "connector": "mongodb",
        "name": "server",
        "ts_ms": BEGAN + at // 12 * 1_000,
        "snapshot": "false",
        "db": "shop",
        "rs": "rs0",
        "collection": table,
        "ord": 1 + at % 12,
        "lsid": None,
        "txnNumber": None,
    }


SOURCES: Mapping[str, Callable[[int, str], Row]] = {
    "postgresql": postgresql,
    "mysql": mysql,
    "sqlserver": sqlserver,
    "mongodb": mongodb,
}


@dataclass
class Database:
    """Tables of rows by their `id`, changed one by one; each change gives the records that tell of it.

    full  whether a delete tells all of the row as it was, or its key alone (PostgreSQL's default replica identity)
    """

    connector: str = "postgresql"
    full: bool = False
    at: int = 0
    tables: dict[str, dict[int, Row]] = field(default_factory=dict)

    def put(self, table: str, id_: int, **columns: Any) -> list[Change]:
        """Insert a row, or update the one that is there."""
        rows = self.tables.setdefault(table, {})
        before, rows[id_] = rows.get(id_), {"id": id_, **columns}
        told = before if self.full else None
        return [self._change(table, id_, "c" if before is None else "u", told, rows[id_])]

    def delete(self, table: str, id_: int) -> list[Change]:
        """Delete a row: the change, and a tombstone for its key."""
        before = self.tables[table].pop(id_)
        return [self._change(table, id_, "d", self._was(before), None), Change({"id": id_}, None, id_)]

    def move(self, table: str, id_: int, to: int) -> list[Change]:
        """Change a row's key: a delete of the old one, a tombstone, and an insert with the new one, all at one position."""
        rows = self.tables[table]
        before = rows.pop(id_)
        rows[to] = {**before, "id": to}
        gone = self._change(table, id_, "d", self._was(before), None)
        self.at -= 1
        return [gone, Change({"id": id_}, None, id_), self._change(table, to, "c", None, rows[to])]

    def snapshot(self, table: str) -> list[Change]:
        """Read all rows as they are: all at the position of the last change."""
        found = []
        for id_, row in sorted(self.tables[table].items()):
            change = self._change(table, id_, "r", None, row, snapshot="true")
            self.at -= 1
            found.append(change)
        return found

    def _was(self, row: Row) -> Row | None:
        if self.connector == "mongodb":
            return None
        return row if self.full else {name: value if name == "id" else None for name, value in row.items()}

    def _change(
        self, table: str, id_: int, op: str, before: Row | None, after: Row | None, **more: Any
    ) -> Change:
        self.at += 1
        source = {**SOURCES[self.connector](self.at, table), **more}
        texts = self.connector == "mongodb"
        value = {
            "before": before,
            "after": json.dumps(after) if texts and after is not None else after,
            "source": source,
            "transaction": None,
            "op": op,
            "ts_ms": BEGAN + self.at + 5,
        }
        return Change({"id": id_}, value, id_)
