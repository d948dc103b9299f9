"""Entries of the register of files, as JSON; and many of them brought together in one segment, as Parquet.

`entries/00000000000000000012.json` and `segments/00000000000000000000-00000000000000000099.parquet`. The format has a version; of a
newer one nothing is read but that it is newer. A segment of format 2 has names that are no UTF-8, and all of them as bytes; what tells of files
that are gone, entry or segment, has format 3.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from datetime import datetime, timezone
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.errors import CheckpointMismatch, NewerFormat
from distributary.ingest.landing.numbers import Landed

ENTRIES, SEGMENTS = "entries", "segments"

READERS = "readers.json"
"""What of a register names the pipelines that read by it."""

FORMAT = 3
"""The newest one of any of its files; each has the first one that knows what it says."""

_FIRST_FORMAT, _IN_BYTES_FORMAT, _GONE_FORMAT = 1, 2, 3

# Rows that are read together, where files of some numbers are asked for.
_ROW_GROUP = 10_000

_SCHEMA = pa.schema(
    [
        pa.field("number", pa.int64()),
        pa.field("path", pa.string()),
        pa.field("size", pa.int64()),
        pa.field("modified", pa.int64()),
        pa.field("tag", pa.string()),
        pa.field("identity", pa.string()),
        pa.field("kind", pa.string()),
        pa.field("instead_of", pa.int64()),
    ],
    metadata={"format": str(_FIRST_FORMAT)},
)

# A file system takes any bytes for a name, and Parquet's texts are UTF-8.
_IN_BYTES = pa.schema(
    [pa.field(one.name, pa.binary()) if pa.types.is_string(one.type) else one for one in _SCHEMA],
    metadata={"format": str(_IN_BYTES_FORMAT)},
)


@dataclass(frozen=True, slots=True)
class Segment:
    """A file that has all that some entries say, from the first to the last."""

    first: int
    last: int

    @property
    def path(self) -> str:
        """Where it is in the register."""
        return f"{SEGMENTS}/{self.first:020d}-{self.last:020d}.parquet"

    @classmethod
    def of(cls, name: str) -> Segment | None:
        """By its file's name; None for any other file."""
        first, dash, last = name.removesuffix(".parquet").partition("-")
        right = name.endswith(".parquet") and dash and first.isdecimal() and last.isdecimal()
        return cls(int(first), int(last)) if right else None


def entry_path(number: int) -> str:
    """Where an entry is in the register."""
    return f"{ENTRIES}/{number:020d}.json"


def header(place: str) -> bytes:
    """The first entry, which says what is registered here and gives the register its id."""
    return _bytes({"place": place})


def readers(names: Sequence[str]) -> bytes:
    """That these pipelines read by a register."""
    return _bytes({"pipelines": list(names)})


def readers_of(data: bytes, path: str) -> list[str]:
    """The pipelines that read by a register. Raises CheckpointMismatch, NewerFormat."""
    try:
        return [str(name) for name in _value(data, path)["pipelines"]]
    except (KeyError, TypeError):
        raise _damaged(path) from None


def as_entry(files: Sequence[Landed]) -> bytes:
    """An entry that registers these files."""
    is_older = all(one.kind != "gone" for one in files)
    return _bytes({"files": [astuple(one) for one in files]}, _FIRST_FORMAT if is_older else _GONE_FORMAT)


def header_of(data: bytes, path: str) -> tuple[str, str]:
    """The place that a register is of, and the register's id. Raises CheckpointMismatch, NewerFormat."""
    value = _value(data, path)
    try:
        return str(value["place"]), str(value["id"])
    except KeyError:
        raise _damaged(path) from None


def files_in(data: bytes, path: str) -> list[Landed]:
    """What an entry registers; nothing of the first one. Raises CheckpointMismatch, NewerFormat."""
    value = _value(data, path)
    try:
        return [Landed(*one) for one in value.get("files", ())]
    except TypeError:
        raise _damaged(path) from None


def as_table(files: Sequence[Landed]) -> pa.Table:
    """Files as rows, in this order."""
    columns = list(zip(*map(astuple, files), strict=True)) or [()] * len(_SCHEMA)
    try:
        arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
    except UnicodeEncodeError:
        pairs = zip(columns, _IN_BYTES, strict=True)
        return pa.table(
            [pa.array(list(map(_as_bytes, values)), field.type) for values, field in pairs],
            schema=_IN_BYTES,
        )
    return pa.table(arrays, schema=_SCHEMA)


def together(tables: Sequence[pa.Table]) -> pa.Table:
    """Rows of several segments, one behind the other."""
    in_bytes = any(pa.types.is_binary(table.schema.field("path").type) for table in tables)
    schema = _IN_BYTES if in_bytes else _SCHEMA
    return pa.concat_tables([table.cast(schema) for table in tables])


def as_segment(files: pa.Table) -> bytes:
    """Rows of files, in the order in which they were registered, as Parquet."""
    if pc.any(pc.equal(files["kind"].cast(pa.string()), "gone")).as_py():
        files = files.replace_schema_metadata({"format": str(_GONE_FORMAT)})
    data = io.BytesIO()
    pq.write_table(files, data, compression="zstd", row_group_size=_ROW_GROUP)
    return data.getvalue()


def opened(data: Any, path: str) -> pq.ParquetFile:
    """A segment. Raises CheckpointMismatch, NewerFormat."""
    try:
        found = pq.ParquetFile(data)
    except pa.ArrowInvalid:
        raise _damaged(path) from None
    format_ = int((found.schema_arrow.metadata or {}).get(b"format", b"0"))
    _require_readable(path, format_)
    return found


def files_of(batch: pa.RecordBatch) -> list[Landed]:
    """The files in rows of a segment."""
    return [Landed(*values) for values in zip(*map(values_of, batch.columns), strict=True)]


def values_of(column: pa.Array) -> list[Any]:
    """The values of a segment's column, texts as they are here, too, where a segment has them as bytes."""
    values: list[Any] = column.to_pylist()
    in_bytes = pa.types.is_binary(column.type)
    return [one.decode("utf-8", "surrogateescape") for one in values] if in_bytes else values


def _as_bytes(value: Any) -> Any:
    return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else value


def _bytes(value: dict[str, Any], format_: int = _FIRST_FORMAT) -> bytes:
    at = datetime.now(timezone.utc).isoformat(timespec="milliseconds")
    told = {"format": format_, "id": uuid.uuid4().hex, "at": at, **value}
    return json.dumps(told, separators=(",", ":")).encode()


def _value(data: bytes, path: str) -> dict[str, Any]:
    try:
        value: dict[str, Any] = dict(json.loads(data))
        _require_readable(path, int(value["format"]))
    except NewerFormat:
        raise
    except (ValueError, TypeError, KeyError):
        raise _damaged(path) from None
    return value


def _require_readable(path: str, found: int) -> None:
    if found > FORMAT:
        raise NewerFormat(
            f"{path} has format {found}, and this version of distributary reads up to {FORMAT}: a newer version wrote it. Leave it as it "
            "is, and use the version that made it, or a later one"
        )


def _damaged(path: str) -> CheckpointMismatch:
    return CheckpointMismatch(
        f"{path} was cut off or edited: it is no part of a register of files; restore it from a copy, with the tables"
    )
