"""How a field inside other fields is named: a dotted path of names, where one that holds a dot stands in backticks."""

from __future__ import annotations

import re

# A name as `part` writes it: in backticks, which are doubled within, or plain.
_PART = re.compile(r"(`(?:[^`]|``)*`)|([^.`]+)")


def part(name: str) -> str:
    """A field's name as a part of a dotted path, in backticks where it would be mistaken for several."""
    plain = name and "." not in name and "`" not in name
    return name if plain else "`{}`".format(name.replace("`", "``"))


def parts(path: str) -> tuple[str, ...]:
    """A dotted path as the names it is made of; the other way round than `part`."""
    found = _PART.findall(path)
    return tuple(quoted[1:-1].replace("``", "`") if quoted else plain for quoted, plain in found)
