"""Which properties a Delta table of ours may have, and why the others may not: what this program writes has to keep to them.

https://docs.delta.io/latest/table-properties.html and https://github.com/delta-io/delta/blob/master/PROTOCOL.md
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from difflib import get_close_matches
from typing import Annotated, Any, TypeAlias

from pydantic import BeforeValidator, WithJsonSchema

from distributary.values import Wrong, WrongValues

_DELTA = "delta."

# Of each unit that Spark and Delta know and that is always as long; a number of them has no more digits than Spark takes.
_SECONDS = {
    "microsecond": 1e-6,
    "millisecond": 1e-3,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3_600.0,
    "day": 86_400.0,
    "week": 604_800.0,
}
_UNITS = re.compile(rf"\s+(\d{{1,15}})\s+({'|'.join(_SECONDS)})s?", re.IGNORECASE)
_INTERVAL = re.compile(rf"\s*interval((?:{_UNITS.pattern})+)\s*", re.IGNORECASE)

# Delta counts microseconds by 64 bits, and looks for no overflow.
_LONGEST_SECONDS = 1_000 * 365 * 86_400.0


def _truth(value: str) -> str:
    return "" if value in ("true", "false") else "write true or false"


def _number(value: str) -> str:
    return "" if re.fullmatch(r"[1-9][0-9]{0,8}", value) else "write a whole number of at least 1"


def _count_or_all(value: str) -> str:
    return (
        "" if re.fullmatch(r"-1|0|[1-9][0-9]{0,8}", value) else "write a whole number, or -1 for all columns"
    )


def interval_seconds(text: str) -> float | None:
    """How long an interval is as Delta's properties have them, such as `interval 1 week 2 days`; None where that cannot be told."""
    found = _INTERVAL.fullmatch(text)
    if found is None:
        return None
    return sum(int(count) * _SECONDS[unit.lower()] for count, unit in _UNITS.findall(found[1]))


def _interval(value: str) -> str:
    seconds = interval_seconds(value)
    if seconds is None or value != value.strip():
        return "write an interval without months, such as interval 7 days"
    return "" if seconds <= _LONGEST_SECONDS else "write an interval of at most a thousand years"


def _size(value: str) -> str:
    return (
        "" if re.fullmatch(r"[1-9][0-9]{0,15}[kmg]?b?", value) else "write a size, such as 104857600 or 100mb"
    )


# What is wrong with a value, by the names of the properties that a table of ours may have; nothing is wrong with an empty answer.
_KNOWN: Mapping[str, Callable[[str], str]] = {
    "delta.appendOnly": _truth,
    "delta.checkpointInterval": _number,
    "delta.dataSkippingNumIndexedCols": _count_or_all,
    "delta.deletedFileRetentionDuration": _interval,
    "delta.enableChangeDataFeed": _truth,
    "delta.enableExpiredLogCleanup": _truth,
    "delta.logRetentionDuration": _interval,
    "delta.targetFileSize": _size,
}

_ROWS = "rows would need what these appends do not write"
_FILES = "files would be named and laid out in a way that these appends do not follow"
_READERS = "readers would need a feature that delta-rs and others lack, and it is Spark that puts it into a table, with ALTER TABLE"
_BY_SPARK = "rows that are there have to be checked for it: ALTER TABLE in Spark does that, and records that break it then go to quarantine"
_LOG = "checkpoints of the log are not written so"
_PROTOCOL = "a table's protocol follows from what it uses"

# Why a table of ours does not get them, by what their names begin with.
_REFUSED: Mapping[str, str] = {
    "delta.autoOptimize": f"{_FILES}; run OPTIMIZE now and then, which needs no property",
    "delta.checkpoint.": _LOG,
    "delta.checkpointPolicy": _LOG,
    "delta.columnMapping": "files have columns by their names, so that Spark would have to write each batch: set it with ALTER TABLE if that is wanted",
    "delta.constraints.": _BY_SPARK,
    "delta.dataSkipping": "which columns have statistics delta.dataSkippingNumIndexedCols says",
    "delta.enableDeletionVectors": f"tables of mode upsert have it, and no other is to; {_READERS}",
    "delta.enableIcebergCompat": _READERS,
    "delta.enableInCommitTimestamps": _ROWS.replace("rows", "log entries"),
    "delta.enableRowTracking": _ROWS,
    "delta.enableTypeWidening": "a table gets it with its first wider column; write policies.wider_type: widen",
    "delta.feature.": _PROTOCOL,
    "delta.identity": _ROWS,
    "delta.minReaderVersion": _PROTOCOL,
    "delta.minWriterVersion": _PROTOCOL,
    "delta.randomize": _FILES,
    "delta.randomPrefix": _FILES,
    "delta.setTransactionRetentionDuration": "the table would forget which batches are in it, and take one twice",
    "delta.universalFormat": _READERS,
    "distributary.": "these say whose the table is, and which entity's",
}


# What has a setting of its own.
_BESIDE: Mapping[str, str] = {"comment": "a table's comment", "cluster_by": "what a table is clustered by"}


def known_properties() -> tuple[str, ...]:
    """The names of Delta's own properties that a table of ours may have."""
    return tuple(_KNOWN)


def _checked(given: Any) -> Any:
    """Values as Delta keeps them: YAML has numbers and truths, too. None takes a property away."""
    if not isinstance(given, Mapping):
        raise WrongValues(((), "write a mapping of properties, each as `name: value` on a line of its own"))
    if found := tuple(_wrong(given)):
        raise WrongValues(*found)
    return {str(name): None if value is None else _text(value) for name, value in given.items()}


def _wrong(properties: Mapping[str, Any]) -> Iterator[Wrong]:
    for name, value in properties.items():
        if why := _refusal(name) or _wrong_value(name, value):
            yield (name,), why


def _wrong_value(name: str, value: Any) -> str:
    if value is None:
        return ""
    if not isinstance(value, str | bool | int | float):
        return "write a text, a number, true or false, or nothing to take the property away"
    return _KNOWN[name](_text(value)) if name in _KNOWN else ""


def _text(value: str | float) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _refusal(name: str) -> str:
    """Why a table gets no property of this name; empty where it is one of Delta's that it may have, or the user's own."""
    if name in _KNOWN:
        return ""
    if name in _BESIDE:
        return f"{_BESIDE[name]} is no property: write `{name}:` beside `properties:`"
    for prefix, why in _REFUSED.items():
        if name.lower().startswith(prefix.lower()):
            return f"no table of ours gets it: {why}; leave it out"
    meant = get_close_matches(name, [*_KNOWN, *(one.removeprefix(_DELTA) for one in _KNOWN)], n=1, cutoff=0.8)
    if meant:
        return f"no property of Delta is called so; did you mean {_DELTA}{meant[0].removeprefix(_DELTA)}?"
    if name.lower().startswith(_DELTA):
        return f"this program knows no such property of Delta, and so not whether it can keep to it; it knows {', '.join(_KNOWN)}"
    return "" if name.strip() else "a property has a name; write one"


TableProperties: TypeAlias = Annotated[
    Mapping[str, str | None],
    BeforeValidator(_checked),
    WithJsonSchema({"type": "object"}),
]
"""Properties by their names; None takes one away from a table that has it."""
