"""A batch's rows as they wait to be merged: their keys, and what orders them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pyarrow as pa

from distributary.errors import PipelineError
from distributary.ingest.merge.bounds import KeyBounds
from distributary.ingest.merge.columns import DataColumns, at_once, at_paths
from distributary.ingest.merge.folding import Present
from distributary.ingest.merge.found import Numbers, Wanted
from distributary.ingest.merge.key_index import KeyIndex
from distributary.ingest.merge.rule import IS_DELETE, PRESENT, MergeRule
from distributary.ingest.parquet.data_file import DataFile
from distributary.ingest.storage.contract import Files


@dataclass(frozen=True, slots=True)
class Staged:
    """All rows that were staged, those of deletes last.

    files    what they are in
    deletes  how many of the files, the last ones, have deletes
    present  for each file the columns that its rows set; None: all
    of       for each row the number of its file
    places   for each row its number in its file
    columns  what orders the rows
    wanted   the keys, to be looked for
    """

    files: Sequence[DataFile]
    deletes: int
    present: Sequence[Present]
    of: Numbers
    places: Numbers
    columns: pa.Table
    wanted: Wanted


def staged(place: Files, files: Sequence[DataFile], schema: pa.Schema, rule: MergeRule) -> Staged:
    """What the files, and those of the rule's deletes, have. Raises PipelineError where a key or a sequence is null."""
    keys, others = at_paths(schema, rule.keys), at_paths(schema, _others(rule, schema))
    deletes = () if rule.deletes is None else rule.deletes.files
    if rule.history is not None:
        others = others.append(pa.field(IS_DELETE, pa.bool_()))
    both = pa.schema(dict.fromkeys([*keys, *others]))
    read = at_once(place, lambda file: _read(place, file, both), files)
    if rule.deletes is not None:
        read += at_once(place, partial(_read, rule.deletes.memory, columns=both), deletes)
    found = [rows for rows, _ in read]
    numbers = [np.arange(rows.num_rows, dtype=np.int64) for rows in found]
    for at in range(len(files), len(found) if rule.history is not None else 0):
        # The others are in the table's own files.
        numbers[at] = np.flatnonzero(found[at].column(IS_DELETE).to_numpy())
        found[at] = found[at].take(pa.array(numbers[at]))
    columns = pa.concat_tables(found) if found else both.empty_table()
    _require_no_null(place, columns, (*rule.keys, *rule.order.sequence))
    index = KeyIndex([columns.column(path) for path in rule.keys])
    counts = [table.num_rows for table in found]
    return Staged(
        files=[*files, *deletes],
        deletes=len(deletes),
        present=[_present(told, rule) for _, told in read],
        of=np.repeat(np.arange(len(counts), dtype=np.int64), counts),
        places=np.concatenate(numbers or [np.empty(0, np.int64)]),
        columns=columns.select(others.names),
        wanted=Wanted(index, KeyBounds(rule.keys, index.values), keys, others),
    )


def _others(rule: MergeRule, schema: pa.Schema) -> list[str]:
    """The columns that order rows; a turn that the table does not have yet is none."""
    position = rule.order.position
    marks = [] if rule.deletes is None or rule.deletes.mark is None else [rule.deletes.mark]
    bounds = [] if rule.history is None else [rule.history.since, rule.history.until]
    found = [*rule.order.sequence, *position.columns, *marks, *bounds]
    return [path for path in dict.fromkeys(found) if path != position.turn or path in schema.names]


def _present(told: Mapping[bytes, bytes], rule: MergeRule) -> Present:
    text = told.get(PRESENT)
    if rule.update == "all" or text is None:
        return None
    return frozenset((*json.loads(text), *rule.read))


def _read(place: Files, file: DataFile, columns: pa.Schema) -> tuple[pa.Table, Mapping[bytes, bytes]]:
    """Its rows, and what its footer says."""
    opened = DataColumns(place, file.name, file.bytes, dict(file.partition))
    if opened.rows != file.rows:
        raise PipelineError(
            f"table {place}: file {file.name} has {opened.rows} rows, not {file.rows} as written"
        )
    parts = [opened.read(number, columns) for number, _, _ in opened.groups()]
    return pa.concat_tables(parts) if parts else columns.empty_table(), opened.metadata


def _require_no_null(place: Files, columns: pa.Table, paths: Sequence[str]) -> None:
    wrong = [path for path in paths if columns.column(path).null_count]
    if wrong:
        raise PipelineError(
            f"table {place}: rows that were staged have no value in {', '.join(wrong)}, by which they are told apart or ordered"
        )
