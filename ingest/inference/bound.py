"""How many fields the first schema may have: names that are made of data would make one that nobody can hold or mean."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nlargest

import pyarrow as pa
import pyarrow.types as kinds
from pyspark.accumulators import Accumulator

from distributary.codecs.base import CodecName, load_codec, surveying
from distributary.codecs.types.fields import Path, fields_in, held_in, part
from distributary.codecs.types.fit import is_list
from distributary.codecs.types.spark_struct import arrow_schema
from distributary.errors import ConfigError
from distributary.registry.base import Schema

# So many times the fields that a schema may have are counted before looking ends, so that somebody learns how many there are.
_LEEWAY = 4

_MOST_NAMED = 3

# A few names inside of a field are no sign that they are made of data.
_CROWD = 50

_Run = Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]]


def enough(max_fields: int) -> int:
    """How many fields are looked at before it is plain that there are too many."""
    return _LEEWAY * max_fields


@dataclass(frozen=True, slots=True)
class Looked:
    """A schema that was found, for which entity (None: all records), and whether looking ended early: there were too many fields."""

    schema: Schema
    cut_short: bool
    entity: str | None = None

    @property
    def columns(self) -> pa.Schema:
        """The schema's columns."""
        return arrow_schema(self.schema.text)

    @property
    def fields(self) -> int:
        """How many fields there are, or must be at least."""
        return fields_in(self.columns)


def check_bound(found: Iterable[Looked], max_fields: int) -> None:
    """Raises ConfigError where schemas have more fields than they may."""
    crowded = [one for one in found if one.cut_short or one.fields > max_fields]
    if crowded:
        raise ConfigError(_sentence(sorted(crowded, key=lambda one: -one.fields), max_fields))


def bounded(format_: CodecName, known: Schema, max_fields: int, cut_short: Accumulator[int]) -> _Run:
    """What hands records to Spark's reader until there are too many fields, of which it then tells the accumulator."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        survey = surveying(load_codec(format_))(known)
        for batch in batches:
            # Spark wants all of its batches taken, whatever becomes of them.
            texts = []
            for payload in batch["value"].to_pylist() if survey.fields <= enough(max_fields) else ():
                texts.append(survey.take(payload))
                if survey.fields > enough(max_fields):
                    cut_short.add(1)
                    break
            there = [text for text in texts if text is not None]
            yield pa.RecordBatch.from_arrays([pa.array(there, pa.string())], names=["value"])

    return run


def _sentence(crowded: Sequence[Looked], max_fields: int) -> str:
    worst, *more = crowded
    columns = worst.columns
    crowds = _crowds(columns)
    most = ", ".join(f"{_dotted(path)} ({children:,})" for path, children in crowds)
    count = max(worst.fields, enough(max_fields) if worst.cut_short else 0)
    others = ", ".join(repr(one.entity) for one in more[:_MOST_NAMED])
    others += f" and {len(more) - _MOST_NAMED} more" if len(more) > _MOST_NAMED else ""
    return (
        f"the records{'' if worst.entity is None else f' of {worst.entity!r}'} have {'at least ' if worst.cut_short else ''}{count:,} "
        f"fields, nested ones counted, and decode.max_fields lets an inferred schema have {max_fields:,}. Most are in {most}. "
        f"{f'Too many have those of {others} too. ' if more else ''}No new schema was kept. {_advice(columns, crowds)}"
    )


def _advice(schema: pa.Schema, crowds: Sequence[tuple[Path, int]]) -> str:
    record = pa.struct(list(schema))
    hint = next((hint for path, count in crowds if count >= _CROWD and (hint := _hint(record, path))), None)
    if hint is None:
        return "If they are all meant, raise decode.max_fields; a field that is given a type in decode.schema_hints counts by that"
    return (
        f"Where names are made of data, make the field that holds them a map, by decode.schema_hints: {hint!r}; "
        "where they are all meant, raise decode.max_fields"
    )


def _crowds(schema: pa.Schema) -> list[tuple[Path, int]]:
    """The fields with the most fields right within them, the record itself among them, by their paths."""
    return nlargest(_MOST_NAMED, _each(pa.struct(list(schema)), ()), key=lambda one: one[1])


def _each(of: pa.DataType, at: Path) -> Iterator[tuple[Path, int]]:
    if kinds.is_struct(of):
        yield at, of.num_fields
        for field in of:
            yield from _each(field.type, (*at, field.name))
    elif (inner := held_in(of)) is not None:
        yield from _each(inner, at)


def _dotted(path: Path) -> str:
    return ".".join(map(part, path)) or "the record itself"


def _hint(of: pa.DataType, path: Path, between: str = " ") -> str | None:
    """DDL by which the field at a path is a map of texts; None where that would leave out what is beside it."""
    if not path or not kinds.is_struct(of):
        return None
    name, inner = path[0], of.field(path[0]).type
    name = name if name.isidentifier() else "`{}`".format(name.replace("`", "``"))
    if len(path) == 1:
        return f"{name}{between}{_map(inner)}"
    deeper = _hint(inner, path[1:], ": ")
    return deeper and f"{name}{between}struct<{deeper}>"


def _map(of: pa.DataType) -> str:
    if is_list(of):
        return f"array<{_map(of.value_type)}>"
    return f"map<string, {_map(of.item_type)}>" if kinds.is_map(of) else "map<string, string>"
