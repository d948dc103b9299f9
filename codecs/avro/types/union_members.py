"""The names of what wide unions become: by number, as Spark has it, or by their types, which later branches do not shift.

Which of the two, a call says by Spark's options of its Avro source and `from_avro`, `enableStableIdentifiersForUnionType` and
`stableIdentifierPrefixForUnionType`; all options that say what Avro values become are read and checked here.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pyarrow as pa

from distributary.codecs.avro.types.columns import Column, Shape, list_column, map_column, struct_of
from distributary.codecs.option_values import one_of
from distributary.errors import BadSchema, ConfigError

PREFIX = "member_"


def named_by_type(column: Column, prefix: str) -> Column:
    """The column where members of wide unions are called by their types. Raises BadSchema where two are called the same."""
    children = tuple(named_by_type(child, prefix) for child in column.children)
    if children == column.children and column.shape is not Shape.MEMBERS:
        return column
    if column.shape is Shape.STRUCT:
        return struct_of(column.avro, column.names, children)
    if column.shape is Shape.LIST:
        return list_column(column.avro, children[0])
    if column.shape is Shape.MAP:
        return map_column(column.avro, children[0])
    if column.shape is Shape.MEMBERS:
        return _members(column, children, prefix)
    # A union of one type besides null.
    kind = next(child.type for child in children if not child.is_null)
    return replace(column, children=children, type=kind)


def _members(column: Column, children: tuple[Column, ...], prefix: str) -> Column:
    names = tuple("" if child.is_null else prefix + _simple_name(child) for child in children)
    fields = [pa.field(name, child.type) for name, child in zip(names, children, strict=True) if name]
    if len({field.name.lower() for field in fields}) != len(fields):
        raise BadSchema(
            f"a union has branches that would have the same name ({', '.join(filter(None, names))}), whatever their "
            "capitals and namespaces; leave enableStableIdentifiersForUnionType out"
        )
    return replace(column, children=children, names=names, type=pa.struct(fields))


def _simple_name(column: Column) -> str:
    return column.avro.name.rpartition(".")[2] or column.avro.kind.value


STABLE, STABLE_PREFIX = "enablestableidentifiersforuniontype", "stableidentifierprefixforuniontype"

# from_avro never matches by position, whatever this says: it has no schema of Spark's to match with.
_WITHOUT_EFFECT = {"positionalfieldmatching": ("true", "false")}

# Payloads in Kafka never had the calendar of Spark 2 and Hive, which is what the other modes are for.
_REBASE = "datetimerebasemode"


def union_prefix(options: Mapping[str, str]) -> str | None:
    """What the names of wide unions' members begin with where they are called by type; None where they are numbered.

    Raises ConfigError, naming the option, for an unknown one and for a wrong value.
    """
    given = {name.lower(): str(value) for name, value in options.items()}
    for name in options:
        _check(name, given[name.lower()].lower())
    return given.get(STABLE_PREFIX, PREFIX) if given.get(STABLE, "false").lower() == "true" else None


def _check(name: str, value: str) -> None:
    allowed = {STABLE: ("true", "false"), _REBASE: ("corrected",), **_WITHOUT_EFFECT}
    if name.lower() == STABLE_PREFIX:
        return
    if name.lower() == "avroschemaurl":
        raise ConfigError(f"from_avro: {name} is not read here; give the schema's text itself as avroSchema")
    if name.lower() not in allowed:
        raise ConfigError(
            f"from_avro has no option {name!r} together with a registry; there are: avroSchema, avroSchemaEvolutionMode, "
            "mode, recursiveFieldMaxDepth, enableStableIdentifiersForUnionType, stableIdentifierPrefixForUnionType, "
            "datetimeRebaseMode, positionalFieldMatching"
        )
    one_of(name, value, allowed[name.lower()])
