"""The guess at which payloads the native reader will not take: right nearly always, and never needed."""

from __future__ import annotations

import json
import re
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.codecs.json_samples import EVENT, fitting, game_events, schemas
from tests.examples import examples

from distributary.codecs.json import fast
from distributary.codecs.json.decode import JsonDecoder
from distributary.codecs.json.fast import NativeReader, misfit_pattern
from distributary.codecs.types.spark_struct import list_of

TEXT, LONG = pa.string(), pa.int64()


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_a_record_that_fits_is_not_taken_for_a_misfit(data: st.DataObject) -> None:
    schema = data.draw(schemas())
    pattern = misfit_pattern(schema)
    record = data.draw(fitting(pa.struct(list(schema))))
    text = json.dumps(record, indent=data.draw(st.sampled_from([None, 1])))
    assert pattern is None or not pc.match_substring_regex(pa.scalar(text), pattern).as_py()


def test_names_of_which_no_pattern_can_be_made_keep_no_record_from_being_read() -> None:
    names = [f"f{number:04}" + "wide" * 250 for number in range(900)]
    schema = pa.schema([(name, LONG) for name in names])
    payloads = [json.dumps({name: 1}).encode() for name in names[:20]]
    payloads[3] = json.dumps({names[3]: "text"}).encode()
    decoded = JsonDecoder(schema).decode(pa.array(payloads, pa.binary()))
    assert decoded.source.tolist() == list(range(20))
    assert decoded.rescued is not None
    assert json.loads(decoded.rescued[3].as_py()) == {names[3]: "text"}
    assert decoded.rescued.null_count == 19


@pytest.mark.parametrize(
    ("of", "fits", "misfits"),
    [
        (LONG, ["-1", "12", "null", " 7"], ['"12"', "1.5", "1e3", "12345678901234567890", "true", "[]"]),
        (pa.float64(), ["1", "-1.5e3", "null"], ['"NaN"', "false", "{}"]),
        (pa.decimal128(7, 2), ["1.25", '"1.25"', "null"], ["true", "[1]"]),
        (pa.bool_(), ["true", "false", "null"], ["1", '"true"', "{}"]),
        (TEXT, ['"12"', "null", '""'], ["12", "true", '{"a":1}', "[]"]),
        (pa.date32(), ['"2026-01-02"', "null"], ["20000"]),
        (pa.struct([("x", LONG)]), ["{}", '{"x":1}', "null"], ["[]", '"x"', '{"x":"1"}']),
        (list_of(pa.struct([("x", LONG)])), ["[]", '[{"x":1}]', "null"], ["{}", "1", '[{"x":true}]']),
    ],
)
def test_the_first_character_of_a_value_gives_it_away(
    of: pa.DataType, fits: list[str], misfits: list[str]
) -> None:
    pattern = misfit_pattern(pa.schema([("ok", TEXT), ("v", of)]))
    assert pattern is not None
    texts = [f'{{"ok":"\\"v\\":[","v" : {value}}}' for value in (*fits, *misfits)]
    found = pc.match_substring_regex(pa.array(texts), pattern).to_pylist()
    assert found == [False] * len(fits) + [True] * len(misfits)


@pytest.mark.parametrize(
    "fields",
    [
        # Which of the two it is cannot be told.
        [("a", LONG), ("b", pa.struct([("a", TEXT)])), ("b b", LONG)],
        # Of text that may be a map's key, only that it is a number.
        [("m", pa.map_(TEXT, LONG)), ("a", TEXT), ("b", LONG)],
        [(f"c{number}", LONG) for number in range(2_000)],
        [],
    ],
)
def test_there_is_no_guess_at_names_that_may_be_others(fields: list[tuple[str, pa.DataType]]) -> None:
    pattern = misfit_pattern(pa.schema(fields))
    assert pattern is None or re.findall(r"\(\?:(\w+)\)", pattern) == ["b"]


def test_misfits_do_not_have_a_batch_read_once_for_each(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = game_events(2_000)
    texts[::20] = [re.sub(rb'"level": \d+', b'"level": {}', text) for text in texts[::20]]
    texts[::30] = [text.replace(b'"NL"', b"31") for text in texts[::30]]
    reads: list[int] = []
    read = NativeReader._read

    def counted(self: NativeReader, payloads: pa.BinaryArray, unknown_fields: bool) -> Any:
        reads.append(len(payloads))
        return read(self, payloads, unknown_fields)

    monkeypatch.setattr(NativeReader, "_read", counted)
    decoded = JsonDecoder(EVENT).decode(pa.array(texts, pa.binary()))
    assert decoded.rows["level"].null_count == 100
    assert decoded.rows["country"].to_pylist().count("31") == 67
    assert len(reads) == 2


@pytest.mark.parametrize(
    ("of", "text"),
    [
        # 38 digits, which with 18 more are beyond 128 bits, and within bounds again by what is cut off.
        (pa.decimal128(38, 18), "12345678901234567890123456789012345678"),
        (pa.decimal128(38, 18), '"-12345678901234567890123456789012345678"'),
        (pa.decimal128(38, 37), "1e20"),
        (pa.decimal128(20, 0), "1e-39"),
        (pa.decimal128(20, 0), "1.5e-38"),
        (pa.decimal128(20, 0), "12345678901234567890e-59"),
        (pa.decimal128(5, 2), '"-6.3E-40"'),
        (pa.decimal128(30, 20), "999999999999999999999999999999"),
        # By this one the native reader ends the process; and parts of numbers may be spelled by their codes.
        (pa.decimal128(20, 0), "1e-2147483640"),
        (pa.decimal128(10, 2), '"-1.5\\u0065-000077"'),
        (pa.decimal128(10, 2), '"1e\\u002D77"'),
        (pa.decimal128(10, 2), '"1e-7\\u0037"'),
    ],
)
@pytest.mark.parametrize("inside", [False, True])
def test_a_number_is_no_other_one_for_want_of_room(of: pa.Decimal128Type, text: str, inside: bool) -> None:
    column = pa.list_(pa.field("element", pa.struct([("d", of)]))) if inside else of
    around = '{"c":[null,{"d":%s}]}' if inside else '{"c":%s}'
    payloads = [(around % one).encode() for one in (text, *["2", "null"] * 4)]
    schema = pa.schema([("c", column)])
    batch, rows = JsonDecoder(schema).natively(pa.array(payloads), 1)
    assert batch.schema == schema
    assert rows.tolist() == list(range(1, 9))
    plain = [Decimal(2), None] * 4
    assert batch["c"].to_pylist() == ([[None, {"d": one}] for one in plain] if inside else plain)


def test_an_id_that_has_an_exponent_in_it_is_no_such_number() -> None:
    """A tenth of all UUIDs has one, and the exact way takes many times as long."""
    schema = pa.schema([("c", pa.decimal128(10, 2)), ("id", TEXT)])
    ids = ["c56a418e-6503-4adc-b1e7-9fd2d1a5b7e0", "1e-10-7", "0a9e-39", "1.5e-3"]
    payloads = [json.dumps({"c": 1.5, "id": one}).encode() for one in ids]
    batch, rows = JsonDecoder(schema).natively(pa.array(payloads * 2), 1)
    assert batch["c"].to_pylist() == [Decimal("1.50")] * 8
    assert len(rows) == 8


@settings(max_examples=examples(100))
@given(st.lists(st.sampled_from([b"e-", b"E-", b"e", b"-", b"1"]), min_size=1), st.sampled_from([2, 4, 64]))
def test_exponents_are_found_wherever_they_are(parts: list[bytes], block: int) -> None:
    data = b"".join(parts)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(fast, "_BLOCK", block)
        found = fast._exponents(np.frombuffer(data, np.uint8))
    upper = b"E-1" in data
    wanted = [one.start() for one in re.finditer(b"[eE]-", data) if upper or one[0] == b"e-"]
    assert found.tolist() == wanted


def test_what_java_writes_of_a_decimal_is_in_no_doubt() -> None:
    texts = ["0E-18", "1.23E-10", "1E-18", "-1.5E-17"] * 2
    payloads = pa.array([f'{{"c":{text}}}'.encode() for text in texts])
    batch, _ = JsonDecoder(pa.schema([("c", pa.decimal128(38, 18))])).natively(payloads, 1)
    assert batch["c"].to_pylist() == [Decimal(text) for text in texts]
