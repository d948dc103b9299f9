"""Whether delta-rs may append to a Delta table as it is, and which conditions the table puts on its rows.

`create_write_transaction` looks at no data: what it would let through although Spark would not is refused here
(column mapping, constraints, NOT NULL, generated columns, partitions by other than plain values, and every feature not known to be harmless).
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

DeltaType = str | Mapping[str, Any]

"""A type as Delta's schema JSON spells it: https://github.com/delta-io/delta/blob/master/PROTOCOL.md#schema-serialization-format"""

# Harmless to an append, or in force only where the schema or the configuration says so, which is looked at below.
_HARMLESS_FEATURES = frozenset(
    {"appendOnly", "changeDataFeed", "deletionVectors", "timestampNtz", "v2Checkpoint"}
    # What is clustered by its rows' order only: an append has to tell between what their values lie.
    | {"clustering", "domainMetadata"}
    | {"invariants", "checkConstraints", "generatedColumns", "columnMapping"}
)

# Of which values are written in a log as `ingest/columns/partitions.py` does.
_IN_PARTITIONS = ("string", "byte", "short", "integer", "long", "boolean", "date")

CONSTRAINT = "delta.constraints."

_GENERATED = "delta.generationExpression"

_INVARIANT = "delta.invariants"

_CHAR_VARCHAR = "__CHAR_VARCHAR_TYPE_STRING"

# Writer version 6 implies identity columns, which delta-rs refuses to write.
_NEWEST_HARMLESS_VERSION = 5


@dataclass(frozen=True, slots=True)
class Definition:
    """What a Delta log says about a table: protocol, partitioning, configuration, comment and the schema as Delta's JSON."""

    fields: Sequence[Mapping[str, Any]]
    configuration: Mapping[str, str]
    partition_columns: Sequence[str]
    writer_version: int
    features: frozenset[str]
    comment: str = ""


@dataclass(frozen=True, slots=True)
class RowConditions:
    """What a table puts on its rows.

    checks     SQL booleans; the table takes a row only if each is true (a NULL is a violation)
    generated  generated columns and their SQL expressions
    identity   columns that the writer numbers itself
    """

    checks: tuple[str, ...] = ()
    generated: Mapping[str, str] = field(default_factory=dict)
    identity: tuple[str, ...] = ()


def row_conditions(table: Definition) -> RowConditions:
    """What a table puts on its rows."""
    return RowConditions(tuple(_all_checks(table)), generated_columns(table), identity_columns(table))


def why_not_native(table: Definition) -> str:
    """In words why delta-rs must not append to this table; empty when it may."""
    return "; ".join(_reasons(table))


def _reasons(table: Definition) -> Iterator[str]:
    types = {field["name"]: field["type"] for field in table.fields}
    for name in table.partition_columns:
        if types.get(name) not in _IN_PARTITIONS:
            yield f"partitioned by {name}, which is {types.get(name)}"
    if table.configuration.get("delta.columnMapping.mode", "none") != "none":
        yield "column mapping"
    for name in sorted(_constraints(table)):
        yield f"CHECK constraint {name}"
    for column in table.fields:
        yield from _field_reasons(column)
    if table.writer_version < 7 and table.writer_version > _NEWEST_HARMLESS_VERSION:
        yield f"writer version {table.writer_version}"
    if unknown := sorted(table.features - _HARMLESS_FEATURES):
        yield f"table features {', '.join(unknown)}"


def _field_reasons(field: Mapping[str, Any]) -> Iterator[str]:
    metadata = field["metadata"]
    if _GENERATED in metadata:
        yield f"generated column {field['name']}"
    if _is_identity(field):
        yield f"identity column {field['name']}"
    if _INVARIANT in metadata:
        yield f"invariant on column {field['name']}"
    if _CHAR_VARCHAR in metadata:
        yield f"column {field['name']} is {metadata[_CHAR_VARCHAR]}"
    if any(True for _ in _null_checks(field)):
        yield f"NOT NULL in column {field['name']}"


def generated_columns(table: Definition) -> dict[str, str]:
    """Top-level generated columns and the SQL expression of each."""
    return {f["name"]: f["metadata"][_GENERATED] for f in table.fields if _GENERATED in f["metadata"]}


def identity_columns(table: Definition) -> tuple[str, ...]:
    """Columns that the writer numbers itself."""
    return tuple(field["name"] for field in table.fields if _is_identity(field))


def _is_identity(field: Mapping[str, Any]) -> bool:
    return any(key.startswith("delta.identity.") for key in field["metadata"])


def _all_checks(table: Definition) -> Iterator[str]:
    for column in table.fields:
        yield from _null_checks(column)
        yield from _invariants(column["metadata"])
        yield from _length_checks(column)
    for name in identity_columns(table):
        yield f"{quoted(name)} IS NULL"
    for name, expression in generated_columns(table).items():
        yield f"{quoted(name)} <=> ({expression})"
    yield from (expression for _, expression in sorted(_constraints(table).items()))


def _constraints(table: Definition) -> dict[str, str]:
    found = {k: v for k, v in table.configuration.items() if k.startswith(CONSTRAINT)}
    return {k.removeprefix(CONSTRAINT): v for k, v in found.items()}


def _invariants(metadata: Mapping[str, Any]) -> Iterator[str]:
    if _INVARIANT in metadata:
        yield str(json.loads(metadata[_INVARIANT])["expression"]["expression"])


def _length_checks(field: Mapping[str, Any]) -> Iterator[str]:
    declared = str(field["metadata"].get(_CHAR_VARCHAR, ""))
    if declared.startswith(("varchar(", "char(")):
        length = declared.partition("(")[2].rstrip(")")
        yield f"({quoted(field['name'])} IS NULL OR length({quoted(field['name'])}) <= {length})"


def _null_checks(field: Mapping[str, Any]) -> Iterator[str]:
    yield from _nullability(field, quoted(field["name"]), depth=0)


def _nullability(field: Mapping[str, Any], place: str, depth: int) -> Iterator[str]:
    if not field["nullable"]:
        yield f"{place} IS NOT NULL"
    for inner in _inside(field["type"], place, depth):
        yield f"({place} IS NULL OR {inner})"


def _inside(dtype: DeltaType, place: str, depth: int) -> Iterator[str]:
    """Conditions on what is inside of a value of this type that is not null itself."""
    if isinstance(dtype, str):
        return
    if dtype["type"] == "struct":
        for child in dtype["fields"]:
            yield from _nullability(child, f"{place}.{quoted(child['name'])}", depth)
    elif dtype["type"] == "array":
        yield from _each(dtype["elementType"], dtype["containsNull"], place, depth)
    elif dtype["type"] == "map":
        yield from _each(dtype["keyType"], True, f"map_keys({place})", depth)
        yield from _each(dtype["valueType"], dtype["valueContainsNull"], f"map_values({place})", depth)


def _each(element: DeltaType, nullable: bool, array: str, depth: int) -> Iterator[str]:
    variable = f"_e{depth}"
    for condition in _nullability({"nullable": nullable, "type": element}, variable, depth + 1):
        yield f"forall({array}, {variable} -> {condition})"


def quoted(name: str) -> str:
    """A column's name as SQL spells it."""
    return "`" + name.replace("`", "``") + "`"
