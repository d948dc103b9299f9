from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.codecs.json_samples import EVENT, fitting, game_events, payloads, schemas
from tests.examples import examples

from distributary.codecs import reasons
from distributary.codecs.base import Decoded
from distributary.codecs.json import decode as decoding
from distributary.codecs.json.decode import JsonDecoder
from distributary.codecs.json.fast import NativeReader
from distributary.codecs.types.spark_struct import list_of
from distributary.errors import BadSchema

SMALL = pa.schema([("n", pa.int64()), ("s", pa.string()), ("d", pa.float64()), ("l", list_of(pa.int64()))])


def decode(schema: pa.Schema, *texts: bytes, exactly: bool = False) -> Decoded:
    decoder = JsonDecoder(schema)
    if exactly:
        decoder._native = None
    return decoder.decode(pa.array(texts, pa.binary()))


def told(decoded: Decoded) -> Any:
    """All that a result says, comparable; NaN equals NaN."""
    assert decoded.rescued is not None
    failures = [(failure.row, failure.reason, failure.detail) for failure in decoded.failures]
    rows = decoded.rows.to_pylist() if decoded.rows.num_columns else decoded.rows.num_rows
    return str(
        (
            *(rows, decoded.source.tolist(), failures, decoded.rescued.to_pylist(), decoded.beyond.tolist()),
            sorted(decoded.misfits.items()),
        )
    )


@settings(max_examples=examples(40), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_both_ways_give_the_same_for_whatever_comes(data: st.DataObject) -> None:
    schema = data.draw(schemas(maps=True))
    # Enough good ones around for the native way to be taken.
    texts = data.draw(st.lists(payloads(schema), min_size=1, max_size=6)) + [b'{"a":null}'] * 8
    decoder, exact = JsonDecoder(schema), decode(schema, *texts, exactly=True)
    fast = decoder.decode(pa.array(texts, pa.binary()))
    assert told(fast) == told(exact)
    # From the first time on it knows the keys of maps.
    assert told(decoder.decode(pa.array(texts, pa.binary()))) == told(exact)
    assert fast.rows.schema == schema
    assert sorted([*fast.source.tolist(), *(failure.row for failure in fast.failures)]) == list(
        range(len(texts))
    )


def plain(value: Any, of: pa.DataType) -> Any:
    """What the json module makes of a fitting value, as Arrow gives it back."""
    if value is None:
        return None
    if kinds.is_struct(of):
        return {one.name: plain(value.get(one.name), one.type) for one in of}
    if kinds.is_list(of):
        return [plain(one, of.value_type) for one in value]
    if kinds.is_map(of):
        return [(key, plain(one, of.item_type)) for key, one in sorted(value.items())]
    if kinds.is_temporal(of) or kinds.is_decimal(of) or kinds.is_binary(of):
        return Ellipsis
    return value


def blurred(value: Any, like: Any) -> Any:
    """The decoded value, with those left out that the json module has no type for."""
    if like is Ellipsis:
        assert value is not None
        return Ellipsis
    if isinstance(like, dict):
        return {name: blurred(value[name], like[name]) for name in like}
    if isinstance(like, list):
        return [blurred(one, other) for one, other in zip(value, like, strict=True)]
    return (
        tuple(blurred(one, other) for one, other in zip(value, like, strict=True))
        if isinstance(like, tuple)
        else value
    )


@settings(max_examples=examples(30), suppress_health_check=list(HealthCheck))
@given(st.data())
def test_what_fits_is_what_the_json_module_reads(data: st.DataObject) -> None:
    schema = data.draw(schemas(maps=True))
    values = data.draw(st.lists(fitting(pa.struct(list(schema))), min_size=8, max_size=10))
    decoded = decode(schema, *(json.dumps(value).encode() for value in values))
    assert not decoded.failures
    assert decoded.rescued is not None and decoded.rescued.null_count == len(values)
    wanted = [plain(json.loads(json.dumps(value)), pa.struct(list(schema))) for value in values]
    assert [blurred(row, like) for row, like in zip(decoded.rows.to_pylist(), wanted, strict=True)] == wanted


MISFITS = [
    (pa.int64(), "12", 12),
    (pa.int64(), '"12"', None),
    (pa.int64(), "12.0", None),
    (pa.int64(), "1e2", None),
    (pa.int64(), "true", None),
    (pa.int64(), "9223372036854775807", 2**63 - 1),
    (pa.int64(), "9223372036854775808", None),
    (pa.int64(), "1e20", None),
    (pa.int8(), "128", None),
    (pa.float64(), "12", 12.0),
    (pa.float64(), "9007199254740993", None),
    (pa.float64(), "9007199254740994", 9007199254740994.0),
    (pa.float64(), "1e400", None),
    (pa.float64(), '"1.5"', None),
    (pa.float64(), '"-Infinity"', float("-inf")),
    (pa.float32(), "16777217", None),
    (pa.float32(), "1e39", None),
    (pa.bool_(), "1", None),
    (pa.bool_(), '"true"', None),
    (pa.string(), "12.50", "12.50"),
    (pa.string(), "true", "true"),
    (pa.string(), '{"a" : [1, 2]}', '{"a" : [1, 2]}'),
    (pa.string(), '"\\ud800"', None),
    (pa.string(), '"\\u0000"', "\0"),
    (pa.decimal128(10, 2), "12345678.90", "12345678.90"),
    (pa.decimal128(10, 2), "123456789", None),
    (pa.decimal128(10, 2), "1.234", None),
    (
        pa.decimal128(38, 0),
        "12345678901234567890123456789012345678",
        "12345678901234567890123456789012345678",
    ),
    (pa.decimal128(38, 0), "1e999999999999999999", None),
    (pa.date32(), '"2026-02-28"', "2026-02-28"),
    (pa.date32(), '"2026-02-30"', None),
    (pa.date32(), '"0000-01-01"', None),
    (pa.date32(), "20000", None),
    (pa.timestamp("us", "UTC"), '"2026-01-02T03:04:05.123456+02:00"', "2026-01-02 01:04:05.123456+00:00"),
    (pa.timestamp("us", "UTC"), '"2026-01-02 03:04:05"', "2026-01-02 03:04:05+00:00"),
    (pa.timestamp("us", "UTC"), '"2026-01-02T03:04:05.1234567Z"', None),
    (pa.timestamp("us", "UTC"), '"2026-01-02T03:04:60Z"', None),
    (pa.timestamp("us", "UTC"), '"0001-01-01T00:00:00+01:00"', None),
    (pa.timestamp("us", "UTC"), "1700000000", None),
    (pa.timestamp("us"), '"2026-01-02T03:04:05Z"', None),
    (pa.binary(), '"YWI="', b"ab"),
    (pa.binary(), '"YWJ="', None),
    (list_of(pa.int64()), '[1,"2",3]', [1, None, 3]),
    (list_of(pa.int64()), "{}", None),
    (pa.struct([("a", pa.int64())]), "[]", None),
    (pa.map_(pa.string(), pa.int64()), '{"x":1,"y":"z"}', [("x", 1), ("y", None)]),
]


@pytest.mark.parametrize("exactly", [False, True])
@pytest.mark.parametrize(("of", "text", "wanted"), MISFITS)
def test_a_value_is_taken_whole_or_rescued_as_it_was_written(
    of: pa.DataType, text: str, wanted: Any, exactly: bool
) -> None:
    payload = f'{{"v":{text},"ok":1}}'.encode()
    decoded = decode(pa.schema([("v", of), ("ok", pa.int64())]), *[payload] * 9, exactly=exactly)
    assert not decoded.failures and decoded.rescued is not None
    value = decoded.rows.column(0)[8].as_py()
    assert (str(value) if isinstance(wanted, str) else value) == wanted
    assert decoded.rows.column(1).to_pylist() == [1] * 9
    inside = {'[1,"2",3]': '{"v.1":"2"}', '{"x":1,"y":"z"}': '{"v.y":"z"}'}
    assert decoded.rescued[8].as_py() == inside.get(text, f'{{"v":{text}}}' if wanted is None else None)
    assert decoded.beyond.tolist() == []


def test_what_the_schema_lacks_is_rescued_by_its_path() -> None:
    schema = pa.schema([("o", list_of(pa.struct([("p", pa.int64())])))])
    text = b'{"o":[{"p":1},{"p":2,"q":{"r" : 1.50}}],"a.b":[1],"N":null,"e":{},"O":1}'
    for exactly in (False, True):
        decoded = decode(schema, *[text] * 9, exactly=exactly)
        assert decoded.rescued is not None
        assert decoded.rescued[0].as_py() == '{"o.1.q":{"r" : 1.50},"`a.b`":[1],"e":{},"O":1}'
        assert decoded.beyond.tolist() == list(range(9))


def test_misfits_are_told_by_the_column_that_does_not_take_them_and_unknown_fields_are_none() -> None:
    schema = SMALL.append(pa.field("m", pa.map_(pa.string(), pa.int64())))
    texts = (b'{"l":[1,"x"]}', b'{"new":1}', b'{"s":"x"}', b'{"m":{"secret":1.5},"n":[]}', b'{"n":1,"n":2}')
    assert dict(decode(schema, *texts).misfits) == {0: "l", 3: "m"}


def test_of_two_values_under_one_name_the_last_counts_and_the_others_are_rescued() -> None:
    texts = [b'{"n":1,"n":2}', b'{"n":1,"n":"x","n":3,"zz":4,"zz":5}', b'{"n":null,"n":1}']
    decoded = decode(SMALL, *texts, *[b'{"n":7}'] * 8)
    assert decoded.rescued is not None
    assert decoded.rows.column(0).to_pylist()[:3] == [2, 3, 1]
    assert decoded.rescued.to_pylist()[:3] == ['{"n":1}', '{"n":[1,"x"],"zz":[4,5]}', None]


BROKEN = [
    (b"  ", reasons.MALFORMED),
    (b"null", reasons.MALFORMED),
    (b"[{}]", reasons.MALFORMED),
    (b"12", reasons.MALFORMED),
    # A null after an object kills the native reader.
    (b'{"n":1} null', reasons.MALFORMED),
    (b'{"n":1}null', reasons.MALFORMED),
    (b'{"n":1}\n' + b" \t" * 5_000 + b"null", reasons.MALFORMED),
    # The native reader is given each payload inside an object of its own.
    (b'{"n":1}}', reasons.MALFORMED),
    (b'{"n":1}}{"zz":{"n":1}', reasons.MALFORMED),
    (b'{"n":1}} null', reasons.MALFORMED),
    (b'{"n":1}\0', reasons.MALFORMED),
    (b'{"n":1,}', reasons.MALFORMED),
    (b"{'n':1}", reasons.MALFORMED),
    (b'{"d":-Infinity}', reasons.MALFORMED),
    (b'{"zz":NaN}', reasons.MALFORMED),
    (b'\xef\xbb\xbf{"n":1}', reasons.MALFORMED),
    (b'{"s":"\x01"}', reasons.MALFORMED),
    (b'{"zz":' + b"[" * 100_000 + b"]" * 100_000 + b"}", reasons.TOO_DEEP),
    (b'{"n":' * 100_000, reasons.TOO_DEEP),
    (b'{"l":' + b"[" * 100 + b"]" * 100 + b"}", reasons.TOO_DEEP),
    (b'{"l":' + b"[" * 100_000, reasons.TOO_DEEP),
    (b'{"s":' + b'{"s":' * 100_000, reasons.TOO_DEEP),
]


@pytest.mark.parametrize(("payload", "reason"), BROKEN)
def test_a_broken_payload_costs_no_neighbour(payload: bytes, reason: str) -> None:
    good = b'{"n":1,"s":"a","d":0.5,"l":[1]}'
    decoded = decode(SMALL, *[good] * 20, payload, *[good] * 20, b'{"n":2}')
    assert [(failure.row, failure.reason) for failure in decoded.failures] == [(20, reason)]
    assert decoded.source.tolist() == [*range(20), *range(21, 42)]
    assert decoded.rows.column(0).to_pylist() == [1] * 40 + [2]


def test_a_schema_of_too_many_levels_is_held_to_the_bound() -> None:
    deep = pa.int64()
    for _ in range(101):
        deep = list_of(deep)
    decoded = decode(pa.schema([("l", deep)]), *[b'{"l":' + b"[" * 101 + b"]" * 101 + b"}"] * 9)
    assert [failure.reason for failure in decoded.failures] == [reasons.TOO_DEEP] * 9


def test_payloads_that_complete_each_other_make_no_record() -> None:
    parts = [b'{"n":1}{"n":', b'{"n":2', b',"s":"x"}', b'{"l":[', b"]}", b'{"n":3},{"n":4}', b""]
    decoded = decode(SMALL, *[b'{"n":0}'] * 9, *parts, *[b'{"n":9}'] * 9)
    assert [failure.row for failure in decoded.failures] == list(range(9, 9 + len(parts)))
    assert decoded.rows.column(0).to_pylist() == [0] * 9 + [9] * 9


def test_hostile_values_stay_with_their_own_record() -> None:
    long = b"x" * 5_000_000
    texts = [
        b'{"s":"' + long + b'"}',
        b'{"n":' + b"9" * 100_000 + b"}",
        b'{"zz":' + b"9" * 100_000 + b"}",
        b'{"d":-1e99999}',
        b'{"\\u0000":1,"n":5}',
        b'{"\\ud800":1,"n":6}',
        b'{"zz":' + b"[" * 99 + b"]" * 99 + b"}",
        b"{" + b",".join(b'"k%d":1' % number for number in range(50_000)) + b"}",
    ]
    decoded = decode(SMALL, *[b'{"n":0}'] * 300, *texts, *[b'{"n":9}'] * 300)
    assert not decoded.failures and decoded.rescued is not None
    assert decoded.rows.column(1)[300].as_py() == long.decode()
    assert decoded.rows.column(0).to_pylist() == [0] * 300 + [None] * 4 + [5, 6] + [None] * 2 + [9] * 300
    found = decoded.rescued.to_pylist()
    assert [text is not None for text in found[300:308]] == [False] + [True] * 7
    assert found[305] == '{"\\ud800":1}'
    assert decoded.beyond.tolist() == [302, 304, 307]


def test_no_failure_quotes_the_payload() -> None:
    texts = [
        b'{"secret":secret}',
        b'["secret"]',
        b"secret",
        b'{"secret":"\xff"}',
        b'{"secret\\q":1}',
        b'{"s":"secret\x01"}',
    ]
    decoded = decode(SMALL, *texts)
    assert len(decoded.failures) == len(texts)
    assert not any("secret" in failure.detail for failure in decoded.failures)


def test_a_batch_bad_in_many_places_is_decoded_whole() -> None:
    texts = game_events(3_000)
    spoiled = {
        7: (b'"level":', b'"level":1.5, "was":'),
        11: (b'"country": "', b'"country": 1, "was": "'),
        13: (b"}", b""),
        17: (b'"score":', b'"new":1, "score":'),
        19: (b'"at": "2', b'"at": "x'),
    }
    for step, (old, new) in spoiled.items():
        texts[::step] = [text.replace(old, new) for text in texts[::step]]
    fast, exact = decode(EVENT, *texts), decode(EVENT, *texts, exactly=True)
    assert told(fast) == told(exact)
    assert len(fast.failures) == len(range(0, 3_000, 13))


def test_good_events_are_read_natively() -> None:
    assert natively(JsonDecoder(EVENT), game_events(1_000)).rows.num_rows == 1_000


def natively(decoder: JsonDecoder, texts: list[bytes]) -> Decoded:
    """Decodes, and fails where a record is left to the exact way."""
    decoder._exactly = lambda payloads, rows, outcome: pytest.fail("read one by one") if len(rows) else None  # type: ignore[method-assign]
    return decoder.decode(pa.array(texts, pa.binary()))


MAP = pa.schema([("m", pa.map_(pa.string(), pa.int64())), ("l", list_of(pa.map_(pa.string(), pa.string())))])


def test_maps_are_read_natively_once_their_keys_were_met() -> None:
    texts = [
        b'{"m":{"b":2,"a":1},"l":[{"x":"y"},{}]}',
        b'{"m":{}}',
        b'{"m":null,"l":[]}',
        b'{"m":{"c":3},"l":[null,{"x":""}]}',
    ]
    decoder = JsonDecoder(MAP)
    decoder.decode(pa.array(texts * 3, pa.binary()))
    found = natively(decoder, texts * 3)
    assert found.rows.slice(0, 4).to_pylist() == [
        {"m": [("a", 1), ("b", 2)], "l": [[("x", "y")], []]},
        {"m": [], "l": None},
        {"m": None, "l": []},
        {"m": [("c", 3)], "l": [None, [("x", "")]]},
    ]


@pytest.mark.parametrize("text", [b'{"m":{"a":null}}', b'{"m":{"\\u0061":null}}', b'{"m":{"a" :\n null}}'])
def test_a_null_under_a_key_is_an_entry(text: bytes) -> None:
    decoder = JsonDecoder(MAP)
    for _ in range(2):
        decoded = decoder.decode(pa.array([b'{"m":{"a":1}}'] * 9 + [text], pa.binary()))
        assert decoded.rows.column(0).to_pylist() == [[("a", 1)]] * 9 + [[("a", None)]]


def test_maps_of_ever_new_keys_are_left_to_the_exact_way() -> None:
    texts = [b'{"m":{"%d":1}}' % number for number in range(1_000)]
    decoder = JsonDecoder(MAP)
    for _ in range(2):
        decoded = decoder.decode(pa.array(texts, pa.binary()))
        assert [dict(found) for found in decoded.rows.column(0).to_pylist()] == [
            {str(n): 1} for n in range(1_000)
        ]
    assert decoder._native is not None and decoder._native.gave_up


def test_a_schema_without_columns_rescues_everything() -> None:
    decoded = decode(pa.schema([]), b'{"a":1}', b"{}")
    assert (decoded.rows.num_rows, decoded.source.tolist()) == (2, [0, 1])
    assert decoded.rescued is not None and decoded.rescued.to_pylist() == ['{"a":1}', None]


def test_no_payload_at_all_is_an_empty_batch() -> None:
    decoded = decode(EVENT)
    assert decoded.rows.num_rows == 0 and decoded.rows.schema == EVENT
    assert not decoded.failures


def test_a_sliced_array_is_decoded_from_its_own_rows() -> None:
    every = pa.array([b"broken", *game_events(20), b"broken"], pa.binary())
    decoded = JsonDecoder(EVENT).decode(every.slice(1, 20))
    assert decoded.rows.num_rows == 20 and not decoded.failures


def test_what_reads_records_at_once_is_made_with_the_first_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """A start looks at the columns of every version of a schema, and records come with the newest alone."""
    made = list[pa.Schema]()

    def make(schema: pa.Schema) -> NativeReader:
        made.append(schema)
        return NativeReader(schema)

    monkeypatch.setattr(decoding, "NativeReader", make)
    decoder = JsonDecoder(EVENT)
    assert not made
    for _ in range(2):
        assert decoder.decode(pa.array(game_events(20), pa.binary())).rows.num_rows == 20
    assert made == [EVENT]


@pytest.mark.parametrize(
    "of", [pa.duration("us"), pa.uint8(), pa.timestamp("ns"), pa.map_(pa.int64(), pa.string())]
)
def test_a_type_that_no_column_has_is_refused(of: pa.DataType) -> None:
    with pytest.raises(BadSchema, match="'x'"):
        JsonDecoder(pa.schema([("x", of)]))


def test_names_that_would_be_told_again_of_each_value_make_no_gigabytes_of_a_record() -> None:
    schema = pa.schema([("m", pa.map_(pa.string(), pa.struct([("x", pa.int64())])))])
    many = {f"u{number}": 1 for number in range(2_000)}
    large, few = (json.dumps({"m": {"k" * size: many}}).encode() for size in (200_000, 20))
    decoded = decode(schema, few, large)
    assert decoded.source.tolist() == [0]
    assert [(one.row, one.reason) for one in decoded.failures] == [(1, reasons.TOO_LARGE)]
    assert decoded.rescued is not None
    assert len(json.loads(decoded.rescued[0].as_py())) == 2_000


def test_a_null_is_told_of_by_nothing_however_long_the_names_around_it() -> None:
    schema = pa.schema([("m", pa.map_(pa.string(), pa.struct([("x", pa.int64())])))])
    nulls = {f"u{number}": None for number in range(2_000)}
    decoded = decode(schema, json.dumps({"m": {"k" * 200_000: nulls}}).encode())
    assert decoded.rescued is not None and decoded.rescued.to_pylist() == [None]


def test_a_name_that_comes_very_often_behind_a_long_one_costs_each_time() -> None:
    schema = pa.schema([("m", pa.map_(pa.string(), pa.struct([("x", pa.int64())])))])
    often = b",".join([b'"u":1'] * 2_000)
    few, large = (b'{"m":{"' + b"k" * size + b'":{' + often + b"}}}" for size in (20, 200_000))
    decoded = decode(schema, few, large)
    assert [(one.row, one.reason) for one in decoded.failures] == [(1, reasons.TOO_LARGE)]
    assert decoded.rescued is not None
    assert json.loads(decoded.rescued[0].as_py()) == {f"m.{'k' * 20}.u": [1] * 2_000}
