"""Records kept as they came that are to go: those whose rows go elsewhere, by where they stand in Kafka, and those with a key that is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import PipelineError
from distributary.ingest.erasure.file_anew import Mask
from distributary.ingest.erasure.record import RECORDS, Offsets, all_gone
from distributary.ingest.erasure.rewriting import Rows
from distributary.ingest.storage.contract import Files

TOLD = ("kafka_topic", "kafka_partition", "kafka_offset")

NOT_LOOKED_INTO = (
    "it has bytes, which are not looked into: the records go whose rows went from tables to which each is added, and from quarantine, now or "
    "before; all others of a person, as older ones of tables with one row a key and tombstones, go by their keys alone (--key)"
)


@dataclass(frozen=True, slots=True)
class AsTheyCame:
    """What tells such records.

    gone  where in Kafka rows came from that were erased, by topic and partition
    keys  keys of records that go wherever they are
    """

    gone: Mapping[tuple[str, int], Offsets] = field(default_factory=dict)
    keys: frozenset[bytes] = frozenset()

    @classmethod
    def of(cls, root: Files, pipeline: str, keys: frozenset[bytes]) -> AsTheyCame:
        """Of all that was erased of a pipeline up to now. Raises OSError, and PipelineError where what is kept of it cannot be read."""
        found: dict[tuple[str, int], list[Offsets]] = {}
        try:
            for _, gone in all_gone(root, pipeline):
                for (_, _, topic, partition), offsets in gone.parts.items():
                    found.setdefault((topic, partition), []).append(offsets)
        except (ValueError, KeyError, TypeError) as error:
            raise PipelineError(
                f"{root}/{RECORDS}: what is kept of erasures cannot be read: {error}"
            ) from error
        return cls({place: np.concatenate(them) for place, them in found.items()}, keys)

    def rows(self, keep: Callable[[pa.Table], None]) -> Rows:
        """As a table's rows; `keep` is told what `TOLD` names of them."""
        return Rows(frozenset({*TOLD, "kafka_key"}), self._met, TOLD, keep)

    def _met(self, rows: pa.RecordBatch) -> Mask:
        found = np.zeros(rows.num_rows, dtype=bool)
        if self.keys:
            keys = pa.array(sorted(self.keys), rows.column("kafka_key").type)
            found |= pc.is_in(rows.column("kafka_key"), keys).to_numpy(zero_copy_only=False)
        topics, partitions, offsets = (rows.column(name) for name in TOLD)
        for (topic, partition), gone in self.gone.items():
            here = pc.and_(pc.equal(topics, topic), pc.equal(partitions, partition))
            mine = pc.fill_null(pc.and_(here, pc.is_in(offsets, pa.array(gone))), False)
            found |= mine.to_numpy(zero_copy_only=False)
        return found
