"""Records kept as they came that are to go: those whose rows go elsewhere, by where they stand in Kafka, and those with a key that is named."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.errors import PipelineError
from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.erasure.file_anew import Mask
from distributary.ingest.erasure.record import NO_TIME, RECORDS, all_erased
from distributary.ingest.erasure.rewriting import Rows
from distributary.ingest.storage.contract import Files

TOLD = ("kafka_topic", "kafka_partition", "kafka_offset", "kafka_ts")

NOT_LOOKED_INTO = (
    "it has bytes, which are not looked into: the records go whose rows went from tables to which each is added, and from quarantine, now or "
    "before; all others of a person, as older ones of tables with one row a key and tombstones, go by their keys alone (--key)"
)


@dataclass(slots=True)
class _Gone:
    """Places of one partition that rows came from.

    offsets  all of them
    at       those of which the records' times are known, each with its own: another record of a topic that was made anew has another one
    always   those of which earlier versions kept no times
    """

    offsets: pa.Array
    at: AbstractSet[tuple[int, int]]
    always: AbstractSet[int]


@dataclass(frozen=True, slots=True)
class AsTheyCame:
    """What tells such records.

    gone  where in Kafka rows came from that were erased, by topic and partition
    keys  keys of records that go wherever they are
    """

    gone: Mapping[tuple[str, int], _Gone] = field(default_factory=dict)
    keys: frozenset[bytes] = frozenset()

    @classmethod
    def of(cls, root: Files, whose: Whose, keys: frozenset[bytes]) -> AsTheyCame:
        """Of all that was erased up to now of a pipeline. Raises OSError, and PipelineError where what is kept of it cannot be read."""
        at: dict[tuple[str, int], set[tuple[int, int]]] = {}
        always: dict[tuple[str, int], set[int]] = {}
        try:
            for gone in all_erased(root, whose):
                for part, offsets in gone.parts.items():
                    if part in gone.times:
                        told = zip(offsets.tolist(), gone.times[part].tolist(), strict=True)
                        at.setdefault(part[2:], set()).update(told)
                    else:
                        always.setdefault(part[2:], set()).update(offsets.tolist())
        except (ValueError, KeyError, TypeError) as error:
            raise PipelineError(
                f"{root}/{RECORDS}: what is kept of erasures cannot be read: {error}"
            ) from error
        return cls(
            {place: _gone(at.get(place, set()), always.get(place, set())) for place in at | always}, keys
        )

    def rows(self, keep: Callable[[pa.Table], None]) -> Rows:
        """As a table's rows; `keep` is told what `TOLD` names of them."""
        return Rows(frozenset({*TOLD, "kafka_key"}), self._met, TOLD, keep)

    def _met(self, rows: pa.RecordBatch) -> Mask:
        found = np.zeros(rows.num_rows, dtype=bool)
        if self.keys:
            keys = pa.array(sorted(self.keys), rows.column("kafka_key").type)
            found |= pc.is_in(rows.column("kafka_key"), keys).to_numpy(zero_copy_only=False)
        topics, partitions, offsets, times = (rows.column(name) for name in TOLD)
        told_at = pc.fill_null(times.cast(pa.int64()), NO_TIME)
        for (topic, partition), gone in self.gone.items():
            here = pc.and_(pc.equal(topics, topic), pc.equal(partitions, partition))
            mine = pc.fill_null(pc.and_(here, pc.is_in(offsets, gone.offsets)), False)
            places = np.flatnonzero(mine.to_numpy(zero_copy_only=False))
            taken = pa.array(places)
            told = zip(offsets.take(taken).to_pylist(), told_at.take(taken).to_pylist(), strict=True)
            for place, (offset, time) in zip(places.tolist(), told, strict=True):
                found[place] |= offset in gone.always or (offset, time) in gone.at
        return found


def _gone(at: AbstractSet[tuple[int, int]], always: AbstractSet[int]) -> _Gone:
    return _Gone(pa.array(sorted({*always, *(offset for offset, _ in at)}), pa.int64()), at, always)
