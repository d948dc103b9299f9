"""What was read of a stream, kept until it is in tables: pieces of shards, each a file that is put if absent.

`<shard>/<piece>.arrow`, both as numbers, and `stream.json`. A piece has records, which its place in the shard gives their offsets,
and says how far the shard was read: so records and the number of each become known in one moment, once, whoever reads beside. Only
that nothing came is put again where it stands, with a later moment. The format has a version; of a newer one nothing is read but that it is newer.
"""

from __future__ import annotations

import io
import json
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import pyarrow as pa

from distributary.errors import CheckpointMismatch, NewerFormat
from distributary.ingest.kinesis.questions import Shard
from distributary.ingest.storage.contract import Files, Info

FORMAT = 1

_HEADER = "stream.json"

_SUFFIX = ".arrow"

_SAID = b"distributary"

_BATCH_ROWS = 10_000

_THREADS_IN_STORES = 16

ROWS = pa.schema(
    [
        pa.field("key", pa.binary()),
        pa.field("value", pa.binary()),
        pa.field("timestamp", pa.timestamp("us", tz="UTC")),
        pa.field("headers", pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))),
    ]
)

Kind = Literal["records", "lost", "idle", "ended"]
"""What a piece is: records; a place for those that were gone before they were read, however many; word that nothing came; or that the shard was closed and nothing will."""


@dataclass(frozen=True, slots=True)
class Piece:
    """What was read of a shard at once.

    index     the number of the piece in its shard
    first     the offset of its first record
    count     how many offsets it has
    sequence  the sequence number of the last record that was read up to its end; empty before the first one
    reached   before which moment all is read, in milliseconds since the epoch
    newest    when its newest record came; 0 where it has none
    """

    shard: Shard
    index: int
    first: int
    count: int
    kind: Kind
    sequence: str
    reached: int
    newest: int = 0

    @property
    def end(self) -> int:
        """The offset behind it."""
        return self.first + self.count

    @property
    def path(self) -> str:
        """Where it is kept."""
        return f"{self.shard.number:010d}/{self.index:020d}{_SUFFIX}"


@dataclass(frozen=True, slots=True)
class Begun:
    """How the reading of a stream began, for good.

    id      what tells it from another reading of the stream
    made    when, in milliseconds since the epoch
    begins  from which moment on records are read; None: the first ones that were there
    shards  those that there were
    """

    id: str
    made: int
    begins: int | None
    shards: tuple[str, ...]


class Kept:
    """The place where one stream's pieces are."""

    def __init__(self, files: Files) -> None:
        """Nothing is asked yet."""
        self.files = files

    def begun(self, begin: Callable[[], Begun]) -> Begun:
        """How the reading began; as `begin` says, where it begins now. Raises CheckpointMismatch, NewerFormat."""
        try:
            found = self.files.read(_HEADER)
        except FileNotFoundError:
            self.files.put_new(_HEADER, _as_json({"format": FORMAT, **asdict(begin())}))
            found = self.files.read(_HEADER)
        return self._begun(found)

    def known(self) -> str | None:
        """The id of the reading; None where there is none. Raises CheckpointMismatch, NewerFormat."""
        try:
            return self._begun(self.files.read(_HEADER)).id
        except FileNotFoundError:
            return None

    def pieces(self) -> dict[int, list[Piece]]:
        """The pieces of each shard that are there, in order: the newest and those before it without a gap. Raises CheckpointMismatch, NewerFormat.

        What is left of others is deleted: nobody needs it who could come to know of it.
        """
        folders = [name for name in self.files.folders() if name.isdecimal()]
        with ThreadPoolExecutor(_THREADS_IN_STORES if self.files.remote else 1) as pool:
            found = pool.map(self._of_shard, folders)
            return {int(name): pieces for name, pieces in zip(folders, found, strict=True) if pieces}

    def put(self, piece: Piece, rows: pa.Table | None = None) -> Piece:
        """The piece that is there now: another one where somebody else was first."""
        if self.files.put_new(piece.path, _as_bytes(piece, rows)):
            return piece
        info = self.files.info(piece.path)
        if info is None:
            raise FileNotFoundError(piece.path)
        return self._read(info)

    def put_again(self, piece: Piece) -> None:
        """Put a piece without records in its own place, where it says more by now. One that somebody else put behind it stays as it is."""
        self.files.put(piece.path, _as_bytes(piece, None))

    def forget(self, pieces: Iterable[Piece]) -> None:
        """Delete them. What cannot be deleted now is no harm."""
        self.files.delete(one.path for one in pieces)

    def _begun(self, data: bytes) -> Begun:
        path = f"{self.files}/{_HEADER}"
        try:
            said = dict(json.loads(data))
            _require_readable(path, int(said["format"]))
            return Begun(str(said["id"]), int(said["made"]), said["begins"], tuple(said["shards"]))
        except (ValueError, TypeError, KeyError):
            raise _damaged(path) from None

    def _of_shard(self, folder: str) -> list[Piece]:
        infos = [info for info in self.files.list(folder) if info.name.endswith(_SUFFIX)]
        found = list[Piece]()
        while infos:
            try:
                piece = self._read(infos[-1])
            except FileNotFoundError:
                break
            if found and (piece.index + 1, piece.end) != (found[-1].index, found[-1].first):
                break
            found.append(piece)
            infos.pop()
        self.files.delete(info.path for info in infos)
        return found[::-1]

    def _read(self, info: Info) -> Piece:
        with self.files.reader(info.path, info.size) as file:
            return said_in(f"{self.files}/{info.path}", file)


def said_in(path: str, file: Any) -> Piece:
    """What a piece says. Raises CheckpointMismatch, NewerFormat."""
    try:
        said = json.loads((pa.ipc.open_stream(file).schema.metadata or {})[_SAID])
        _require_readable(path, int(said.pop("format")))
        del said["id"]
        shard = said.pop("shard")
        return Piece(Shard(shard["id"], tuple(shard["parents"])), **said)
    except (pa.ArrowInvalid, ValueError, TypeError, KeyError):
        raise _damaged(path) from None


def as_rows(columns: Sequence[Sequence[Any]]) -> pa.Table:
    """Records as rows: keys, values, times in milliseconds, sequence numbers, and which of several in one of Kinesis's each is."""
    keys, values, times, sequences, subs = columns
    names, texts, ends = list[str](), list[bytes](), [0]
    for sequence, sub in zip(sequences, subs, strict=True):
        names.append("sequence_number")
        texts.append(str(sequence).encode())
        if sub is not None:
            names.append("sub_sequence_number")
            texts.append(str(sub).encode())
        ends.append(len(names))
    told = pa.StructArray.from_arrays(
        [pa.array(names, pa.string()), pa.array(texts, pa.binary())], names=["key", "value"]
    )
    return pa.Table.from_arrays(
        [
            pa.array([key.encode() for key in keys], pa.binary()),
            pa.array(values, pa.binary()),
            pa.array(times, pa.timestamp("ms", tz="UTC")).cast(ROWS.field("timestamp").type),
            pa.ListArray.from_arrays(pa.array(ends, pa.int32()), told),
        ],
        schema=ROWS,
    )


def _as_bytes(piece: Piece, rows: pa.Table | None) -> bytes:
    said = {"format": FORMAT, "id": uuid.uuid4().hex, **asdict(piece)}
    schema = ROWS.with_metadata({_SAID: _as_json(said)})
    data = io.BytesIO()
    with pa.ipc.new_stream(data, schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as stream:
        for batch in () if rows is None else rows.to_batches(_BATCH_ROWS):
            stream.write_batch(batch.replace_schema_metadata(schema.metadata))
    return data.getvalue()


def following(before: Piece | None, shard: Shard, kind: Kind, count: int = 0) -> Piece:
    """The piece behind another one, which has come as far as that."""
    if before is None:
        return Piece(shard, 0, 0, count, kind, "", 0)
    return replace(before, index=before.index + 1, first=before.end, count=count, kind=kind, newest=0)


def _as_json(said: dict[str, Any]) -> bytes:
    return json.dumps(said, separators=(",", ":")).encode()


def _require_readable(path: str, found: int) -> None:
    if found > FORMAT:
        raise NewerFormat(
            f"{path} has format {found}, and this version of distributary reads up to {FORMAT}: a newer version wrote it. Leave it as it "
            "is, and use the version that made it, or a later one"
        )


def _damaged(path: str) -> CheckpointMismatch:
    return CheckpointMismatch(
        f"{path} was cut off or edited: it is nothing that was read of a stream; restore it from a copy, with the tables"
    )
