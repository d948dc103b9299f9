"""Records of several entities whose schemas are alike: decoded and placed together, each under its own schema's number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs.base import Decoded
from distributary.ingest.pins import PinnedRecord
from distributary.ingest.placement import Placement
from distributary.ingest.task import Rows, Task

Codes = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Named:
    """The entities of a batch's rows: which of `names` each is; below zero for none."""

    codes: Rows
    names: Sequence[str]

    @classmethod
    def of(cls, entities: pa.DictionaryArray) -> Named:
        """The same taken apart, once for all the groups that a batch falls into."""
        codes = entities.indices.fill_null(-1).to_numpy().astype(np.int64)
        return cls(codes, entities.dictionary.to_pylist())

    def some(self, rows: Rows) -> pa.DictionaryArray:
        """The entities of these rows, with no other name among them: there may be a thousand groups of a few."""
        codes = self.codes[rows]
        if len(codes) and codes[0] >= 0 and (codes == codes[0]).all():
            first = np.zeros(len(codes), np.int32)
            return pa.DictionaryArray.from_arrays(first, pa.array([self.names[codes[0]]], pa.string()))
        present, codes = np.unique(codes, return_inverse=True)
        if len(present) and present[0] < 0:
            present, codes = present[1:], codes - 1
        names = pa.array([self.names[code] for code in present.tolist()], pa.string())
        return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int32(), mask=codes < 0), names)


class EntityPlacement(Placement):
    """Gives every record of alike pinned types its place; their entities are known before they are decoded."""

    def __init__(self, task: Task, raw: pa.RecordBatch, number: int, numbers: Rows, named: Named) -> None:
        """`number` is the one to decode by; `numbers` and `named` are each of the batch's rows' own, and its entity."""
        super().__init__(task, raw, number)
        self._numbers, self._entities = numbers, named

    def _pinned_of(self, row: int) -> PinnedRecord:
        return self._pins.records[int(self._numbers[row])]

    def _count(self, rows: Rows) -> None:
        for number, count in Counter(self._numbers[rows].tolist()).items():
            self._report.decoded[self._pins.records[number].schema.id] += count

    def _named(self, rows: Rows, decoded: Decoded) -> pa.DictionaryArray:
        return self._entities.some(rows)

    def _without_growth(self, rows: Rows, payloads: pa.BinaryArray, decoded: Decoded) -> Decoded:
        """Rows with fields that their entity's schema lacks wait for the driver to let that one grow."""
        beyond = decoded.beyond
        if len(beyond) and self._pinned.schema.entity is None:
            beyond = beyond[self._grows_for_strays(rows[beyond])]
        if not len(beyond) or not self._pins.grow:
            return decoded
        numbers = self._numbers[rows[beyond]]
        waiting = []
        for number in np.unique(numbers).tolist():
            mine = beyond[numbers == number]
            if self._proposes(self._pins.records[number], payloads.take(pa.array(mine)), rows[mine]):
                waiting.append(mine)
        if not waiting:
            return decoded
        aside = np.sort(np.concatenate(waiting))
        self._task.set_aside(self._raw, rows[aside])
        return decoded.without(aside)

    def _grows_for_strays(self, rows: Rows) -> npt.NDArray[np.bool_]:
        """Which of these have a table to land in: not those of an entity that may have none."""
        if isinstance(self._pins.policies.no_entity, str):
            return np.zeros(len(rows), np.bool_)
        found: npt.NDArray[np.bool_] = self._entities.codes[rows] < 0
        return found

    def _meet(self, present: Collection[int], rows: Rows, codes: Codes) -> None:
        entities, firsts = np.unique(codes, return_index=True)
        for code, first in zip(entities.tolist(), firsts.tolist(), strict=True):
            if code >= 0:
                row = int(rows[first])
                self._task.meet_one(int(self._numbers[row]), code, row, self._raw)

    def _grow(self, rows: Rows, codes: Codes, brought: Mapping[int, tuple[int, ...] | None]) -> None:
        growths = self._report.growths
        begun = len(growths)
        super()._grow(rows, codes, brought)
        if len(growths) > begun:
            own = self._pinned_by_folder(rows, codes)
            growths[begun:] = [
                replace(one, key=own[one.table].key, schema_id=own[one.table].schema.id)
                for one in growths[begun:]
            ]

    def _pinned_by_folder(self, rows: Rows, codes: Codes) -> dict[str, PinnedRecord]:
        entities, firsts = np.unique(codes, return_index=True)
        return {
            self._book.folders[code]: self._pinned_of(int(rows[first]))
            for code, first in zip(entities.tolist(), firsts.tolist(), strict=True)
            if code >= 0
        }

    def _kafka_arrays(self, rows: Rows) -> list[pa.Array]:
        arrays = super()._kafka_arrays(rows)
        ids = [self._pins.records[number].schema.id for number in self._numbers[rows].tolist()]
        # After topic, partition, offset, time and key.
        arrays[5] = pa.array(ids, pa.int64())
        return arrays
