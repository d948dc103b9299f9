"""Records of the Kinesis Producer Library: taken apart, or left as they are where they only look like some."""

from __future__ import annotations

from hashlib import md5

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.kinesis import aggregated
from distributary.ingest.kinesis.aggregated import taken_apart

# As amazon-kinesis-producer's page on its format has it: magic, message, digest.
MAGIC = bytes.fromhex("f3899ac2")


def packed(*records: tuple[str, bytes]) -> bytes:
    """As the library writes them."""
    message = aggregated._MESSAGE()
    for key, value in records:
        if key not in message.partition_key_table:
            message.partition_key_table.append(key)
        index = list(message.partition_key_table).index(key)
        message.records.add(partition_key_index=index, data=value)
    body: bytes = message.SerializeToString()
    return MAGIC + body + md5(body, usedforsecurity=False).digest()


@given(st.lists(st.tuples(st.text(max_size=5), st.binary(max_size=20)), max_size=8))
def test_each_record_comes_out_with_its_key_and_number(records: list[tuple[str, bytes]]) -> None:
    found = list(taken_apart("outer", packed(*records)))
    assert found == [(key, value, number) for number, (key, value) in enumerate(records)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        MAGIC,
        MAGIC + bytes(16),
        packed(("a", b"1"))[:-1] + b"\0",
        MAGIC + b"\x08" + md5(b"\x08", usedforsecurity=False).digest(),
        b'{"a": 1}',
    ],
)
def test_what_only_looks_like_several_is_one(data: bytes) -> None:
    assert list(taken_apart("outer", data)) == [("outer", data, None)]


def test_a_key_that_is_not_in_the_table_leaves_the_record_as_it_is() -> None:
    message = aggregated._MESSAGE()
    message.records.add(partition_key_index=3, data=b"1")
    body = message.SerializeToString()
    data = MAGIC + body + md5(body, usedforsecurity=False).digest()
    assert list(taken_apart("outer", data)) == [("outer", data, None)]
