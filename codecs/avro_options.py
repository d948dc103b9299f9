"""The options of Spark's `from_avro` that say what values become, read and checked. Capitals in their names do not matter."""

from __future__ import annotations

from collections.abc import Mapping

from distributary.codecs.avro_members import PREFIX
from distributary.codecs.option_values import one_of
from distributary.errors import ConfigError

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
