"""Rows of data files in the order of a curve, written as files of some size; what memory does not hold waits on a disk.

A first look takes a sample of the columns that make the curve. By it the curve is cut into stretches that memory holds, the rows are put
to their stretch, and each stretch is sorted when its turn comes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.ingest.clustering.curve import SAMPLE, Curve, Places
from distributary.ingest.clustering.reading import alive, opened_in, rows_in, staying_in
from distributary.ingest.clustering.writing import Made, Target, Written, value_at
from distributary.ingest.columns.clustering import Path
from distributary.ingest.columns.layout import Layout
from distributary.ingest.merge.columns import at_places
from distributary.ingest.merge.live_files import Action
from distributary.ingest.parquet.statistics import Fractions
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.posix import temporary_files
from distributary.ingest.storage.stream import Upload

MEMORY_BYTES = 128 * 2**20
"""How much of a table is sorted at once. To sort it takes as much again, and so does what is read."""

# Each has a file that is open.
_MOST_STRETCHES = 256

_PLACE = "\0place"


@dataclass(frozen=True, slots=True)
class _Looked:
    """What a first look tells: the curve, where it is cut, how many rows there are, how many of them stay, and what is NaN anywhere.

    held  the rows that stay, where memory holds all of them: no file is opened twice then
    """

    curve: Curve
    cuts: Places
    rows: int
    stay: int
    with_nan: frozenset[Path] = frozenset()
    held: Sequence[pa.Table] | None = None


def write_sorted(place: Files, files: Sequence[tuple[str, Action]], target: Target) -> list[Made]:
    """Write the rows of files of a table anew, without those that are marked as gone.

    Raises FileNotFoundError where one of them is gone, Unreadable where one is damaged, WrongVector where what marks its rows is, other OSErrors
    where the place or the disk for what waits does not do.
    """
    looked = _look(place, files, target)
    if not looked.stay:
        return []
    bytes_ = sum(add["size"] for _, add in files) * looked.stay // looked.rows
    count = max(-(-bytes_ // target.file_bytes), 1)
    written = Written(place, target, -(-looked.stay // count), looked.with_nan)
    try:
        for rows in _in_order(place, files, target, looked):
            written.add(rows)
        return written.close()
    except BaseException:
        written.give_up()
        raise


def _look(place: Files, files: Sequence[tuple[str, Action]], target: Target) -> _Looked:
    """Over all files, at the columns that make the curve; and at all columns of a few rows, to tell how much memory they take."""
    if not target.by:
        return _look_for_nan(place, files, target)
    told = pa.schema(dict.fromkeys(target.columns.field(path[0]) for path in target.by))
    sample, every, seen, rows, stay, row_bytes = list[pa.Table](), 1, 0, 0, 0, 0.0
    for opened_file, marked in opened_in(place, files):
        rows, stay = rows + opened_file.rows, stay + opened_file.rows - len(marked)
        for number, first, count in opened_file.groups():
            if not row_bytes and count:
                some = next(opened_file.parts(number, target.columns))
                row_bytes = some.nbytes / some.num_rows
            stays = len(alive(marked, first, count))
            if (-seen) % every >= stays:
                seen += stays
                continue
            for some in staying_in(opened_file, (number, first), told, marked):
                chosen = np.arange((-seen) % every, some.num_rows, every)
                seen += some.num_rows
                if len(chosen):
                    sample.append(at_places(some, chosen))
                if sum(map(len, sample)) > 2 * SAMPLE:
                    whole = pa.concat_tables(sample)
                    sample, every = [whole.take(pa.array(np.arange(0, len(whole), 2)))], every * 2
    if not sample:
        return _Looked(Curve([]), np.empty(0, np.uint64), rows, stay)
    columns = _values(pa.concat_tables(sample), target.by)
    curve = Curve.through(columns)
    places = np.sort(curve.places(columns))
    stretches = min(int(stay * row_bytes // MEMORY_BYTES) + 1, _MOST_STRETCHES)
    cuts = places[np.arange(1, stretches) * len(places) // stretches]
    return _Looked(curve, np.unique(cuts), rows, stay)


def _look_for_nan(place: Files, files: Sequence[tuple[str, Action]], target: Target) -> _Looked:
    """Over all files, at fractions: rows that have a NaN and come late would have a file of their own, and be brought together with the others for ever."""
    fractions, rows, stay = Fractions(Layout(target.columns)), 0, 0
    held, size = list[pa.Table](), 0
    names = {path[0] for path in fractions.without_nan}
    told = pa.schema([one for one in target.columns if one.name in names])
    for opened_file, marked in opened_in(place, files):
        rows, stay = rows + opened_file.rows, stay + opened_file.rows - len(marked)
        for number, first, _ in opened_file.groups():
            if size > MEMORY_BYTES and not names:
                break
            columns = target.columns if size <= MEMORY_BYTES else told
            for some in staying_in(opened_file, (number, first), columns, marked):
                size += some.nbytes
                held.append(some)
                if size > MEMORY_BYTES:
                    held.clear()
                fractions.take(fractions.with_nan(some))
    every = Fractions(Layout(target.columns)).without_nan
    is_whole, with_nan = size <= MEMORY_BYTES, every - fractions.without_nan
    return _Looked(Curve([]), np.empty(0, np.uint64), rows, stay, with_nan, held if is_whole else None)


def _in_order(
    place: Files, files: Sequence[tuple[str, Action]], target: Target, looked: _Looked
) -> Iterator[pa.Table]:
    if not target.by:
        yield from rows_in(place, files, target.columns) if looked.held is None else looked.held
        return
    with_places = (
        rows.append_column(_PLACE, pa.array(looked.curve.places(_values(rows, target.by))))
        for group in rows_in(place, files, target.columns)
        for rows in _in_pieces(group)
    )
    for stretch in _stretches(with_places, looked.cuts):
        yield _sorted(stretch, target.by)


def _in_pieces(rows: pa.Table) -> Iterator[pa.Table]:
    """Rows as memory is for: they change their order, and of text Arrow brings no more than 2 GiB together for that."""
    most = max(1, MEMORY_BYTES * rows.num_rows // max(rows.nbytes, 1))
    yield from (rows.slice(begin, most) for begin in range(0, rows.num_rows, most))


def _stretches(rows: Iterable[pa.Table], cuts: Places) -> Iterator[pa.Table]:
    """The rows of each stretch of the curve, one after the other: one alone is held, several wait on a disk."""
    if not len(cuts):
        yield from _portions(rows)
        return
    with temporary_files("distributary-waiting-rows-") as waiting:
        streams: dict[int, tuple[Any, Upload]] = {}
        for some in rows:
            _put(some, cuts, waiting, streams)
        sizes = dict[int, int]()
        for number, (writer, stream) in streams.items():
            writer.close()
            sizes[number] = stream.tell()
            stream.close()
        for number in sorted(sizes):
            with pa.ipc.open_stream(waiting.reader(str(number), sizes[number])) as reader:
                yield from _portions(pa.Table.from_batches([batch]) for batch in reader)
            waiting.delete([str(number)])


def _put(rows: pa.Table, cuts: Places, waiting: Files, streams: dict[int, tuple[Any, Upload]]) -> None:
    of = np.searchsorted(cuts, rows.column(_PLACE).to_numpy(), side="right")
    order = np.argsort(of, kind="stable")
    rows, of = rows.take(pa.array(order)).combine_chunks(), of[order]
    edges = [0, *(np.flatnonzero(np.diff(of)) + 1).tolist(), len(of)]
    for first, end in pairwise(edges):
        number = int(of[first])
        if number not in streams:
            stream = waiting.writer(str(number), named_later=True)
            options = pa.ipc.IpcWriteOptions(compression="lz4")
            streams[number] = (pa.ipc.new_stream(stream.sink, rows.schema, options=options), stream)
        streams[number][0].write_table(rows.slice(first, end - first))


def _portions(rows: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """All rows in one table, unless that is more than memory is for: where a value is in very many rows no cut comes between them."""
    held, size = list[pa.Table](), 0
    for some in rows:
        held.append(some)
        size += some.nbytes
        if size > 2 * MEMORY_BYTES:
            yield pa.concat_tables(held)
            held, size = [], 0
    if held:
        yield pa.concat_tables(held)


def _sorted(rows: pa.Table, by: Sequence[Path]) -> pa.Table:
    """In the order of their places, and of those at one in the order of their values."""
    names = [str(number) for number in range(len(by) + 1)]
    keys = pa.table([rows.column(_PLACE), *_values(rows, by)], names)
    order = pc.sort_indices(keys, sort_keys=[(name, "ascending") for name in names])
    return rows.drop_columns([_PLACE]).take(order)


def _values(rows: pa.Table, by: Sequence[Path]) -> list[pa.Array]:
    return [value_at(rows, path) for path in by]
