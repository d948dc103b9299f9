"""Counting fields, and telling which ones a type lacks."""

from __future__ import annotations

import pyarrow as pa

from distributary.codecs.types.fields import fields_in, new_paths

IN = pa.struct([("a", pa.int64()), ("b", pa.string())])


def test_fields_count_at_all_depths_and_what_holds_them_once() -> None:
    columns = [("x", pa.int64()), ("l", pa.list_(IN)), ("m", pa.map_(pa.string(), pa.list_(IN))), ("o", IN)]
    assert fields_in(pa.schema(columns)) == 4 + 3 * 2
    assert fields_in(pa.map_(pa.string(), pa.string())) == 0


def test_new_fields_are_those_that_a_type_lacks() -> None:
    known = pa.struct(
        [("x", pa.int64()), ("l", pa.list_(pa.struct([("a", pa.int64())]))), ("t", pa.string())]
    )
    more = pa.struct([("l", pa.list_(IN)), ("o", IN), ("t", pa.string())])
    assert list(new_paths(known, more)) == [("l", "b"), ("o",), ("o", "a"), ("o", "b")]
    assert list(new_paths(None, pa.map_(pa.string(), IN))) == [("a",), ("b",)]
    assert list(new_paths(known, pa.null())) == []
