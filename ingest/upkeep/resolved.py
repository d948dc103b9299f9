"""What tells of records that were brought back goes with their rows in quarantine; where they went is kept in short, so that nobody takes them for strangers."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.storage.contract import Files

MOVED = ".distributary/resolved"
"""Where, under the root, that is kept: JSON files, which the next upkeep brings together to one."""

TO_TABLE = "table"
"""The outcome of a record that has a row in a table since."""

PLACE = ("kafka_topic", "kafka_partition", "kafka_offset")

_MOVED, _AGAIN, _OTHERS = "moved", "again", "others"

Partition = tuple[str, int]


def keep_moved(root: Files, whose: Whose, rows: pa.Table, replays: Collection[str] = ()) -> None:
    """Keep where these rows of `quarantine_resolved` are from, before they go: those that got a row in a table, and the others. Doing it again changes nothing.

    replays  such as had refused records: of those nobody asks what their batch had put into quarantine

    Raises OSError, and ValueError, KeyError or TypeError where what was kept before cannot be read.
    """
    if not rows.num_rows:
        return
    before = _files(root, whose)
    to_table = pc.fill_null(pc.equal(rows["outcome"], TO_TABLE), False)
    of_replays = pc.and_(to_table, pc.is_in(rows["generation"], pa.array(list(replays), pa.string())))
    found = {
        _MOVED: _places(rows.filter(pc.and_not(to_table, of_replays))),
        _AGAIN: _places(rows.filter(of_replays)),
        _OTHERS: _places(rows.filter(pc.invert(to_table))),
    }
    for told in before.values():
        for name, places in found.items():
            for partition, bitmap in told[name].items():
                places[partition] = places.get(partition, BitMap64()) | bitmap
    value = {"format": 1, **whose.said} | {name: bitmaps_to_json(places) for name, places in found.items()}
    root.put_new(f"{MOVED}/{uuid.uuid4().hex}.json", json.dumps(value).encode())
    root.delete(f"{MOVED}/{name}" for name in before)


def moved(root: Files, whose: Whose | None) -> Iterator[tuple[Partition, npt.NDArray[np.int64]]]:
    """Where the records of batches are from of which `quarantine_resolved` does not tell any more that a table has them; of a pipeline, or of all.

    One may be told of twice. Raises as `keep_moved`.
    """
    for told in _files(root, whose).values():
        yield from _offsets(told[_MOVED])


def again(root: Files, whose: Whose | None) -> Iterator[tuple[Partition, npt.NDArray[np.int64]]]:
    """The same of records that a replay had refused. As `moved`."""
    for told in _files(root, whose).values():
        yield from _offsets(told[_AGAIN])


def let_go(root: Files, whose: Whose) -> Iterator[tuple[Partition, npt.NDArray[np.int64]]]:
    """Where the records are from of which it does not tell any more that they are open no more, whatever became of them. As `moved`."""
    for told in _files(root, whose).values():
        for places in told.values():
            yield from _offsets(places)


def _offsets(places: Mapping[Partition, BitMap64]) -> Iterator[tuple[Partition, npt.NDArray[np.int64]]]:
    for partition, bitmap in places.items():
        yield partition, np.asarray(bitmap.to_array(), np.int64)


def _places(rows: pa.Table) -> dict[Partition, BitMap64]:
    found = rows.group_by(list(PLACE[:2])).aggregate([(PLACE[2], "list")]).to_pylist()
    return {(one[PLACE[0]], one[PLACE[1]]): BitMap64(one[f"{PLACE[2]}_list"]) for one in found}


def _files(root: Files, whose: Whose | None) -> dict[str, dict[str, dict[Partition, BitMap64]]]:
    found = dict[str, dict[str, dict[Partition, BitMap64]]]()
    for name, data in whole(root, MOVED).items():
        told = json.loads(data)
        if whose is None or whose.tells(told):
            # Of all others earlier versions kept nothing, or nothing apart.
            found[name] = {_MOVED: bitmaps(told[_MOVED])} | {
                other: bitmaps(told.get(other, ())) for other in (_AGAIN, _OTHERS)
            }
    return found


def whole(root: Files, folder: str) -> dict[str, bytes]:
    """What the files of a folder say, by their names in order, which others bring together meanwhile: all of it, and some perhaps twice. Raises OSError."""
    gone = ""
    while True:
        found = dict[str, bytes]()
        try:
            for name in sorted(root.names(folder)):
                found[name] = root.read(f"{folder}/{name}")
        except FileNotFoundError:
            # What says the same now may have come behind the listing.
            if gone == name:
                raise
            gone = name
        else:
            return found


def bitmaps(told: Iterable[Sequence[Any]]) -> dict[Partition, BitMap64]:
    """What `bitmaps_to_json` gave. Raises ValueError or TypeError for anything else."""
    return {(topic, number): BitMap64.deserialize(base64.b64decode(text)) for topic, number, text in told}


def bitmaps_to_json(places: Mapping[Partition, BitMap64]) -> list[list[Any]]:
    """Of each partition its offsets as a Roaring bitmap in base64."""
    return [
        [*partition, base64.b64encode(bitmap.serialize()).decode()] for partition, bitmap in places.items()
    ]
