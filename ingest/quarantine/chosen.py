"""Which records of a quarantine are meant: by why they are there, what they are of, and when and where they came."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

LOOKED_AT = (
    "kafka_topic",
    "kafka_partition",
    "kafka_offset",
    "kafka_ts",
    "schema_id",
    "schema_guid",
    "reason",
    "entity",
)
"""The columns by which records are chosen."""


@dataclass(frozen=True, slots=True)
class Chosen:
    """Records that meet all that is said; what is empty, or None, says nothing.

    reasons   codes such as `unknown_schema`
    entities  as far as a record's was known
    schemas   ids or GUIDs that records name, as text
    topics    that they are from
    since     their times in Kafka: from then on
    until     before then
    place     partition and offset of one record; None of a part leaves that open
    offsets   the first one, and the first behind; None of a part leaves that open
    """

    reasons: tuple[str, ...] = ()
    entities: tuple[str, ...] = ()
    schemas: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None
    place: tuple[int | None, int | None] = (None, None)
    offsets: tuple[int | None, int | None] = (None, None)

    @property
    def is_all(self) -> bool:
        """Whether it leaves out nothing."""
        return self == Chosen()

    def of(self, rows: pa.Table) -> pa.ChunkedArray | pa.Array:
        """For which of some rows it is true, which have the columns of `LOOKED_AT`."""
        found = self.standing(rows)
        for name, values in (("reason", self.reasons), ("entity", self.entities)):
            found = pc.and_(found, _is_one_of(rows, name, values))
        if self.schemas:
            found = pc.and_(found, pc.is_in(named_schema(rows), pa.array(self.schemas, pa.string())))
        return pc.fill_null(found, False)

    def standing(self, rows: pa.Table) -> pa.ChunkedArray | pa.Array:
        """Which of some rows stand where it says, and came when it says, whatever they are of."""
        partition, offset = self.place
        found = pa.repeat(pa.scalar(True), rows.num_rows)
        for name, values in (
            ("kafka_topic", self.topics),
            ("kafka_partition", _wanted(partition)),
            ("kafka_offset", _wanted(offset)),
        ):
            found = pc.and_(found, _is_one_of(rows, name, values))
        first, behind = self.offsets
        for name, bound, compared in (
            ("kafka_offset", first, pc.greater_equal),
            ("kafka_offset", behind, pc.less),
            ("kafka_ts", self.since, pc.greater_equal),
            ("kafka_ts", self.until, pc.less),
        ):
            if bound is not None:
                found = pc.and_(found, compared(rows[name], pa.scalar(bound, rows.schema.field(name).type)))
        # Of a record whose time no column holds nobody can say whether it is one of a time.
        return pc.fill_null(found, False)

    def as_dict(self) -> dict[str, Any]:
        """What is said, as JSON values."""
        told = asdict(self)
        for name in ("place", "offsets"):
            told[name] = None if told[name] == (None, None) else list(told[name])
        return {
            name: value.isoformat() if isinstance(value, datetime) else value
            for name, value in told.items()
            if value
        }

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> Chosen:
        """What `as_dict` gave. Raises ValueError or TypeError for anything else."""
        told: dict[str, Any] = {
            name: tuple(one) if isinstance(one, list) else one for name, one in value.items()
        }
        for name in ("since", "until"):
            if name in told:
                told[name] = datetime.fromisoformat(told[name])
        return cls(**told)


def named_schema(rows: pa.Table) -> pa.ChunkedArray:
    """The schema that each record names, as text; null where it names none that could be read."""
    return pc.coalesce(rows["schema_guid"], rows["schema_id"].cast(pa.string()))


def _wanted(number: int | None) -> Sequence[int]:
    return () if number is None else (number,)


def _is_one_of(rows: pa.Table, name: str, values: Sequence[Any]) -> Any:
    if not values:
        return pa.scalar(True)
    return pc.is_in(rows[name], pa.array(values, rows.schema.field(name).type))
