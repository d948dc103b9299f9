"""The options of Spark's `from_json` that say how text is read, checked. Capitals in their names do not matter.

Those that are about inferring a schema, or about files, have no say in a function that has its schema.
"""

from __future__ import annotations

from collections.abc import Mapping

from distributary.errors import ConfigError

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


def json_options(options: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """The options by their names in Spark, in order. Raises ConfigError for one that does not say how text is read."""
    unknown = sorted(name for name in options if name.lower() not in _KNOWN)
    if unknown:
        raise ConfigError(
            f"from_json has no option {unknown[0]!r} where its schema is not given in the call; there are: {', '.join(NAMES)}"
        )
    return tuple(sorted((_KNOWN[name.lower()], str(value)) for name, value in options.items()))
