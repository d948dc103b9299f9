"""What is in quarantine, counted, and single records of it."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from datetime import datetime, timedelta, timezone
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from distributary.ingest.columns.safe_names import RESOLVED_TABLE
from distributary.ingest.merge.columns import at_places
from distributary.ingest.quarantine.chosen import Chosen, named_schema
from distributary.ingest.quarantine.resolved import IDENTITY, RESOLVED_SCHEMA
from distributary.ingest.quarantine.rows import identities, of_quarantine, rows_of
from distributary.ingest.quarantine.whose import whose_are
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import tables_at

_GROUPED = ("reason", "schema", "kafka_topic")

_SHOWN = ("header_schema_id", "detail")

_BYTES = ("kafka_key", "value")

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)

Moment: TypeAlias = datetime | int


def moment(micros: int | None) -> Moment | None:
    """A time, given in microseconds since 1970 in UTC; the same number where Python has no such year, as when a producer counts in another unit."""
    if micros is None:
        return None
    try:
        return _EPOCH + timedelta(microseconds=micros)
    except OverflowError:
        return micros


def _micros(at: Moment) -> int:
    return at if isinstance(at, int) else (at - _EPOCH) // timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Group:
    """Records in quarantine that are there for the same reason, name the same schema and are from the same topic.

    schema    its id or GUID; None where they name none that could be read
    open      how many were not brought back
    resolved  how many were, or need not be any more
    first     the earliest time in Kafka of any of them, as `moment` gives it; None where none has one
    last      the latest
    """

    reason: str
    schema: str | None
    topic: str
    open: int
    resolved: int
    first: Moment | None
    last: Moment | None

    def and_(self, other: Group) -> Group:
        """Both together."""
        times = [at for at in (self.first, self.last, other.first, other.last) if at is not None]
        return Group(
            self.reason,
            self.schema,
            self.topic,
            self.open + other.open,
            self.resolved + other.resolved,
            min(times, key=_micros, default=None),
            max(times, key=_micros, default=None),
        )


@dataclass(frozen=True, slots=True)
class Contents:
    """What a pipeline has in quarantine, as far as it was chosen; the largest groups first."""

    pipeline: str
    groups: tuple[Group, ...] = ()

    @property
    def open(self) -> int:
        """How many records were not brought back."""
        return sum(one.open for one in self.groups)

    @property
    def resolved(self) -> int:
        """How many were, or need not be any more."""
        return sum(one.resolved for one in self.groups)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values."""
        groups = [{**asdict(one), "first": _text(one.first), "last": _text(one.last)} for one in self.groups]
        return {
            "pipeline": self.pipeline,
            "open": self.open,
            "resolved": self.resolved,
            "groups": groups,
        }


def contents(settings: Settings, chosen: Chosen | None = None) -> Contents:
    """What a pipeline has in quarantine; runs may go on meanwhile. Raises PipelineError where that cannot be read."""
    root = tables_at(settings.sink.root, settings.storage)
    found: dict[tuple[Any, ...], Group] = {}
    for rows in of_quarantine(root, whose_are(settings, root)):
        for group in _groups(rows.filter((chosen or Chosen()).of(rows))):
            key = (group.reason, group.schema, group.topic)
            found[key] = found[key].and_(group) if key in found else group
    return Contents(settings.name, tuple(sorted(found.values(), key=_order)))


def _order(one: Group) -> tuple[int, int, str, str, int, str]:
    # Ids by their number: by their letters 10 comes before 9.
    schema = one.schema or ""
    return -one.open, -one.resolved, one.reason, one.topic, len(schema), schema


def _groups(rows: pa.Table) -> Iterator[Group]:
    columns = {
        "reason": rows["reason"],
        "schema": named_schema(rows),
        "kafka_topic": rows["kafka_topic"],
        "kafka_ts": rows["kafka_ts"].cast(pa.int64()),
        "resolved": rows["resolved"].cast(pa.int64()),
    }
    wanted = [("kafka_ts", "min"), ("kafka_ts", "max"), ("resolved", "sum"), ("resolved", "count")]
    for one in pa.table(columns).group_by(list(_GROUPED)).aggregate(wanted).to_pylist():
        resolved = one["resolved_sum"]
        yield Group(
            one["reason"],
            one["schema"],
            one["kafka_topic"],
            one["resolved_count"] - resolved,
            resolved,
            moment(one["kafka_ts_min"]),
            moment(one["kafka_ts_max"]),
        )


@dataclass(frozen=True, slots=True)
class Record:
    """One record in quarantine.

    told      its columns but for key and value, times as they are, and how many bytes those have
    resolved  what became of it since; None where it is still open
    payload   key and value, where they were asked for
    """

    told: dict[str, Any]
    resolved: dict[str, Any] | None = None
    payload: dict[str, bytes | None] | None = field(default=None, repr=False)

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON values, bytes in base64."""
        bytes_of = self.payload or {}
        return {
            **{name: _plain(value) for name, value in self.told.items()},
            "resolved": self.resolved and {name: _plain(value) for name, value in self.resolved.items()},
            **{name: _plain(value) for name, value in bytes_of.items()},
        }


@dataclass(frozen=True, slots=True)
class Found:
    """The first records of those that were chosen, in Kafka's order, and how many were in all."""

    records: tuple[Record, ...]
    total: int


def records(settings: Settings, chosen: Chosen, most: int = 1, *, payload: bool = False) -> Found:
    """Single records in quarantine; their keys and values only where `payload` asks for them. Raises PipelineError where it cannot be read."""
    root = tables_at(settings.sink.root, settings.storage)
    order = [(name, "ascending") for name in IDENTITY[2:]]
    total, first = 0, None
    for rows in of_quarantine(root, whose_are(settings, root), [*_SHOWN, *_BYTES]):
        mine = rows.filter(chosen.of(rows))
        total += mine.num_rows
        known = mine if first is None else pa.concat_tables([first, mine])
        # Values may be large, and only the first ones are shown.
        first = _first(known, most, order) if known.num_rows > most else known
    if first is None:
        return Found((), 0)
    shown = first.sort_by(order)
    became = _became(root, shown)
    names = identities(shown).to_pylist()
    place = shown.schema.get_field_index("kafka_ts")
    rows = shown.set_column(place, "kafka_ts", shown["kafka_ts"].cast(pa.int64())).to_pylist()
    found = [_record(row, became.get(name), payload) for row, name in zip(rows, names, strict=True)]
    return Found(tuple(found), total)


def _first(rows: pa.Table, most: int, order: Sequence[tuple[str, str]]) -> pa.Table:
    """So many of the rows that come first, in no order."""
    return at_places(rows, np.sort(pc.select_k_unstable(rows, most, order).to_numpy()))


def _record(row: dict[str, Any], became: dict[str, Any] | None, payload: bool) -> Record:
    lengths = {f"{name}_bytes": None if row[name] is None else len(row[name]) for name in _BYTES}
    told = {name: value for name, value in row.items() if name not in (*_BYTES, "resolved")}
    told["kafka_ts"] = moment(told["kafka_ts"])
    return Record({**told, **lengths}, became, {name: row[name] for name in _BYTES} if payload else None)


def _became(root: Files, shown: pa.Table) -> dict[str, dict[str, Any]]:
    """What became of those of these records that were brought back."""
    wanted, found = identities(shown), dict[str, dict[str, Any]]()
    for rows in rows_of(root.below(RESOLVED_TABLE), RESOLVED_SCHEMA):
        mine = rows.filter(pc.is_in(identities(rows), wanted.combine_chunks()))
        told = mine.select(["replay", "at", "outcome", "table"]).to_pylist()
        found.update(zip(identities(mine).to_pylist(), told, strict=True))
    return found


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return _text(value) if isinstance(value, datetime) else value


def _text(at: Moment | None) -> str | int | None:
    return at.astimezone(timezone.utc).isoformat() if isinstance(at, datetime) else at
