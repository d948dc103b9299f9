"""Records of one schema as a rule of tables has them: their columns, and their values in those."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.types as kinds

from distributary.codecs.types.fields import part, parts
from distributary.codecs.types.fit import is_list
from distributary.codecs.types.masks import Rows
from distributary.codecs.types.row_shape import empty_rows
from distributary.codecs.types.spark_struct import type_name
from distributary.codecs.types.walk import children, rebuilt
from distributary.ingest.columns.safe_names import fold
from distributary.ingest.reshaping.casts import castable, type_of, unit_of
from distributary.ingest.reshaping.days import Day, day_of
from distributary.ingest.reshaping.nodes import Cast, Hidden, Inside, Keep, Kept, Node, Struct, applied
from distributary.ingest.reshaping.rule import HIDING, Added, Path, Reshape
from distributary.ingest.reshaping.spot import Spot

# What a record's time in Kafka says, by the number that Kafka's own clients have for it.
TIMESTAMP_TYPES = {0: "create_time", 1: "log_append_time"}

_TYPES = {"bigint": pa.int64(), "double": pa.float64(), "boolean": pa.bool_(), "day": pa.date32()}

_NONE: Rows = np.empty(0, np.int64)


class Unshapeable(Exception):
    """A schema cannot be what the rule says; its records land nowhere."""


@dataclass(frozen=True, slots=True)
class Reshaped:
    """Rows as the rule has them, and (row, why) of those that have a value which is not what it is to become, each once, ascending."""

    rows: pa.RecordBatch
    refused: tuple[tuple[int, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """How records of one schema become what the rule says; made by `shape_of`, used in the workers.

    days  by the names of added columns the fields whose days they have; None of one that these records lack
    """

    columns: pa.Schema
    fields: tuple[Kept, ...]
    added: tuple[Added, ...]
    days: Mapping[str, Day | None]

    def apply(self, rows: pa.RecordBatch, kafka: pa.RecordBatch, headers: Sequence[str]) -> Reshaped:
        """The rows so.

        kafka    the same records as Kafka has them
        headers  the record headers whose values are in its column `headers`, in their order
        """
        made, bad = applied(self.fields, rows.columns)
        for one in self.added:
            values, wrong = self._added(one, rows, kafka, headers)
            made.append(values)
            bad += [(wrong, f"field {one.value} has a value that says no day")] if len(wrong) else []
        first: dict[int, str] = {}
        for found, why in bad:
            for row in found.tolist():
                first.setdefault(row, why)
        whole = (
            pa.RecordBatch.from_arrays(made, schema=self.columns)
            if made
            else empty_rows(self.columns, rows.num_rows)
        )
        return Reshaped(whole, tuple(sorted(first.items())))

    def _added(
        self, one: Added, rows: pa.RecordBatch, kafka: pa.RecordBatch, headers: Sequence[str]
    ) -> tuple[pa.Array, Rows]:
        """A column that no field is for, and the rows in which it cannot be."""
        if one.source != "day":
            return _added(one, kafka, headers), _NONE
        day = self.days[one.name]
        return (pa.nulls(rows.num_rows, pa.date32()), _NONE) if day is None else day.of(rows.columns)


def shape_of(rule: Reshape, record: pa.Schema) -> Shape:
    """How records with these columns become what the rule says. Raises Unshapeable where they cannot."""
    spot = Spot.top(rule)
    fields = tuple(_Walk(rule).fields(list(record), spot, ""))
    taken = {fold(one.name): one.name for one in fields}
    for added in rule.added:
        if fold(added.name) in taken:
            raise Unshapeable(
                f"a column {added.name} is to be added, and there is a field {taken[fold(added.name)]}"
            )
    columns = pa.schema(
        [*(one.field for one in fields), *(pa.field(one.name, _type(one)) for one in rule.added)]
    )
    days = {one.name: _day(rule, one, record) for one in rule.added if one.source == "day"}
    return Shape(columns, fields, rule.added, days)


def _day(rule: Reshape, added: Added, record: pa.Schema) -> Day | None:
    path = parts(added.value)
    found = day_of(rule, path, record)
    if found is None and _leads_to(record, path):
        raise Unshapeable(f"field {added.value} says no day, which {added.name} is to be of")
    return found


def _leads_to(record: pa.Schema, path: Path) -> bool:
    """Whether there is a field at a path, or something in which there is none any more."""
    fields = list(record)
    for name in path:
        field = next((one for one in fields if one.name == name), None)
        if field is None:
            return False
        if not kinds.is_struct(field.type):
            return True
        fields = list(field.type)
    return True


def columns_of(rule: Reshape | None, record: pa.Schema) -> pa.Schema:
    """The columns that records bring by the rule; none where they cannot be what it says, since they land nowhere."""
    if rule is None:
        return record
    try:
        return shape_of(rule, record).columns
    except Unshapeable:
        return pa.schema([])


def why_unshapeable(rule: Reshape, record: pa.Schema) -> str:
    """Why records with these columns cannot be what the rule says; empty where they can."""
    try:
        shape_of(rule, record)
    except Unshapeable as error:
        return str(error)
    return ""


def is_there(rule: Reshape, path: Path, record: pa.Schema) -> bool:
    """Whether records with these columns have the field that a rule names by this path."""
    ops = tuple((one, op) for one, op in rule.ops if one == path)
    if not ops:
        return _leads_to(record, path)
    whole, top = pa.struct(list(record)), Spot((), ops, taken=True)
    return any(top.field_of_record(whole, field.name).leads_in(field.type) for field in whole)


class _Walk:
    def __init__(self, rule: Reshape) -> None:
        self._rule = rule

    def fields(self, given: Iterable[pa.Field], spot: Spot, above: str) -> list[Kept]:
        found: list[Kept] = []
        given = list(given)
        whole = pa.struct(given)
        for place, field in enumerate(given):
            at = (spot.field_of if above else spot.field_of_record)(whole, field.name)
            if at.is_left:
                continue
            node = self.node(field.type, at, above + part(field.name))
            if node is not None:
                found.append(Kept(place, at.name or field.name, node))
        self._refuse_alike(found, given, spot, above)
        return found

    def node(self, of: pa.DataType, spot: Spot, path: str) -> Node | None:
        """What becomes of values of a type; None where nothing of them is left."""
        if spot.op is not None:
            return self._made(of, spot, path)
        if not spot.rest:
            return Keep(of)
        if kinds.is_struct(of):
            fields = tuple(self.fields(list(of), spot, f"{path}."))
            if len(fields) == of.num_fields and all(_same(one, of) for one in fields):
                return Keep(of)
            return Struct(fields, pa.struct([one.field for one in fields])) if fields else None
        if is_list(of) or kinds.is_map(of):
            return self._inside(of, spot, path)
        if spot.hides_within:
            inner = next(path for path, op in spot.rest if op.what in HIDING)
            raise Unshapeable(
                f"field {path} is of type {type_name(of)}, which has no {inner[0]} to be hidden"
            )
        return Keep(of) if spot.taken else None

    def _inside(self, of: pa.DataType, spot: Spot, path: str) -> Node | None:
        *keys, inner = children(of)
        at = spot.inside(inner.name)
        if at.is_left:
            return None
        node = self.node(inner.type, at, f"{path}.{inner.name}")
        if node is None or isinstance(node, Keep):
            return None if node is None else Keep(of)
        return Inside(node, rebuilt(of, [*keys, inner.with_type(node.type)]))

    def _made(self, of: pa.DataType, spot: Spot, path: str) -> Node:
        """Values made otherwise: those themselves, or those of the lists and maps that they are."""
        op = spot.op
        if op is None:
            raise ValueError(path)
        if is_list(of) or kinds.is_map(of):
            *keys, inner = children(of)
            node = self._made(inner.type, spot, f"{path}.{inner.name}")
            return Inside(node, rebuilt(of, [*keys, inner.with_type(node.type)]))
        if kinds.is_struct(of):
            raise Unshapeable(
                f"field {path} is a struct, of which no {op.what} is made: name the fields in it"
            )
        if op.what != "cast":
            return Hidden(op, self._rule.secret)
        to = type_of(op.to)
        if to is None or not castable(of, to, unit_of(op.to)):
            raise Unshapeable(f"field {path} is of type {type_name(of)}, which is never a {op.to}")
        return Keep(of) if to == of else Cast(to, path, op.to)

    def _refuse_alike(self, found: list[Kept], given: list[pa.Field], spot: Spot, above: str) -> None:
        renamed = {fold(one.name) for one in found if spot.field(given[one.place].name).name is not None}
        count = Counter(fold(one.name) for one in found)
        twice = next((one for one in found if fold(one.name) in renamed and count[fold(one.name)] > 1), None)
        if twice is not None:
            raise Unshapeable(f"a field is to be called {above}{part(twice.name)}, and there is one already")


def _same(one: Kept, of: pa.StructType) -> bool:
    return isinstance(one.node, Keep) and bool(one.name == of[one.place].name)


def _type(added: Added) -> pa.DataType:
    return _TYPES.get(added.source, pa.string())


def _added(one: Added, kafka: pa.RecordBatch, headers: Sequence[str]) -> pa.Array:
    if one.source == "header":
        place = list(headers).index(one.value)
        values = [None if row is None else row[place] for row in kafka["headers"].to_pylist()]
        # What is no text is told by the character that stands for it everywhere.
        return pa.array([None if v is None else v.decode("utf-8", "replace") for v in values], pa.string())
    if one.source == "timestamp_type":
        found = [TIMESTAMP_TYPES.get(number) for number in kafka["ts_type"].to_pylist()]
        return pa.array(found, pa.string())
    return pa.repeat(_constant(one), kafka.num_rows)


def _constant(one: Added) -> pa.Scalar:
    if one.source == "bigint":
        return pa.scalar(int(one.value), pa.int64())
    if one.source == "double":
        return pa.scalar(float(one.value), pa.float64())
    if one.source == "boolean":
        return pa.scalar(one.value == "true", pa.bool_())
    return pa.scalar(one.value, pa.string())
