"""Schemas of more fields than one may have: what is said of them."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest

from distributary.codecs.types.spark_struct import struct_json
from distributary.errors import ConfigError
from distributary.ingest.inference.bound import Looked, check_bound
from distributary.registry.base import Schema

CROWD = pa.struct([(f"k{number}", pa.int64()) for number in range(60)])


def looked(entity: str | None = None, cut_short: bool = False, **types: Any) -> Looked:
    return Looked(Schema(0, "STRUCT", struct_json(pa.schema(list(types.items())))), cut_short, entity)


def refusal(*found: Looked, most: int = 10) -> str:
    with pytest.raises(ConfigError) as refused:
        check_bound(found, most)
    return str(refused.value)


def test_as_many_fields_as_may_be_are_no_trouble() -> None:
    check_bound([looked(a=CROWD, b=pa.string())], 62)
    check_bound([], 1)


@pytest.mark.parametrize(
    ("types", "hint"),
    [
        ({"props": CROWD}, "props map<string, string>"),
        ({"at": pa.struct([("my props", CROWD)])}, "at struct<`my props`: map<string, string>>"),
        ({"tags": pa.list_(CROWD)}, "tags array<map<string, string>>"),
        ({"by`": pa.map_(pa.string(), CROWD)}, "`by``` map<string, map<string, string>>"),
        # Where something else lies beside it, a hint for the list would leave that out.
        ({"tags": pa.list_(pa.struct([("x", CROWD), ("y", pa.int64())]))}, None),
        ({f"k{number}": pa.int64() for number in range(60)}, None),
    ],
)
def test_where_names_are_made_of_data_a_map_is_proposed(types: dict[str, Any], hint: str | None) -> None:
    text = refusal(looked(**types))
    assert ("by decode.schema_hints: " in text) == (hint is not None)
    assert hint is None or f"{hint!r}" in text


def test_it_is_told_how_many_fields_there_are_and_where() -> None:
    text = refusal(looked(a=CROWD, b=pa.struct([("c", pa.list_(CROWD))])))
    assert text.startswith("the records have 123 fields, ")
    assert "lets an inferred schema have 10. Most are in a (60), b.c (60), the record itself (2). " in text
    text = refusal(looked("go", True, a=pa.int64()), *(looked(f"e{n}", True, a=CROWD) for n in range(5)))
    assert text.startswith("the records of 'e0' have at least 61 fields, ")
    assert "those of 'e1', 'e2', 'e3' and 2 more too. " in text
    assert refusal(looked(cut_short=True, a=pa.int64())).startswith("the records have at least 40 fields")
    assert json.dumps(text)
