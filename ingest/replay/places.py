"""Sets of records by where they stand in Kafka: offsets by topic and partition, each once and in order."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap64

from distributary.ingest.kafka.offsets import Offsets, Stretches

Numbers: TypeAlias = npt.NDArray[np.int64]

Partition: TypeAlias = tuple[str, int]

Places: TypeAlias = Mapping[Partition, Numbers]

Span: TypeAlias = tuple[int, int]
"""The first and the last of some offsets."""


def split(topics: Any, partitions: Any, offsets: Any) -> dict[Partition, Numbers]:
    """The offsets of some rows by their partitions, in the rows' order, as often as they are there; a row that lacks any of the three is passed over."""
    rows = pa.table([topics, partitions, offsets], names=["topic", "partition", "offset"]).drop_null()
    if not rows.num_rows:
        return {}
    names = rows["topic"].cast(pa.string()).combine_chunks().dictionary_encode()
    names = names.combine_chunks() if isinstance(names, pa.ChunkedArray) else names
    codes = names.indices.to_numpy().astype(np.int64) << 32 | rows["partition"].to_numpy()
    numbers = rows["offset"].to_numpy()
    known, small = _small(codes)
    # Of such small numbers a stable order takes one pass, and each partition then lies together.
    order = np.argsort(small, kind="stable")
    ends = np.cumsum(np.bincount(small, minlength=len(known)))
    return {
        (names.dictionary[code >> 32].as_py(), code & 0xFFFFFFFF): mine
        for code, mine in zip(known, np.split(numbers[order], ends[:-1]), strict=True)
    }


def _small(codes: Numbers) -> tuple[list[int], npt.NDArray[Any]]:
    """Which there are, and of each the place of its own among them; of neighbours that are the same, as most are here, only one is looked up."""
    first = np.flatnonzero(np.concatenate([[True], codes[1:] != codes[:-1]]))
    known, which = np.unique(codes[first], return_inverse=True)
    small = which.astype(np.uint16) if len(known) <= 2**16 else which
    return known.tolist(), np.repeat(small, np.diff(np.append(first, len(codes))))


def spanned(offsets: Numbers, before: Span | None = None) -> Span:
    """From the first to the last of some offsets, and of those before."""
    first, last = int(offsets.min()), int(offsets.max())
    return (first, last) if before is None else (min(first, before[0]), max(last, before[1]))


def joined(parts: Iterable[Places]) -> dict[Partition, Numbers]:
    """All of them together."""
    lists: dict[Partition, list[Numbers]] = {}
    for part in parts:
        for partition, numbers in part.items():
            lists.setdefault(partition, []).append(numbers)
    return {partition: _once(np.concatenate(those)) for partition, those in lists.items()}


def _once(numbers: Numbers) -> Numbers:
    """Each once and in order; of what mostly is in order, as here, `np.unique` takes hundreds of times as long."""
    found = np.sort(numbers, kind="stable")
    first = np.ones(len(found), bool)
    first[1:] = found[1:] != found[:-1]
    once: Numbers = found[first]
    return once


def without(some: Places, others: Places) -> dict[Partition, Numbers]:
    """Those of some that are not among the others."""
    none = np.empty(0, np.int64)
    found = {
        partition: numbers[~np.isin(numbers, others.get(partition, none))]
        for partition, numbers in some.items()
    }
    return {partition: numbers for partition, numbers in found.items() if len(numbers)}


def within(some: Places, others: Places) -> dict[Partition, Numbers]:
    """Those of some that are among the others."""
    found = {
        partition: numbers[np.isin(numbers, others[partition])]
        for partition, numbers in some.items()
        if partition in others
    }
    return {partition: numbers for partition, numbers in found.items() if len(numbers)}


def count(some: Places) -> int:
    """How many there are."""
    return sum(map(len, some.values()))


def between(some: Places, offsets: Offsets) -> dict[Partition, Numbers]:
    """Those of some that lie in a range of offsets."""
    found = {}
    for (topic, partition), numbers in some.items():
        first, end = offsets.get(topic, {}).get(partition, (0, 0))
        mine = numbers[(numbers >= first) & (numbers < end)]
        if len(mine):
            found[topic, partition] = mine
    return found


def passed_by(every: Places, wanted: Places) -> Stretches:
    """The stretches that have all records but the wanted ones; as few as there can be, since between records there may be offsets without any."""
    found: dict[str, dict[int, list[tuple[int, int]]]] = {}
    none = np.empty(0, np.int64)
    for (topic, partition), numbers in every.items():
        skipped = ~np.isin(numbers, wanted.get((topic, partition), none))
        if not skipped.any():
            continue
        edges = np.flatnonzero(np.diff(np.concatenate([[False], skipped, [False]]).astype(np.int8)))
        stretches = zip(numbers[edges[::2]].tolist(), (numbers[edges[1::2] - 1] + 1).tolist(), strict=True)
        found.setdefault(topic, {})[partition] = list(stretches)
    return found


def of_rows(rows: pa.Table, names: Iterable[str]) -> dict[Partition, Numbers]:
    """Where rows are from, by the columns of these names."""
    return joined([split(*(rows[name] for name in names))])


def are_in(rows: pa.Table, names: Iterable[str], some: Places) -> pa.Array:
    """Which rows are from one of these places."""
    topics, partitions, offsets = (rows[name] for name in names)
    found = [
        pc.and_(
            pc.and_(pc.equal(topics, topic), pc.equal(partitions, partition)),
            pc.is_in(offsets, pa.array(numbers, offsets.type)),
        )
        for (topic, partition), numbers in some.items()
    ]
    none = pa.repeat(pa.scalar(False), rows.num_rows)
    return pc.fill_null(reduce(pc.or_, found, none), False)


def to_json(some: Places) -> list[list[Any]]:
    """The same as JSON values: of each partition its offsets as a Roaring bitmap in base64."""
    return [
        [*partition, base64.b64encode(BitMap64(offsets.tolist()).serialize()).decode()]
        for partition, offsets in some.items()
    ]


def bitmaps(told: Iterable[Sequence[Any]]) -> dict[Partition, BitMap64]:
    """What `to_json` gave, as bitmaps. Raises ValueError or TypeError for anything else."""
    return {(topic, number): BitMap64.deserialize(base64.b64decode(text)) for topic, number, text in told}


def offsets_of(bitmap: BitMap64) -> Numbers:
    """As Arrow and numpy have them."""
    return np.asarray(bitmap.to_array(), np.int64)


def from_json(told: Iterable[Sequence[Any]]) -> dict[Partition, Numbers]:
    """What `to_json` gave. Raises ValueError or TypeError for anything else."""
    return {partition: offsets_of(bitmap) for partition, bitmap in bitmaps(told).items()}
