"""That rows were erased, kept under the root: when, of which tables, how many, and where in Kafka they came from; not of whom."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.merge.columns import at_once
from distributary.ingest.storage.contract import Files

RECORDS = ".distributary/erasures"
"""Where: a JSON file each time, and before it one for each version of a table that has fewer rows."""

# Of quarantined records their batch is told as well.
BATCH = ("generation", "batch_id")

NO_TIME = -(2**63)
"""In the place of a time that a record does not have."""

# More would be in memory beside each other for nothing.
_AT_ONCE = 64

Offsets = npt.NDArray[np.int64]

Part = tuple[str | None, int | None, str, int]


@dataclass(slots=True)
class Gone:
    """Where rows came from that were erased.

    parts  offsets by what they were of: for quarantined records the generation and number of their batch, and for all topic and partition
    times  of each part, one for each of its offsets, the records' times in Kafka in microseconds, `NO_TIME` where one has none; earlier
           versions did not keep them
    """

    parts: dict[Part, Offsets] = field(default_factory=dict)
    times: dict[Part, Offsets] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: pa.Table) -> Gone:
        """Of rows with topic, partition, offset and time, and then with `BATCH`, if that is known of them; one that lacks a place came from elsewhere."""
        found, names = cls(), ["topic", "partition", "offset", "time", *BATCH][: rows.num_columns]
        rows = rows.rename_columns(names)
        told = rows["time"].cast(pa.timestamp("us", "UTC")).cast(pa.int64())
        rows = rows.set_column(3, "time", pc.fill_null(told, NO_TIME)).drop_null().sort_by("offset")
        by = [*names[4:], *names[:2]]
        lists = [("offset", "list"), ("time", "list")]
        for one in rows.group_by(by, use_threads=False).aggregate(lists).to_pylist():
            part = (one.get(BATCH[0]), one.get(BATCH[1]), one["topic"], one["partition"])
            # A place may be that of several, as of a topic that was made anew.
            found.parts[part] = np.array(one["offset_list"], np.int64)
            found.times[part] = np.array(one["time_list"], np.int64)
        return found

    def to_json(self) -> list[list[Any]]:
        """The same as JSON values: offsets as a Roaring bitmap in base64, and offsets and times as numbers of eight bytes, compressed, in base64."""
        return [
            [
                *part,
                _text(BitMap64(offsets.tolist()).serialize()),
                *([_text(_packed(offsets)), _text(_packed(self.times[part]))] if part in self.times else []),
            ]
            for part, offsets in self.parts.items()
        ]

    @classmethod
    def from_json(cls, value: Sequence[Sequence[Any]]) -> Gone:
        """What `to_json` gave. Raises ValueError or TypeError for anything else."""
        found = cls()
        for generation, batch_id, topic, partition, text, *more in value:
            part = (generation, batch_id, topic, partition)
            offsets = BitMap64.deserialize(base64.b64decode(text)).to_array()
            found.parts[part] = np.asarray(offsets, np.int64)
            if more:
                found.parts[part], found.times[part] = map(_unpacked, more)
        return found


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _packed(numbers: Offsets) -> bytes:
    return zlib.compress(numbers.astype("<i8").tobytes())


def _unpacked(text: str) -> Offsets:
    try:
        return np.frombuffer(zlib.decompress(base64.b64decode(text)), "<i8").astype(np.int64)
    except zlib.error as error:
        raise ValueError(str(error)) from None


PURGED = "purged"
"""In what is kept of rows: whether they were only deleted from quarantine, as records that were brought back are, and nobody was to be erased."""


def keep(root: Files, name: str, told: Mapping[str, Any]) -> str:
    """Keep what is done; the path of the file, which is there for good when this returns. Raises OSError."""
    path = f"{RECORDS}/{name}.json"
    root.put_new(path, json.dumps(told, indent=1).encode())
    return path


def _every(root: Files) -> Iterator[dict[str, Any]]:
    """All that is kept, in order: of a year there are hundreds of files, of which some are read at once where each takes its time."""
    names = sorted(root.names(RECORDS))
    for first in range(0, len(names), _AT_ONCE):
        some = names[first : first + _AT_ONCE]
        yield from map(json.loads, at_once(root, lambda name: root.read(f"{RECORDS}/{name}"), some))


def all_gone(root: Files, whose: Whose) -> Iterator[tuple[str, Gone]]:
    """Where a pipeline's rows came from that were erased, or were about to be, by the tables' folders.

    Raises OSError, and ValueError, KeyError or TypeError of a file that is none of these.
    """
    for told in _every(root):
        if "gone" in told and whose.tells(told):
            yield told["table"], Gone.from_json(told["gone"])


def all_erased(root: Files, whose: Whose) -> Iterator[Gone]:
    """The same without those that were only deleted from quarantine: of these most have a row in a table by now.

    Raises as `all_gone`.
    """
    mine = [told for told in _every(root) if whose.tells(told)]
    # Earlier versions said no more of what was deleted than of what was erased, and what an erasure came to behind it.
    erasures = {told["id"] for told in mine if "gone" not in told}
    for told in (one for one in mine if "gone" in one):
        if not told.get(PURGED, told["table"] == QUARANTINE_TABLE and told["id"] not in erasures):
            yield Gone.from_json(told["gone"])
