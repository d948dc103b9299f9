"""Names of tables and columns made from data: safe, stable, and never one name for two things."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from collections.abc import Set as AbstractSet
from itertools import count

from distributary.errors import ConfigError

ENTITY = "{entity}"

# The tables of our own, beside those of the entities.
QUARANTINE_TABLE = "quarantine"

BATCHES_TABLE = "ledger_batches"

CHANGES_TABLE = "ledger_changes"

RESERVED_TABLES = frozenset({QUARANTINE_TABLE, BATCHES_TABLE, CHANGES_TABLE})

RESOLVED_TABLE = "quarantine_resolved"
"""Which records of the quarantine were brought back, by whom, and where they went."""

OUR_NAMES = RESERVED_TABLES | {RESOLVED_TABLE}
"""All that are no entity's: those that batches commit to, and the one that replays do."""

# Delta adds these itself to a table with a change data feed and then refuses columns called so.
RESERVED_COLUMNS = frozenset({"_change_type", "_commit_version", "_commit_timestamp"})

# Of a routing value, in characters, that a new table is made for: each batch's manifest has those of all tables.
ENTITY_LENGTH = 20_000

TABLE_NAME_LENGTH = 63

COLUMN_NAME_LENGTH = 255

_TABLE_DIGITS = 16

_COLUMN_DIGITS = 8

_SHORTEST_SLUG = 8

_LONGEST_FRAME = TABLE_NAME_LENGTH - _SHORTEST_SLUG - _TABLE_DIGITS - 1

_DEVICES = frozenset(
    {"con", "prn", "aux", "nul"} | {f"{port}{n}" for port in ("com", "lpt") for n in range(10)}
)

_TABLE = re.compile(r"[a-z0-9][a-z0-9_]*")

_FRAME = re.compile(r"[a-z0-9_]*")

_HASHED = re.compile(rf".*_[0-9a-f]{{{_TABLE_DIGITS}}}", re.DOTALL)

# Delta's own list, and what makes a dotted path or a quoted name ambiguous.
_UNSAFE_IN_COLUMNS = frozenset(" ,;{}()\n\t=.`")

MEMORY_SUFFIX = "__deleted"
"""What the name of a table's folder is followed by in that of the table which remembers its deletes."""


def aside_prefix(folder: str) -> str:
    """What the names begin with of what was the table in a folder, once it was put aside by `distributary resolve`."""
    return f".{folder}.replaced-"


def table_name(template: str, entity: str, fold_case: bool) -> str:
    """The table of a routing value: a pure function of it, injective, and one plain folder name.

    A value that is a clean slug already is kept; any other gets a slug and a hash of the value. With `fold_case`
    values that differ only by case are one value. `template` is checked by `check_template`.
    """
    value = entity.casefold() if fold_case else entity
    prefix, _, suffix = template.partition(ENTITY)
    slug = _slug(value)[: TABLE_NAME_LENGTH - len(prefix) - len(suffix)]
    # A value that looks like a hashed name is hashed itself: otherwise it could be another value's name.
    if slug == value and not _HASHED.fullmatch(value):
        name = f"{prefix}{slug}{suffix}"
        if not _is_reserved(name):
            return name
    tail = f"_{_digest(value, _TABLE_DIGITS)}{suffix}"
    return f"{prefix}{slug[: TABLE_NAME_LENGTH - len(prefix) - len(tail)]}{tail}"


def check_template(template: str) -> None:
    """Raises ConfigError unless `table_name` can make a safe name from the template and any value."""
    prefix, found, suffix = template.partition(ENTITY)
    if not found or ENTITY in suffix:
        raise ConfigError(f"it must hold {ENTITY} exactly once; write for example silver_{ENTITY}_events")
    if not _FRAME.fullmatch(prefix + suffix):
        raise ConfigError(
            f"around {ENTITY} only a-z, 0-9 and _ are allowed, since it becomes a folder's name"
        )
    if prefix.startswith("_"):
        raise ConfigError("a table's folder must not begin with _: readers take such folders as hidden")
    if len(prefix + suffix) > _LONGEST_FRAME:
        raise ConfigError(f"the text around {ENTITY} is longer than {_LONGEST_FRAME} characters; shorten it")


def check_table(name: str) -> None:
    """Raises ConfigError unless `name`, given by the user, can be a table's folder."""
    if not _TABLE.fullmatch(name) or len(name) > TABLE_NAME_LENGTH:
        raise ConfigError(
            f"a table's name is made of a-z, 0-9 and _, begins with none of _, and has at most "
            f"{TABLE_NAME_LENGTH} characters"
        )
    if _is_reserved(name):
        raise ConfigError("this name is kept for distributary or for the operating system; choose another")


def may_be_an_entity(template: str, name: str) -> bool:
    """Whether some routing value could be given the table `name`."""
    prefix, _, suffix = template.partition(ENTITY)
    return len(name) > len(prefix + suffix) and name.startswith(prefix) and name.endswith(suffix)


def column_name(source: str, taken: AbstractSet[str]) -> str:
    """The column of a payload field called `source`, beside columns already called `taken` (each as `fold` gives it).

    The field's own name if Delta takes it and no taken name equals it, case aside; else a clean form of it with
    a hash of the original, the hash being renewed until the name is free.
    """
    if _is_clean_column(source) and fold(source) not in taken:
        return source
    clean = "".join("_" if _is_unsafe(character) else character for character in source) or "field"
    clean = clean[: COLUMN_NAME_LENGTH - _COLUMN_DIGITS - 1]
    attempts = (_digest(source + "\0" * attempt, _COLUMN_DIGITS) for attempt in count())
    names = (f"{clean}_{digest}" for digest in attempts)
    return next(name for name in names if fold(name) not in taken)


def fold(name: str) -> str:
    """What two column names have in common if any engine may take them for one, as Java's equalsIgnoreCase does."""
    return name.upper().casefold().replace("\u0307", "")


def _slug(value: str) -> str:
    plain = unicodedata.normalize("NFKC", value).casefold()
    return re.sub(r"[^a-z0-9_]+", "_", plain).lstrip("_") or "entity"


def _is_reserved(name: str) -> bool:
    return name in OUR_NAMES or name in _DEVICES


def _is_clean_column(name: str) -> bool:
    return 0 < len(name) <= COLUMN_NAME_LENGTH and not any(map(_is_unsafe, name))


def _is_unsafe(character: str) -> bool:
    # C*: control, bidi and other format characters, surrogates, unassigned. Z*: every kind of space.
    return character in _UNSAFE_IN_COLUMNS or unicodedata.category(character)[0] in "CZ"


def _digest(value: str, digits: int) -> str:
    return hashlib.sha256(value.encode("utf-8", "surrogatepass")).hexdigest()[:digits]


def words_of(text: str) -> set[str]:
    """The words of an expression or a name, in small letters; what stands between them in a quoted name does not count."""
    return set(re.findall(r"\w+", text.lower()))
