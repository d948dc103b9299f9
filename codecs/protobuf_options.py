"""The options of Spark's `from_protobuf` that say which columns and values a record becomes, read and checked.

As in Spark (ProtobufOptions of spark-protobuf 4.1), capitals in their names do not matter, and each is off where it is not given.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from distributary.codecs.option_values import depth, flag
from distributary.errors import ConfigError

DEPTH = "recursive.fields.max.depth"
# Spark lets none be deeper.
MAX_DEPTH = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class ProtobufOptions:
    """What a call of `from_protobuf` asks for; each is the option of that name, with dots.

    emit_default_values             whether a zero that cannot be told from nothing is zero, instead of null
    enums_as_ints                   whether enums are their numbers, instead of their names
    upcast_unsigned_ints            whether uint32 and uint64 have types that hold all of them, instead of turning negative
    unwrap_primitive_wrapper_types  whether Int32Value and the like are the value in them, instead of a struct around it
    retain_empty_message_types      whether messages without fields are structs of a dummy field, instead of no column
    convert_any_fields_to_json      whether an Any is JSON text, instead of a struct of its type's name and its bytes
    recursive_fields_max_depth      how often a message is columns within itself, itself included: 1 to 10; 0 for JSON text
    """

    emit_default_values: bool = False
    enums_as_ints: bool = False
    upcast_unsigned_ints: bool = False
    unwrap_primitive_wrapper_types: bool = False
    retain_empty_message_types: bool = False
    convert_any_fields_to_json: bool = False
    recursive_fields_max_depth: int = 0


_NAMES = {field.name.replace("_", "."): field.name for field in fields(ProtobufOptions)}


def protobuf_options(options: Mapping[str, str]) -> ProtobufOptions:
    """The options as a call has them. Raises ConfigError, naming the option, for an unknown one and for a wrong value."""
    values: dict[str, bool | int] = {}
    for name, value in options.items():
        known = _NAMES.get(name.lower())
        if known is None:
            raise ConfigError(
                f"from_protobuf has no option {name!r} together with a registry; of those that say what values become there are: "
                f"{', '.join(_NAMES)}; docs/how-to/move-a-databricks-notebook.md lists the others"
            )
        values[known] = depth(DEPTH, value, MAX_DEPTH) if name.lower() == DEPTH else flag(name, value)
    return ProtobufOptions(**values)  # type: ignore[arg-type]
