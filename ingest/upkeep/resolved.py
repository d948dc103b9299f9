"""What tells of records that were brought back goes with their rows in quarantine; where they went is kept in short, so that nobody takes them for strangers."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from distributary.ingest.storage.contract import Files

MOVED = ".distributary/resolved"
"""Where, under the root, that is kept: JSON files, which the next upkeep brings together to one."""

TO_TABLE = "table"
"""The outcome of a record that has a row in a table since."""

PLACE = ("kafka_topic", "kafka_partition", "kafka_offset")

_MOVED = "moved"

Partition = tuple[str, int]


def keep_moved(root: Files, pipeline: str, rows: pa.Table) -> None:
    """Keep where those of these rows of `quarantine_resolved` are from that got a row in a table, before they go. Doing it again changes nothing.

    Raises OSError, and ValueError, KeyError or TypeError where what was kept before cannot be read.
    """
    mine = rows.filter(pc.equal(rows["outcome"], TO_TABLE))
    if not mine.num_rows:
        return
    before = _files(root, pipeline)
    found: dict[Partition, BitMap64] = {}
    for told in before.values():
        for partition, bitmap in told.items():
            found[partition] = found.get(partition, BitMap64()) | bitmap
    for one in mine.group_by(list(PLACE[:2])).aggregate([(PLACE[2], "list")]).to_pylist():
        partition = (one[PLACE[0]], one[PLACE[1]])
        found[partition] = found.get(partition, BitMap64()) | BitMap64(one[f"{PLACE[2]}_list"])
    value = {"format": 1, "pipeline": pipeline, _MOVED: list(_to_json(found))}
    root.put_new(f"{MOVED}/{uuid.uuid4().hex}.json", json.dumps(value).encode())
    root.delete(f"{MOVED}/{name}" for name in before)


def moved(root: Files, pipeline: str | None) -> Iterator[tuple[Partition, npt.NDArray[np.int64]]]:
    """Where the records are from of which `quarantine_resolved` does not tell any more that a table has them; of a pipeline, or of all.

    One may be told of twice. Raises as `keep_moved`.
    """
    for told in _files(root, pipeline).values():
        for partition, bitmap in told.items():
            yield partition, np.asarray(bitmap.to_array(), np.int64)


def _files(root: Files, pipeline: str | None) -> dict[str, dict[Partition, BitMap64]]:
    found = dict[str, dict[Partition, BitMap64]]()
    for name in sorted(root.names(MOVED)):
        try:
            told = json.loads(root.read(f"{MOVED}/{name}"))
        except FileNotFoundError:
            continue  # brought together with others meanwhile
        if pipeline in (None, told["pipeline"]):
            found[name] = {
                (topic, number): BitMap64.deserialize(base64.b64decode(text))
                for topic, number, text in told[_MOVED]
            }
    return found


def _to_json(places: dict[Partition, BitMap64]) -> Iterable[list[str | int]]:
    for (topic, number), bitmap in places.items():
        yield [topic, number, base64.b64encode(bitmap.serialize()).decode()]
