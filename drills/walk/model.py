"""What a pipeline's tables are to hold, recomputed from all that was sent by plain Python: no code of the pipeline's is used here."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

Place = tuple[str, int, int]
"""Topic, partition and offset."""

Row = dict[str, Any]

Where = Literal["unread", "table", "quarantine", "nowhere", "gone"]

# By how an entity's name begins.
APPENDED, UPSERTED, TOLD = "log", "now", "was"

ENTITIES = ("log", "now", "was", "log_b", "now_b", "was_b")


@dataclass
class Record:
    """A record that was sent.

    body   its fields; None for a tombstone, and for bytes that nobody can decode
    bad    whether nobody can decode it
    where  what became of it
    """

    place: Place
    key: str | None
    value: bytes | None
    body: Row | None
    bad: bool = False
    where: Where = "unread"

    @property
    def entity(self) -> str | None:
        """Whose table it is for."""
        return None if self.body is None else self.body["game"]

    @property
    def order(self) -> tuple[datetime, Place]:
        """Which of two records of a key is the later one."""
        assert self.body is not None
        return self.body["at"], self.place

    @property
    def deletes(self) -> bool:
        """Whether it takes its key's row away."""
        return self.body is not None and self.body["op"] == "d" and not str(self.entity).startswith(APPENDED)


@dataclass
class Model:
    """All records that were sent, and what became of each.

    limit  the score that a record's has to be below, or it waits in quarantine; None: any will do
    known  places of records that may be in quarantine besides: of a reading of before, which nobody brings back
    """

    records: list[Record] = field(default_factory=list)
    limit: int | None = None
    known: set[Place] = field(default_factory=set)

    # What becomes of records

    def wants(self, record: Record) -> Where:
        """Where a record belongs that is decoded now."""
        if record.body is None:
            return "quarantine" if record.bad else "nowhere"
        entity, body = record.entity, record.body
        if entity is None:
            return "quarantine"
        if not entity.startswith(APPENDED) and (body["who"] is None or body["at"] is None):
            return "quarantine"
        if self.limit is not None and body["score"] >= self.limit and not record.deletes:
            return "quarantine"
        return "table"

    def _decided(self, records: Iterable[Record]) -> None:
        for record in records:
            record.where = self.wants(record)

    def read(self, left_out: str = "") -> None:
        """All that was sent was read, but for that of a topic whose name ends so."""
        unread = self.of("unread")
        self._decided(one for one in unread if not left_out or not one.place[0].endswith(left_out))

    def made_again(self) -> None:
        """The tables of entities were made again of all that is kept as it came."""
        self._decided(record for record in self.records if record.where not in ("unread", "gone"))

    def brought_back(self) -> None:
        """What waits in quarantine was decoded again."""
        self._decided(self.of("quarantine"))

    def replayed(self) -> None:
        """Each record that no table has was decoded again."""
        there = {place for entity in ENTITIES for place in self.places_of(entity)}
        self._decided(one for one in self.records if self._is_tried(one) and one.place not in there)

    def _is_tried(self, record: Record) -> bool:
        # What remembers the records of a table that keeps what was says of each that it is there.
        told = record.where == "table" and str(record.entity).startswith(TOLD)
        return record.where not in ("unread", "gone") and not told

    def replaced(self, entities: Iterable[str]) -> None:
        """Each record of these entities was decoded again; one that has a row and is refused now keeps it."""
        for record in self.records:
            if record.where in ("table", "quarantine") and (record.entity or "") in entities:
                record.where = "table" if record.where == "table" else self.wants(record)

    def erased(self, key: str) -> None:
        """Whatever was read of a key is nowhere, as if it had never come."""
        for record in self.records:
            if record.key == key and record.where != "unread":
                record.where = "gone"

    def begun_again(self) -> None:
        """Everything is to be read once more, into other tables."""
        self.known |= {record.place for record in self.of("quarantine")}
        for record in self.records:
            record.where = "unread"

    def made_anew(self, topic: str) -> None:
        """A topic has none of the records that were sent to it; what waits of them in quarantine nobody brings back."""
        self.known |= {record.place for record in self.of("quarantine")}
        self.records = [record for record in self.records if record.place[0] != topic]

    # What is to be there

    def of(self, *where: Where) -> list[Record]:
        """The records of which this became."""
        return [record for record in self.records if record.where in where]

    def kept(self) -> dict[Place, bytes | None]:
        """What is kept as it came."""
        return {
            record.place: record.value for record in self.records if record.where not in ("unread", "gone")
        }

    def rows(self, entity: str) -> list[Row]:
        """The rows of an entity's table, each with its record's place under an empty name."""
        return list(self._rows(entity))

    def places_of(self, entity: str) -> set[Place]:
        """The places of the records that have a row there."""
        return {row[""] for row in self._rows(entity)}

    def _rows(self, entity: str) -> Iterator[Row]:
        records = [record for record in self.of("table") if record.entity == entity]
        if entity.startswith(APPENDED):
            yield from (_row(record) for record in records)
            return
        by_key: dict[Any, list[Record]] = {}
        for record in sorted(records, key=lambda one: one.order):
            assert record.body is not None
            by_key.setdefault(record.body["who"], []).append(record)
        make = _newest if entity.startswith(UPSERTED) else _spans
        for same in by_key.values():
            yield from make(same)

    def snapshot(self) -> Model:
        """The same as it is now, whatever becomes of the records later."""
        return replace(self, records=[replace(one) for one in self.records], known=set(self.known))

    def put_back(self, before: Model) -> None:
        """What became of the records is as it was; those that were sent since are to be read."""
        then = {record.place: record.where for record in before.records}
        for record in self.records:
            record.where = then.get(record.place, "unread")
        self.limit, self.known = before.limit, set(before.known)


def _row(record: Record, **more: Any) -> Row:
    assert record.body is not None
    return {**record.body, **more, "": record.place}


def _newest(records: list[Record]) -> Iterator[Row]:
    if not records[-1].deletes:
        yield _row(records[-1])


def _spans(records: list[Record]) -> Iterator[Row]:
    """Of records in their order a row for all the time that the same was true."""
    last = list({record.order[0]: record for record in records}.values())
    open_, since = None, None
    for record in last:
        says = None if record.deletes else _says(record)
        if says == since:
            continue
        moment = record.order[0]
        if open_ is not None:
            yield _row(open_, valid_from=open_.order[0], valid_to=moment, is_current=False)
        open_, since = (None if record.deletes else record), says
    if open_ is not None:
        yield _row(open_, valid_from=open_.order[0], valid_to=None, is_current=True)


_NO_HISTORY = ("op", "uid", "at", "who")


def _says(record: Record) -> tuple[tuple[str, Any], ...]:
    assert record.body is not None
    told = ((name, value) for name, value in record.body.items() if name not in _NO_HISTORY)
    return tuple(sorted((name, value) for name, value in told if value is not None))
