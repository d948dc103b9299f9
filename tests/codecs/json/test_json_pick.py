from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.codecs.base import load_codec, picking
from distributary.codecs.json.codec import picked


@pytest.mark.parametrize(
    ("payload", "value"),
    [
        (b'{"game":"go","x":[{"game":"no"}]}', "go"),
        (b'{"game":5}', "5"),
        (b'{"game":1e3}', "1e3"),
        (b'{"game":true}', "true"),
        (b'{"game":""}', ""),
        (b'{"game":null}', None),
        (b'{"game":{"a":1}}', None),
        (b'{"game":["a"]}', None),
        (b'{"other":"go"}', None),
        (b'{"game":"go"', None),
        (b'["game"]', None),
        (b'{"game":"\\ud800"}', None),
        (b'{"game":"\xff"}', None),
        (b'{"game":' + b"[" * 100_000, None),
        (b'{"game":' + b"9" * 5_000 + b"}", "9" * 5_000),
    ],
)
def test_a_value_is_its_text_as_written(payload: bytes, value: str | None) -> None:
    assert picked(pa.array([payload], pa.binary()), ["game"]).to_pylist() == [value]


def test_a_path_leads_through_objects_alone() -> None:
    payloads = pa.array([b'{"at":{"game":"go"}}', b'{"at":"go"}', b'{"at":[{"game":"go"}]}'], pa.binary())
    assert picked(payloads, ["at", "game"]).to_pylist() == ["go", None, None]


@pytest.mark.parametrize("name", ["json", "auto"])
def test_codecs_of_inferred_schemas_find_a_field_before_they_have_one(name: str) -> None:
    assert picking(load_codec(name))(pa.array([b'{"game":"go"}'], pa.binary()), ["game"]).to_pylist() == [
        "go"
    ]


@given(st.lists(st.dictionaries(st.sampled_from("ab"), st.text(max_size=5), max_size=2), max_size=5))
def test_what_a_record_has_depends_on_no_other(records: list[dict[str, str]]) -> None:
    payloads = [json.dumps(record).encode() for record in records]
    assert picked(pa.array(payloads, pa.binary()), ["a"]).to_pylist() == [one.get("a") for one in records]
