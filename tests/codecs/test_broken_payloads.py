"""One broken record costs few calls and nothing of its neighbours."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from distributary.codecs.broken_payloads import Undecodable, decode_each

SCHEMA = pa.schema([pa.field("v", pa.binary())])
EMPTY = pa.RecordBatch.from_pylist([], SCHEMA)


class Decoder:
    """Refuses payloads that start with `x` (always) or `s` (only together with others or not: by the exact way)."""

    def __init__(self) -> None:
        self.calls = 0

    def together(self, payloads: pa.BinaryArray) -> pa.RecordBatch:
        self.calls += 1
        if any(payload[:1] in (b"x", b"s") for payload in payloads.to_pylist()):
            raise RuntimeError("one of them")
        return pa.RecordBatch.from_arrays([payloads], schema=SCHEMA)

    def alone(self, payload: bytes) -> pa.RecordBatch:
        if payload[:1] == b"x":
            raise Undecodable("malformed", "broken")
        return pa.RecordBatch.from_pylist([{"v": payload}], SCHEMA)


@settings(deadline=None)
@given(st.lists(st.sampled_from([b"a", b"bb", b"s1", b"x2"]), max_size=30))
def test_all_but_the_broken_are_delivered_in_order(payloads: list[bytes]) -> None:
    decoder = Decoder()
    decoded = decode_each(pa.array(payloads, pa.binary()), decoder.together, decoder.alone, EMPTY)
    assert decoded.rows.column("v").to_pylist() == [payload for payload in payloads if payload[:1] != b"x"]
    assert decoded.source.tolist() == [row for row, payload in enumerate(payloads) if payload[:1] != b"x"]
    assert [failure.row for failure in decoded.failures] == [
        row for row, p in enumerate(payloads) if p[:1] == b"x"
    ]


def test_one_among_many_is_found_in_logarithmically_many_calls() -> None:
    decoder = Decoder()
    payloads = [b"a"] * 4_095 + [b"x"]
    decoded = decode_each(pa.array(payloads, pa.binary()), decoder.together, decoder.alone, EMPTY)
    assert decoded.rows.num_rows == 4_095
    assert decoder.calls == 1 + 2 * 12
