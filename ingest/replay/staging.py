"""The records that a replay is of, taken out of quarantine as they came, so that they stay the same whatever becomes of it meanwhile."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from distributary.ingest.columns.single_values import comparable
from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.kafka.offsets import Offsets, Positions
from distributary.ingest.kafka.records import RAW, RAW_SCHEMA
from distributary.ingest.quarantine.chosen import Chosen
from distributary.ingest.quarantine.resolved import IDENTITY
from distributary.ingest.quarantine.rows import TEXT, identities, of_quarantine, rows_of
from distributary.ingest.replay.headers import KEPT, Named, are_kept
from distributary.ingest.replay.raw_records import lie_in, may_have
from distributary.ingest.settings.groups import Columns
from distributary.ingest.settings.rule_book import RuleBook
from distributary.ingest.storage.contract import Files
from distributary.ingest.tables.ledger import QUARANTINE_SCHEMA
from distributary.ingest.worker.task import AsideFiles

# What the columns of RAW are called in quarantine; it has no others of them.
_RAW_OF = {
    "topic": "kafka_topic",
    "partition": "kafka_partition",
    "offset": "kafka_offset",
    "ts": "kafka_ts",
    "key": "kafka_key",
    "value": "value",
    "header_id": "header_schema_id",
}

_PLACE = IDENTITY[2:]

ROWS = "rows.parquet"
"""Which rows of quarantine a replay is of, beside the records."""

ROWS_SCHEMA = pa.schema([*(QUARANTINE_SCHEMA.field(name) for name in IDENTITY), ("already", pa.string())])
"""`already` is the table that had the record's row before; null of those that are decoded again."""

Coordinates = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Staged:
    """What was taken.

    files    the names of files with records to decode
    records  how many these are
    already  how many a table has
    left     how many stay in quarantine whatever is replayed, by the reason in words
    """

    files: tuple[str, ...]
    records: int
    already: int
    left: Mapping[str, int]

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        return {
            "files": list(self.files),
            "records": self.records,
            "already": self.already,
            "left": dict(self.left),
        }


@dataclass(frozen=True, slots=True)
class Asked:
    """Of which records a replay is to be.

    whose   a pipeline's
    chosen  which
    but     those that were tried just now, as `identities` tells them
    named   the record headers that are wanted of them
    within  between which offsets they stand; None: between any
    ends    where the reading of each partition stands: what is behind that comes to its table by itself
    """

    whose: Whose
    chosen: Chosen
    but: pa.Array = field(default_factory=lambda: pa.array([], TEXT))
    ends: Positions = field(default_factory=dict)
    named: Named = field(default_factory=Named)
    within: Offsets | None = None

    def may_be_in(self, told: Mapping[str, Any]) -> bool:
        """Whether a file may have any of them, by what its table's log tells of its values."""
        return self.within is None or may_have(told, _PLACE, self.within)

    def of(self, rows: pa.Table) -> pa.Table:
        """Those of some rows of quarantine that are meant."""
        mine = rows if self.within is None else rows.filter(lie_in(rows, self.within))
        mine = mine.filter(pc.and_(self.chosen.of(mine), pc.invert(mine["resolved"])))
        return mine.filter(pc.invert(pc.is_in(identities(mine), self.but)))


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables that may have a record's row: their folders under the root, and what they call Kafka's columns."""

    root: Files
    folders: Sequence[str]
    columns: Columns


def open_rows(root: Files, asked: Asked, more: Sequence[str] = ()) -> Iterator[pa.Table]:
    """The rows of quarantine that are asked for and were not brought back, with more columns of its own."""
    yield from map(asked.of, of_quarantine(root, asked.whose, more, asked.may_be_in))


def why_none(named: Named, book: RuleBook) -> str:
    """Why no record can be decoded again as it was meant to be; empty where all can that the quarantine has whole."""
    if named.route is not None and not are_kept():
        return "the quarantine does not keep the record headers by which records are routed"
    if named.beside and not are_kept():
        return f"the quarantine does not keep the record headers ({', '.join(named.beside)}) that columns are made of"
    if any(spec.reshape.timestamp_type for spec in book.specs if spec.reshape is not None):
        return "the quarantine does not keep what a record's time in Kafka says, of which a column is made"
    return ""


def stage(tables: Tables, asked: Asked, book: RuleBook, place: Files) -> Staged:
    """Take the records that are asked for. Raises PipelineError where the quarantine, or a table, cannot be read."""
    rows, left = _chosen_rows(tables.root, asked, book)
    there = _already(tables, rows)
    already = pc.replace_with_mask(
        pa.nulls(rows.num_rows, pa.string()),
        pa.array([one is not None for one in there], pa.bool_()),
        pa.array([one for one in there if one is not None], pa.string()),
    )
    to_decode = identities(rows.filter(pc.and_(pc.is_null(already), rows["first"])))
    aside = AsideFiles(place)
    count = 0
    try:
        for found in open_rows(tables.root, asked, [*_RAW_OF.values(), *_kept_headers(asked)]):
            mine = found.filter(pc.is_in(identities(found), to_decode.combine_chunks()))
            for batch in as_raw(mine, asked.named).to_batches():
                count += batch.num_rows
                aside.add(batch)
    except BaseException:
        aside.abandon()
        raise
    names = aside.close()
    kept = rows.select(list(IDENTITY)).append_column("already", already)
    memory = pa.BufferOutputStream()
    pq.write_table(kept.cast(ROWS_SCHEMA), memory)
    place.put(ROWS, memory.getvalue())
    place.sync([ROWS, *names])
    had = rows.num_rows - already.null_count
    return Staged(tuple(names), count, had, left)


def rows_staged(place: Files) -> pa.Table:
    """The rows of quarantine that a replay is of."""
    return pq.read_table(pa.BufferReader(place.read(ROWS)))


def as_raw(rows: pa.Table, named: Named) -> pa.Table:
    """Rows of quarantine as workers are handed records."""
    own = {name: rows[of].cast(RAW_SCHEMA.field(name).type) for name, of in _RAW_OF.items()}
    own |= named.of(rows[KEPT]) if named.any else {}
    columns = [
        own[name] if name in own else pa.nulls(rows.num_rows, RAW_SCHEMA.field(name).type) for name in RAW
    ]
    return pa.table(columns, schema=RAW_SCHEMA)


def _kept_headers(asked: Asked) -> list[str]:
    return [KEPT] if asked.named.any else []


def _chosen_rows(root: Files, asked: Asked, book: RuleBook) -> tuple[pa.Table, Mapping[str, int]]:
    """The rows of records that can be decoded again, `first` of each place in Kafka or a twin of it; and how many stay, by the reason."""
    left: Counter[str] = Counter()
    whole = [pa.table({name: pa.array([], kind) for name, kind in _WANTED.items()})]
    seen: dict[Coordinates, Any] = {}
    for every in open_rows(root, asked, ["value", *_kept_headers(asked)]):
        rows = every.filter(pc.is_valid(every[KEPT])) if asked.named.any else every
        left[_NO_HEADERS] += every.num_rows - rows.num_rows
        lacks = pc.is_null(rows["value"]).combine_chunks()
        hidden = pc.and_not(_with_hidden_keys(rows, book), lacks)
        left[_NO_VALUE] += pc.sum(lacks).as_py() or 0
        left[_NO_KEY] += pc.sum(hidden).as_py() or 0
        known = rows.filter(pc.invert(pc.or_(lacks, hidden)))
        mine = known.filter(_is_read(known, asked.ends))
        left[_COMES_AGAIN] += known.num_rows - mine.num_rows
        met = [_met(seen, *one) for one in _places(mine)]
        left[_ANOTHER] += met.count(None)
        kept = mine.select([*IDENTITY, "kafka_ts"]).append_column("first", pa.array(met, pa.bool_()))
        whole.append(kept.filter(pc.is_valid(kept["first"])))
    return pa.concat_tables(whole), {why: count for why, count in left.items() if count}


_NO_VALUE = "without a value in quarantine, as its table's rule wants it or as tombstones are"
_NO_KEY = "whose key was not kept as it came, as its table's rule wants it"
_NO_HEADERS = "whose record headers, by which they are routed or of which columns are made, were not kept"
_COMES_AGAIN = "which the pipeline has yet to read again"
_ANOTHER = "of another record that had the same place in Kafka, as in a topic made anew"

_WANTED = {
    **{name: QUARANTINE_SCHEMA.field(name).type for name in (*IDENTITY, "kafka_ts")},
    "first": pa.bool_(),
}


def _places(rows: pa.Table) -> Iterator[tuple[Any, ...]]:
    return zip(*(comparable(rows[name]) for name in (*_PLACE, "kafka_ts")), strict=True)


def _met(seen: dict[Coordinates, Any], topic: str, partition: int, offset: int, at: Any) -> bool | None:
    """Whether a record is met for the first time: it may be in quarantine for two readings of its topic. None of another one in its place."""
    place = (topic, partition, offset)
    if place not in seen:
        seen[place] = at
        return True
    return False if seen[place] == at else None


def _is_read(rows: pa.Table, ends: Positions) -> pa.Array:
    """Which records the pipeline does not come to again, as after `start: again` it does; of topics that it does not read, all."""
    places = zip(*(rows[name].to_pylist() for name in _PLACE), strict=True)
    found = [topic not in ends or offset < ends[topic].get(number, 0) for topic, number, offset in places]
    return pa.array(found, pa.bool_())


def _with_hidden_keys(rows: pa.Table, book: RuleBook) -> pa.Array:
    """Of which records the key is not there as it came: by a hash of it nobody finds the row that it names."""
    none = pa.repeat(pa.scalar(False), rows.num_rows)
    if not book.reshapes:
        return none
    entities = rows["entity"].to_pylist()
    hides = {one: any(rule.key != "keep" for rule in book.in_quarantine(one)) for one in set(entities)}
    return pa.array([hides[one] for one in entities], pa.bool_())


def _already(tables: Tables, rows: pa.Table) -> list[str | None]:
    """The table that has each record's row; None where none has: by its place in Kafka and its time there."""
    found: list[str | None] = [None] * rows.num_rows
    numbers: dict[tuple[Any, ...], list[int]] = {}
    for number, place in enumerate(_places(rows)):
        numbers.setdefault(place, []).append(number)
    if not numbers:
        return found
    offsets = np.sort(rows["kafka_offset"].to_numpy())
    names = tables.columns
    told = (names.kafka_topic, names.kafka_partition, names.kafka_offset, names.kafka_ts)
    columns = pa.schema(
        [
            (name, QUARANTINE_SCHEMA.field(own).type)
            for name, own in zip(told, (*_PLACE, "kafka_ts"), strict=True)
        ]
    )
    for folder in tables.folders:
        for part in rows_of(tables.root.below(folder), columns, _may_have(offsets, names.kafka_offset)):
            near = part.filter(pc.is_in(part[names.kafka_offset], pa.array(offsets)))
            for place in zip(*(comparable(near[name]) for name in told), strict=True):
                for number in numbers.get(place, ()):
                    found[number] = folder
    return found


def _may_have(offsets: np.ndarray[Any, Any], name: str) -> Callable[[Mapping[str, Any]], bool]:
    """Whether a file may have one of these offsets, by what its table's log tells of it."""

    def may(told: Mapping[str, Any]) -> bool:
        low, high = told.get("minValues", {}).get(name), told.get("maxValues", {}).get(name)
        if low is None or high is None:
            return True
        return bool(np.searchsorted(offsets, low, "left") < np.searchsorted(offsets, high, "right"))

    return may
