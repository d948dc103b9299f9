"""That rows were erased, kept under the root: when, of which tables, how many, and where in Kafka they came from; not of whom."""

from __future__ import annotations

import base64
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from distributary.ingest.storage.contract import Files

RECORDS = ".distributary/erasures"
"""Where: a JSON file each time."""

# Of quarantined records their batch is told as well.
BATCH = ("generation", "batch_id")

Offsets = npt.NDArray[np.int64]


@dataclass(slots=True)
class Gone:
    """Where rows came from that were erased.

    offsets  by topic and partition
    batches  how many of quarantined records each batch had, by its generation and number
    """

    offsets: list[tuple[str, int, Offsets]] = field(default_factory=list)
    batches: Counter[tuple[str, int]] = field(default_factory=Counter)

    @classmethod
    def of(cls, rows: pa.Table) -> Gone:
        """Of rows with topic, partition and offset, and then with `BATCH`, if that is known of them; one that lacks any of these came from elsewhere."""
        found, rows = cls(), rows.drop_null()
        where = rows.columns[:3]
        if rows.num_rows:
            parts = pa.table(where, names=["topic", "partition", "offset"]).group_by(["topic", "partition"])
            for one in parts.aggregate([("offset", "list")]).to_pylist():
                found.offsets.append((one["topic"], one["partition"], np.array(one["offset_list"], np.int64)))
        if rows.num_columns > len(where):
            found.batches.update(zip(*(rows.column(name).to_pylist() for name in BATCH), strict=True))
        return found

    def to_json(self) -> dict[str, Any]:
        """The same as JSON values: offsets as a Roaring bitmap in base64."""
        offsets = [
            [topic, number, base64.b64encode(BitMap64(places.tolist()).serialize()).decode()]
            for topic, number, places in self.offsets
        ]
        return {"offsets": offsets, "batches": [[*batch, count] for batch, count in self.batches.items()]}

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> Gone:
        """What `to_json` gave. Raises KeyError, ValueError or TypeError for anything else."""
        offsets = [
            (topic, number, np.asarray(BitMap64.deserialize(base64.b64decode(text)).to_array(), np.int64))
            for topic, number, text in value["offsets"]
        ]
        batches = Counter({(generation, number): count for generation, number, count in value["batches"]})
        return cls(offsets, batches)


def keep(root: Files, name: str, told: Mapping[str, Any]) -> str:
    """Keep what was done; the path of the file."""
    path = f"{RECORDS}/{name}.json"
    root.put_new(path, json.dumps(told, indent=1).encode())
    return path


def kept(root: Files, pipeline: str) -> Iterator[Mapping[str, Any]]:
    """All that was done to a pipeline's tables, as it was kept, the oldest first. Raises OSError, and ValueError of a file that is none of these."""
    names: Sequence[str] = sorted(root.names(RECORDS))
    for name in names:
        told = json.loads(root.read(f"{RECORDS}/{name}"))
        if told["pipeline"] == pipeline:
            yield told
