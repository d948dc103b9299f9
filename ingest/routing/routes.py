"""Which entity a decoded record belongs to: by its payload, or by what Kafka or its schema says of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from distributary.codecs.types.fields import part
from distributary.codecs.types.masks import Mask, is_valid
from distributary.ingest.kafka.records import ENTITY
from distributary.ingest.routing.tree import Node, evaluate
from distributary.ingest.settings.groups import Route


@dataclass(frozen=True, slots=True)
class Records:
    """Records of one type on their way: row n of `decoded` came from row `rows[n]` of `raw`."""

    decoded: pa.RecordBatch
    raw: pa.RecordBatch
    rows: npt.NDArray[np.int64]
    type_name: str

    def of_kafka(self, column: str) -> pa.Array:
        """A column of Kafka's side of the records."""
        return self.raw[column].take(pa.array(self.rows))


def entities(route: Route, records: Records, expression: Node | None = None) -> pa.DictionaryArray:
    """The routing value of each record as text, null where there is none; an empty text counts as none.

    `expression` is that of the route, for `by: expression`. Raises ConfigError where these records' types do not go with it.
    """
    text = _BY[route.by](route, records) if expression is None else evaluate(expression, records.decoded)
    return as_entities(text)


def as_entities(text: pa.StringArray) -> pa.DictionaryArray:
    """Texts as entities: an empty one is none."""
    return pc.if_else(pc.equal(text, ""), None, text).dictionary_encode()


def routed_by_untaken(route: Route, rescued: pa.StringArray | None, among: Mask) -> Mask:
    """Which of these records have a value where they are routed by that no column took, and that is neither an object nor a list.

    `rescued` has what no column took, by its path.
    """
    found: Mask = np.zeros(len(among), np.bool_)
    if rescued is not None and route.by == "field":
        names = (route.field or "").split(".")
        for row in np.flatnonzero(among & is_valid(rescued)).tolist():
            found[row] = _names_one(rescued[row].as_py(), names)
    return found


def _names_one(untaken: str, names: list[str]) -> bool:
    try:
        by_path = json.loads(untaken, parse_int=str)
    except (ValueError, RecursionError):
        return False
    for count in range(1, len(names) + 1):
        value = by_path.get(".".join(map(part, names[:count])))
        for name in names[count:]:
            value = value.get(name) if isinstance(value, dict) else None
        if value not in (None, "") and not isinstance(value, dict | list):
            return True
    return False


def _by_field(route: Route, records: Records) -> pa.Array:
    column = _pick(records.decoded, (route.field or "").split("."))
    return pa.nulls(records.decoded.num_rows, pa.string()) if column is None else as_text(column)


def _by_record(_route: Route, records: Records) -> pa.Array:
    return pa.repeat(pa.scalar(records.type_name), len(records.rows))


def _by_topic(_route: Route, records: Records) -> pa.Array:
    return records.of_kafka("topic")


def _by_key(_route: Route, records: Records) -> pa.Array:
    """The key's text if it was made, where it is one value; else its bytes, if they are text."""
    made = ENTITY in records.raw.schema.names
    return as_text(records.of_kafka(ENTITY if made else "key"))


def _by_header(_route: Route, records: Records) -> pa.Array:
    return as_text(records.of_kafka("route"))


_BY: Mapping[str, Callable[[Route, Records], pa.Array]] = {
    "field": _by_field,
    "record": _by_record,
    "topic": _by_topic,
    "key": _by_key,
    "header": _by_header,
    # Where workers do not evaluate it themselves, Spark has, into this column.
    "expression": _by_header,
}


def as_text(column: pa.Array) -> pa.Array:
    """Values as text; bytes that are no text count as no value, since no two values may become one."""
    if not pa.types.is_binary(column.type):
        return column if pa.types.is_string(column.type) else pc.cast(column, pa.string())
    try:
        return pc.cast(column, pa.string())
    except pa.ArrowInvalid:
        return pa.array([_as_text(value) for value in column.to_pylist()], pa.string())


def _as_text(value: bytes | None) -> str | None:
    try:
        return None if value is None else value.decode()
    except UnicodeDecodeError:
        return None


def _pick(rows: pa.RecordBatch, path: list[str]) -> pa.Array | None:
    place = rows.schema.get_field_index(path[0])
    if place < 0:
        return None
    column = rows.column(place)
    for name in path[1:]:
        if not pa.types.is_struct(column.type) or column.type.get_field_index(name) < 0:
            return None
        column = pc.struct_field(column, name)
    return None if pa.types.is_nested(column.type) else column
