"""Writer's schema to reader's: the steps of Avro's schema resolution, found once for all records of a pair of schemas.

https://avro.apache.org/docs/1.12.0/specification/#schema-resolution. docs/reference/avro.md says where the specification leaves a
choice, and where values are kept right that it would let be misread.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa

from distributary.codecs.avro.decode.exact import ExactDecoder
from distributary.codecs.avro.resolution.defaults import default_bytes
from distributary.codecs.avro.resolution.json_text import json_resolved
from distributary.codecs.avro.resolution.matching import branch_for, leaf_step, matches, same
from distributary.codecs.avro.resolution.steps import (
    Branches,
    Elements,
    Fields,
    Into,
    Keep,
    Nulls,
    Present,
    Source,
    Step,
    Symbols,
    Unreadable,
    named,
)
from distributary.codecs.avro.types.columns import (
    Column,
    Columns,
    JsonPair,
    Shape,
    columns_of,
    inner,
    is_recursive,
    leaf,
    list_column,
    map_column,
    members_column,
    only_column,
    optional_column,
    struct_of,
)
from distributary.codecs.avro.types.schema import AvroType, Extras, Kind
from distributary.codecs.broken_payloads import Undecodable
from distributary.errors import BadSchema


def resolve(writer: AvroType, target: Column) -> Step:
    """How values of the writer's type become the column `target`, which is of the reader's.

    Raises BadSchema, naming the place, where no value of the one could be one of the other.
    """
    name = target.avro.name or target.avro.kind.value
    try:
        return _SchemaPair(name).step(writer, target, name, 1)
    except Unreadable as error:
        raise BadSchema(f"the writer's schema cannot be read as the reader's: {error}") from None


class _SchemaPair:
    """Finds the steps for one pair of schemas, counting fields as the columns themselves are counted."""

    def __init__(self, name: str) -> None:
        self.columns = Columns(name)
        self.pairs: dict[tuple[int, int], JsonPair] = {}

    def step(self, writer: AvroType, target: Column, place: str, depth: int) -> Step:
        self.columns.count(depth)
        reader = target.avro
        if same(writer, reader):
            return Keep(target, target)
        if writer.kind is Kind.UNION:
            return self.from_union(writer, target, place, depth)
        if reader.kind is Kind.UNION:
            return self.into_union(writer, target, place, depth)
        # Where there is nothing to choose, a record's own name does not matter, as in Avro's Java library.
        if not matches(writer, reader) and not writer.kind is reader.kind is Kind.RECORD:
            raise Unreadable(place, f"{named(writer)} is no {named(reader)}")
        made = self._nested.get(reader.kind)
        return made(self, writer, target, place, depth) if made else leaf_step(writer, target, place)

    def from_union(self, writer: AvroType, target: Column, place: str, depth: int) -> Step:
        """Each branch by itself: one that cannot be read spoils the records that are of it, and no others."""
        branches = [self.branch(part, target, place, depth + 1) for part in writer.parts]
        readable = [branch for branch in branches if isinstance(branch, Step)]
        if not readable:
            raise Unreadable(place, f"no branch of the writer's union is {named(target.avro)}")
        views = tuple(
            branch.column if isinstance(branch, Step) else self.columns.column(part, depth + 1)
            for part, branch in zip(writer.parts, branches, strict=True)
        )
        wide = sum(not view.is_null for view in views) > 1
        column = (members_column if wide else optional_column)(writer, views)
        kept = not wide and all(isinstance(branch, Keep | Nulls) for branch in branches)
        if kept and column.type.equals(target.type):
            return Keep(column, target)
        return Branches(column, target, tuple(branches))

    def branch(self, writer: AvroType, target: Column, place: str, depth: int) -> Step | str:
        try:
            return self.step(writer, target, place, depth)
        except Unreadable as error:
            return str(error)

    def into_union(self, writer: AvroType, target: Column, place: str, depth: int) -> Step:
        number = branch_for(writer, target.avro.parts)
        if number is None:
            raise Unreadable(place, f"no branch of the reader's union takes {named(writer)}")
        chosen = target.children[number]
        if chosen.is_null:
            return Nulls(chosen, target)
        step = self.step(writer, chosen, place, depth + 1)
        if target.shape is Shape.OPTIONAL:
            return step
        return Into(step.column, target, step, target.names[number] if target.shape is Shape.MEMBERS else "")

    def record(self, writer: AvroType, target: Column, place: str, depth: int) -> Step:
        if target.shape is Shape.JSON:
            pair = self.pair(writer, target.avro, place, depth)
            # What can contain itself has to say, in a byte at least, that it does not.
            smallest = 1 if is_recursive(writer) else pair.source.smallest
            return Keep(Column(Shape.JSON, pa.string(), writer, smallest=smallest, pair=pair), target)
        found = _fields_of(writer, target.avro)
        known = dict(zip(target.names, target.children, strict=True))
        parts = zip(target.avro.names, target.avro.parts, target.avro.extras, strict=True)
        steps: list[tuple[int | None, Step, bytes]] = []
        for name, part, extras in parts:
            at, child, where = found.get(name), known.get(name) or leaf(part), f"{place}.{name}"
            if at is None:
                steps.append((None, Keep(child, child), _default(part, extras, child, where)))
            else:
                steps.append((at, self.step(writer.parts[at], child, where, depth + 1), b""))
        struct, numbers = self.struct(writer, {at: step for at, step, _ in steps if at is not None}, depth)
        if target.shape is Shape.EMPTY:
            return Present(inner(struct), target)
        sources = [
            Source(None if at is None else numbers.get(at), step, default) for at, step, default in steps
        ]
        return _fields_step(inner(struct), target, tuple(sources))

    def pair(self, writer: AvroType, reader: AvroType, place: str, depth: int) -> JsonPair:
        """How the one is read as the other within JSON text; found once, however often they contain each other."""
        key = (id(writer), id(reader))
        if key in self.pairs:
            return self.pairs[key]
        before = dict(self.pairs)
        pair = self.pairs[key] = JsonPair()
        try:
            step = self.record(writer, columns_of(reader), place, depth)
            pair.source, pair.convert = step.column, json_resolved(step)
        except Unreadable:
            # Pairs that were found in between may hold this one, which will never be whole.
            self.pairs = before
            raise
        return pair

    def struct(
        self, writer: AvroType, steps: Mapping[int, Step], depth: int
    ) -> tuple[Column, dict[int, int]]:
        """The writer's record as its steps want it, and the place in it of each field that is more than null."""
        views = [
            steps[at].column if at in steps else self.columns.column(part, depth + 1)
            for at, part in enumerate(writer.parts)
        ]
        kept = [at for at, view in enumerate(views) if not view.is_null]
        struct = struct_of(writer, tuple(writer.names[at] for at in kept), tuple(views[at] for at in kept))
        return struct, {at: number for number, at in enumerate(kept)}

    def array(self, writer: AvroType, target: Column, place: str, depth: int) -> Step:
        one = self.step(writer.parts[0], target.children[0], f"{place}.element", depth + 1)
        return _around(list_column(writer, one.column), target, one)

    def map_of(self, writer: AvroType, target: Column, place: str, depth: int) -> Step:
        one = self.step(writer.parts[0], target.children[0], f"{place}.value", depth + 1)
        return _around(map_column(writer, one.column), target, one)

    def enum(self, writer: AvroType, target: Column, place: str, _depth: int) -> Step:
        reader = target.avro
        symbols = tuple(name if name in reader.names else reader.default for name in writer.names)
        if symbols == writer.names:
            return Keep(leaf(writer), target)
        if not any(symbols):
            raise Unreadable(place, f"{named(reader)} has none of the writer's symbols")
        return Symbols(leaf(writer), target, symbols)

    _nested: Mapping[Kind, Callable[[_SchemaPair, AvroType, Column, str, int], Step]] = {
        Kind.RECORD: record,
        Kind.ARRAY: array,
        Kind.MAP: map_of,
        Kind.ENUM: enum,
    }


def _fields_of(writer: AvroType, reader: AvroType) -> dict[str, int]:
    """Which of the writer's fields each of the reader's is: the one of its name, or that of its first alias nobody else has."""
    written = {name: at for at, name in enumerate(writer.names)}
    found = {name: written.pop(name) for name in reader.names if name in written}
    for name, extras in zip(reader.names, reader.extras, strict=True):
        alias = next((alias for alias in extras.aliases if alias in written), None)
        if name not in found and alias is not None:
            found[name] = written.pop(alias)
    return found


def _default(part: AvroType, extras: Extras, column: Column, place: str) -> bytes:
    if not extras.has_default:
        raise Unreadable(place, "the writer has no such field, and the reader no default for it")
    try:
        raw = default_bytes(part, extras.default)
        ExactDecoder(only_column(column)).row(raw)
    except BadSchema as error:
        raise BadSchema(f"{place}: {error}") from None
    except Undecodable as error:
        raise BadSchema(f"{place}: the default cannot be its column's value: {error.detail}") from None
    return raw


def _fields_step(column: Column, target: Column, sources: tuple[Source, ...]) -> Step:
    in_order = [source.number for source in sources if not source.step.target.is_null] == list(
        range(len(column.children))
    )
    kept = in_order and all(isinstance(source.step, Keep) for source in sources)
    if kept and column.type.equals(target.type):
        return Keep(column, target)
    return Fields(column, target, sources)


def _around(column: Column, target: Column, one: Step) -> Step:
    return Keep(column, target) if isinstance(one, Keep) else Elements(column, target, one)
