"""The options of Spark's `from_json` that say how text is read, checked. Capitals in their names do not matter.

Those that are about inferring a schema, or about files, have no say in a function that has its schema.
"""

from __future__ import annotations

from collections.abc import Mapping

from distributary.codecs.option_values import text_of
from distributary.errors import ConfigError, DecoderUnavailable

# Databricks' name for one column more, which takes as JSON text what no other takes.
RESCUE = "rescuedDataColumn"

# The codecs that have anything to put into it.
RESCUING = ("json", "jsonschema")

NAMES = (
    "allowBackslashEscapingAnyCharacter",
    "allowComments",
    "allowNonNumericNumbers",
    "allowNumericLeadingZeros",
    "allowSingleQuotes",
    "allowUnquotedControlChars",
    "allowUnquotedFieldNames",
    "dateFormat",
    "enableDateTimeParsingFallback",
    "locale",
    "timeZone",
    "timestampFormat",
    "timestampNTZFormat",
)

_KNOWN = {name.lower(): name for name in NAMES}


Options = tuple[tuple[str, str], ...]


def json_options(options: Mapping[str, str]) -> Options:
    """The options by their names in Spark, in order. Raises ConfigError for one that does not say how text is read."""
    unknown = sorted(name for name in options if name.lower() not in _KNOWN)
    if unknown:
        raise ConfigError(
            f"from_json has no option {unknown[0]!r} where its schema is not given in the call; of those that say how text is "
            f"read there are: {', '.join(NAMES)}; docs/how-to/move-a-databricks-notebook.md lists the others"
        )
    return tuple(sorted((_KNOWN[name.lower()], str(value)) for name, value in options.items()))


def rescued_column(options: Mapping[str, str]) -> tuple[str | None, dict[str, str]]:
    """The column that takes what no other does, None where none is named, and the other options. Raises ConfigError."""
    named = [value for name, value in options.items() if name.lower() == RESCUE.lower()]
    others = {name: value for name, value in options.items() if name.lower() != RESCUE.lower()}
    return (text_of(RESCUE, named[-1]) if named else None), others


def refuse_decoding(options: Options) -> None:
    """Raises DecoderUnavailable where there are options, which Spark's own function alone follows."""
    if options:
        names = ", ".join(name for name, _ in options)
        raise DecoderUnavailable(
            f"{names}: only Spark's own from_json reads by these options, and this record, or this call "
            "(distributary.engine), is for the decoder of ours; leave them out"
        )
