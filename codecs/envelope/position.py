"""Where in its source a change stands, as a text: of two changes of one row the later one has the greater text.

Each connector tells it in its own fields; numbers are filled up with zeros to a fixed width, so that texts compare as they do.
A snapshot's reads have the position at which the snapshot was taken.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

Field = Callable[[str], pa.StringArray]

POSITION_FIELDS = (
    "connector",
    "lsn",
    "file",
    "pos",
    "row",
    "commit_lsn",
    "change_lsn",
    "event_serial_no",
    "scn",
    "commit_scn",
    "ts_ms",
    "ord",
)

_NO_TEXT = pa.scalar(None, pa.string())

# As SQL Server writes a log sequence number: three numbers in hexadecimal digits, of fixed widths.
_LSN = r"^[0-9A-Fa-f]{8}:[0-9A-Fa-f]{8}:[0-9A-Fa-f]{4}$"

_NO_LSN = "00000000:00000000:0000"


def position(field: Field) -> pa.StringArray:
    """The positions of changes by the fields of their `source`; null where one lacks what its connector orders by."""
    connectors = field("connector").dictionary_encode()
    names = connectors.dictionary.to_pylist()
    if len(names) == 1 and not connectors.null_count:
        return _BY.get(names[0], _by_time)(field)
    found = _by_time(field)
    plain = connectors.dictionary_decode()
    for name in names:
        if name in _BY:
            found = pc.if_else(pc.equal(plain, name).fill_null(False), _BY[name](field), found)
    return found


def _padded(text: pa.StringArray, width: int) -> pa.StringArray:
    """Whole numbers, none below 0, with zeros before them; null for anything else, and for one of more digits."""
    fits = pc.match_substring_regex(text, f"^[0-9]{{1,{width}}}$")
    return pc.utf8_lpad(pc.if_else(fits, text, _NO_TEXT), width, padding="0")


def _joined(*parts: pa.StringArray) -> pa.StringArray:
    return pc.binary_join_element_wise(*parts, ":")


def _or_zero(padded: pa.StringArray, width: int) -> pa.StringArray:
    return padded.fill_null("0" * width)


def _by_lsn(field: Field) -> pa.StringArray:
    return _padded(field("lsn"), 20)


def _by_file(field: Field) -> pa.StringArray:
    # Of mysql-bin.000012 the number alone: it gets a digit more behind 999999.
    number = pc.struct_field(pc.extract_regex(field("file"), r"\.(?P<number>[0-9]+)$"), "number")
    row = _or_zero(_padded(field("row"), 8), 8)
    return _joined(_padded(number, 10), _padded(field("pos"), 12), row)


def _by_lsns(field: Field) -> pa.StringArray:
    commit, change = (_lsn(field(name)) for name in ("commit_lsn", "change_lsn"))
    number = _or_zero(_padded(field("event_serial_no"), 10), 10)
    return _joined(commit, change.fill_null(_NO_LSN), number)


def _lsn(text: pa.StringArray) -> pa.StringArray:
    return pc.utf8_lower(pc.if_else(pc.match_substring_regex(text, _LSN), text, _NO_TEXT))


def _by_scn(field: Field) -> pa.StringArray:
    # A transaction that was begun before another may be committed after it: its commit orders it first.
    own = _padded(field("scn"), 20)
    return _joined(pc.coalesce(_padded(field("commit_scn"), 20), own), own)


def _by_time(field: Field) -> pa.StringArray:
    return _joined(_padded(field("ts_ms"), 15), _or_zero(_padded(field("ord"), 10), 10))


_BY: Mapping[str, Callable[[Field], pa.StringArray]] = {
    "postgresql": _by_lsn,
    "mysql": _by_file,
    "mariadb": _by_file,
    "sqlserver": _by_lsns,
    "oracle": _by_scn,
    "mongodb": _by_time,
}
