"""The tables of a walk held against its model: what differs, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from drills.walk.model import APPENDED, ENTITIES, Model, Row
from drills.walk.pipeline import AGGREGATE, Walk, place_of

from distributary.ingest.tables.log import has_log
from distributary.producer_sim.verify.comparison import verify

_MOST_TOLD = 3


def differences(walk: Walk) -> list[str]:
    """What is not as the model says; nothing is said of tables amid what a run or a command has left."""
    found = list(_of_tables_left(walk))
    if not walk.state.is_settled:
        return found
    for entity in ENTITIES:
        found += of_rows(walk, entity)
    found += _of_quarantine(walk)
    found += _of_bronze(walk)
    if walk.state.current:
        for entity in ENTITIES:
            found += _of_aggregate(walk, entity)
    # What was read once more is there twice to it, wherever that went.
    told = () if walk.said.number else verify(walk.kit.settings).differences
    return [*found, *map(str, told)]


def of_rows(walk: Walk, entity: str) -> Iterator[str]:
    """What of an entity's table is not as the model says."""
    wanted = Counter(_told(row, row[""]) for row in walk.model.rows(entity))
    held = Counter(_told(_own(row), place_of(row)) for row in walk.rows(walk.table_of(entity)))
    yield from _compared(f"table {walk.table_of(entity)}", wanted, held)


def read_twice(walk: Walk, before: Model, had: Mapping[str, list[Row]]) -> Iterator[str]:
    """What is not as it should be where everything was read once more into the tables that were there, with these rows, when the model was like that."""
    both = walk.model.snapshot()
    for record, then in zip(both.records, before.records, strict=True):
        record.where = "table" if then.where == "table" else record.where
    for entity in ENTITIES:
        folder = walk.table_of(entity)
        held = walk.rows(folder)
        if entity.startswith(APPENDED):
            rows = [*(_told(_own(row), place_of(row)) for row in had[entity])]
            wanted = Counter(rows) + Counter(_told(row, row[""]) for row in walk.model.rows(entity))
        else:
            wanted = Counter(_told(row, row[""]) for row in both.rows(entity))
        yield from _compared(
            f"table {folder}", wanted, Counter(_told(_own(row), place_of(row)) for row in held)
        )
        yield from _as_grouped(walk, entity, [_own(row) for row in held])
    yield from _of_quarantine(walk)


def _own(row: Row) -> Row:
    return {
        name: value
        for name, value in row.items()
        if not name.startswith("kafka_") and name not in ("schema_id", "ingested_at")
    }


def _told(row: Mapping[str, Any], place: Any) -> tuple[Any, ...]:
    """A row as a thing that can be counted; a null says as much as no column."""
    said = sorted((name, _moment(value)) for name, value in row.items() if name and value is not None)
    return place, tuple(said)


def _moment(value: Any) -> Any:
    return value.timestamp() if hasattr(value, "timestamp") else value


def _of_quarantine(walk: Walk) -> Iterator[str]:
    wanted = Counter(record.place for record in walk.model.of("quarantine"))
    held = walk.waiting()
    for place in walk.model.known:
        held[place] = wanted[place]
    yield from _compared("quarantine", wanted, held)


def _of_bronze(walk: Walk) -> Iterator[str]:
    wanted = Counter(walk.model.kept().items())
    rows = walk.rows(f"bronze{walk.said.number}")
    yield from _compared("bronze", wanted, Counter((place_of(row), row["value"]) for row in rows))


def _of_aggregate(walk: Walk, entity: str) -> Iterator[str]:
    # Of an entity that has no table what was derived before stays.
    if has_log(walk.kit.lake.root.below(walk.table_of(entity))):
        yield from _as_grouped(walk, entity, walk.model.rows(entity))


def _as_grouped(walk: Walk, entity: str, every: list[Row]) -> Iterator[str]:
    groups: dict[Any, list[Row]] = {}
    for row in every:
        groups.setdefault(row["who"], []).append(row)
    wanted = Counter(
        (who, len(rows), sum(row["score"] for row in rows), max(row["uid"] for row in rows))
        for who, rows in groups.items()
    )
    held = Counter((row["who"], *(row[name] for name in AGGREGATE)) for row in walk.rows(f"gold_{entity}"))
    yield from _compared(f"table gold_{entity}", wanted, held)


def _of_tables_left(walk: Walk) -> Iterator[str]:
    for folder, rows in walk.state.left.items():
        wanted = Counter(_told(row, place_of(row)) for row in rows)
        held = Counter(_told(row, place_of(row)) for row in walk.rows(folder))
        yield from _compared(f"table {folder}, which is left as it was", wanted, held)


def _compared(where: str, wanted: Counter[Any], held: Counter[Any]) -> Iterator[str]:
    if lacking := wanted - held:
        yield f"{where} lacks {lacking.total()}: {_some(lacking)}"
    if surplus := held - wanted:
        yield f"{where} has {surplus.total()} too many: {_some(surplus)}"


def _some(found: Counter[Any]) -> str:
    return "; ".join(map(repr, sorted(found, key=repr)[:_MOST_TOLD]))
