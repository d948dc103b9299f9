"""Which tables get wider columns, where records of several types asked for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pyarrow as pa

from distributary.codecs.base import RecordPath
from distributary.ingest.layout import extend
from distributary.ingest.pins import PinnedTable
from distributary.ingest.report import Wish
from distributary.ingest.widening import widened

_EMPTY = pa.schema([])


def granted(
    wishes: Sequence[Wish], tables: Mapping[str, PinnedTable], written: Mapping[str, pa.Schema]
) -> dict[str, PinnedTable]:
    """The tables with columns as wide as wished for; the oldest schema's wish counts where two do not go together.

    `written` are the payload columns of those that were written to, new ones among them.
    """
    found = dict(tables)
    # A thousand tables share a few layouts, which stay alive here, so that their ids tell them apart.
    merged: dict[tuple[int, int, frozenset[str]], pa.Schema] = {}
    for wish in sorted(wishes, key=_age):
        was = found.get(wish.table) or PinnedTable(wish.entity, written.get(wish.table, _EMPTY))
        key = (id(was.layout), id(wish.layout), was.fixed)
        if key not in merged:
            merged[key] = widened(extend(was.layout, wish.layout, frozenset()), wish.layout, was.fixed)
        found[wish.table] = replace(was, layout=merged[key])
    return found


def _age(wish: Wish) -> tuple[str, str, RecordPath]:
    ref, path = wish.key
    return wish.table, str(ref).zfill(20), path
