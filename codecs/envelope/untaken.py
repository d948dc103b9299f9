"""What no column took of an envelope, told of as of the row in it: by the names that the row's fields have, and nothing of what stands around."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from distributary.codecs.envelope.said import BEFORE, PREFIX
from distributary.codecs.json.text import END, first_at, more_at, name_at, quoted, value_at
from distributary.codecs.types.fields import Path, part, parts

AFTER = "after"

_NONE: Path = ()


def of_rows(
    texts: pa.StringArray, gone: npt.NDArray[np.bool_], *, is_struct: bool, keeps_before: bool
) -> pa.StringArray:
    """Per envelope an object of the paths within its row; null where none of them is left.

    gone          which envelopes have their row in `before`
    is_struct     whether a row has fields; else it is the only column, by its own name
    keeps_before  whether the row as it was is a column, too, in which `before` is then told of
    """
    found = [
        None if text is None else _of_row(text, BEFORE if was else AFTER, is_struct, keeps_before)
        for text, was in zip(texts.to_pylist(), gone.tolist(), strict=True)
    ]
    return pa.array(found, pa.string())


def _of_row(text: str, row: str, is_struct: bool, keeps_before: bool) -> str | None:
    told = []
    for path, value in _members(text + END):
        top, *within = parts(path)
        name = _NONE
        if top == row:
            name = tuple(within) if is_struct else (AFTER, *within)
        elif top == BEFORE and keeps_before:
            name = (f"{PREFIX}{BEFORE}", *within)
        if name:
            told.append(f"{quoted('.'.join(map(part, name)))}:{value}")
    return f"{{{','.join(told)}}}" if told else None


def _members(text: str) -> Iterator[tuple[str, str]]:
    """Each path and what stands behind it, as it is written."""
    more, at = first_at(text, 0, "}")
    while more:
        path, at = name_at(text, at)
        _, end = value_at(text, at)
        yield path, text[at:end]
        more, at = more_at(text, end, "}")
