"""That rows were erased, kept under the root: when, of which tables, how many, and where in Kafka they came from; not of whom."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyroaring import BitMap64

from distributary.ingest.storage.contract import Files

RECORDS = ".distributary/erasures"
"""Where: a JSON file each time, and before it one for each version of a table that has fewer rows."""

# Of quarantined records their batch is told as well.
BATCH = ("generation", "batch_id")

Offsets = npt.NDArray[np.int64]

Part = tuple[str | None, int | None, str, int]


@dataclass(slots=True)
class Gone:
    """Where rows came from that were erased.

    parts  offsets by what they were of: for quarantined records the generation and number of their batch, and for all topic and partition
    """

    parts: dict[Part, Offsets] = field(default_factory=dict)

    @classmethod
    def of(cls, rows: pa.Table) -> Gone:
        """Of rows with topic, partition and offset, and then with `BATCH`, if that is known of them; one that lacks any of these came from elsewhere."""
        found, rows = cls(), rows.drop_null()
        names = ["topic", "partition", "offset", *BATCH][: rows.num_columns]
        by = [*names[3:], *names[:2]]
        for one in rows.rename_columns(names).group_by(by).aggregate([("offset", "list")]).to_pylist():
            part = (one.get(BATCH[0]), one.get(BATCH[1]), one["topic"], one["partition"])
            found.parts[part] = np.array(one["offset_list"], np.int64)
        return found

    def to_json(self) -> list[list[Any]]:
        """The same as JSON values: offsets as a Roaring bitmap in base64."""
        return [
            [*part, base64.b64encode(BitMap64(offsets.tolist()).serialize()).decode()]
            for part, offsets in self.parts.items()
        ]

    @classmethod
    def from_json(cls, value: Sequence[Sequence[Any]]) -> Gone:
        """What `to_json` gave. Raises ValueError or TypeError for anything else."""
        found = cls()
        for generation, batch_id, topic, partition, text in value:
            offsets = BitMap64.deserialize(base64.b64decode(text)).to_array()
            found.parts[generation, batch_id, topic, partition] = np.asarray(offsets, np.int64)
        return found


def keep(root: Files, name: str, told: Mapping[str, Any]) -> str:
    """Keep what is done; the path of the file, which is there for good when this returns. Raises OSError."""
    path = f"{RECORDS}/{name}.json"
    root.put_new(path, json.dumps(told, indent=1).encode())
    return path


def all_gone(root: Files, pipeline: str) -> Iterator[tuple[str, Gone]]:
    """Where rows of a pipeline's tables came from that were erased, or were about to be, by the tables' folders.

    Raises OSError, and ValueError, KeyError or TypeError of a file that is none of these.
    """
    for name in sorted(root.names(RECORDS)):
        told = json.loads(root.read(f"{RECORDS}/{name}"))
        if told["pipeline"] == pipeline and "gone" in told:
            yield told["table"], Gone.from_json(told["gone"])
