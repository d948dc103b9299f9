from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.codecs.containers.base import Damaged
from distributary.ingest.landing import documents as module
from distributary.ingest.landing.documents import documents

VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=8,
)

# What stands alone would be taken apart where it is an array, and numbers run into each other.
DOCUMENTS = st.dictionaries(st.text(), VALUES, max_size=3) | st.text()


def found(data: bytes, size: int = 1 << 20) -> list[bytes | None]:
    """The documents of a file that comes in pieces of this size; they count on from the first row."""
    whole = list[bytes | None]()
    for row, some in documents(data[at : at + size] for at in range(0, len(data), size)):
        assert row == len(whole)
        whole += some
    return whole


@given(st.lists(VALUES, max_size=4), st.integers(1, 9), st.sampled_from([None, 1]), st.booleans())
def test_the_elements_of_an_array_are_what_they_were_however_they_come(
    values: list[Any], size: int, indent: int | None, ascii_only: bool
) -> None:
    data = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    told = [json.loads((one or b"").decode("utf-8", "surrogatepass")) for one in found(data, size)]
    assert told == values


@given(st.lists(DOCUMENTS, max_size=4), st.integers(1, 9), st.sampled_from(["", " ", "\n"]))
def test_documents_one_behind_the_other_are_told_apart(values: list[Any], size: int, between: str) -> None:
    data = between.join(map(json.dumps, values)).encode()
    assert [json.loads(one or b"") for one in found(data, size)] == values


@given(st.binary(max_size=40) | st.text('[]{}",:\\ 1an\n', max_size=40).map(str.encode), st.integers(1, 9))
def test_whatever_a_file_holds_it_is_the_same_however_it_comes_and_no_error_but_that_it_is_damaged(
    data: bytes, size: int
) -> None:
    def outcome(pieces: list[bytes]) -> tuple[list[bytes | None], str]:
        whole = list[bytes | None]()
        try:
            for _, some in documents(pieces):
                whole += some
        except Damaged as error:
            return whole, str(error)
        return whole, ""

    assert outcome([data]) == outcome([data[at : at + size] for at in range(0, len(data), size)])


def test_what_is_no_json_between_its_brackets_is_one_record_and_those_behind_it_are_read() -> None:
    assert found(b'[{"a": 1}, {"a": nonsense}, {"a": 3}]') == [b'{"a": 1}', b'{"a": nonsense}', b'{"a": 3}']
    assert found(b'{"a": 1]{"a": 2}') == [b'{"a": 1]', b'{"a": 2}']


def test_of_a_file_no_more_is_held_than_a_document_may_take(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_LARGEST", 1000)
    read = list[int]()

    def endless() -> Iterator[bytes]:
        yield b'[{"a": 1},'
        while True:
            read.append(1)
            yield b'"' + b"x" * 98 + b"," if len(read) == 1 else b"x" * 100

    given_on = documents(endless())
    assert next(given_on) == (0, [b'{"a": 1}'])
    with pytest.raises(Damaged, match="a document takes more than"):
        next(given_on)
    assert len(read) < 15


def test_records_are_handed_on_before_they_are_many_or_large(monkeypatch: pytest.MonkeyPatch) -> None:
    data = b"[" + b",".join([b'{"a": "%s"}' % (b"x" * 41)] * 50) + b"]"
    monkeypatch.setattr(module, "_BYTES", 500)
    assert [(row, len(some)) for row, some in documents([data])] == [(at, 10) for at in range(0, 50, 10)]
    monkeypatch.setattr(module, "_ROWS", 7)
    assert [row for row, _ in documents([data])] == list(range(0, 50, 7))


def test_a_document_in_many_pieces_takes_no_longer_for_it() -> None:
    inside = b'"%s", ' % (b'\\"x' * 300)
    pieces = [b'{"a": [', *[inside] * 20_000, b"1]}"]
    began = time.process_time()
    ((_, (whole,)),) = documents(pieces)
    assert time.process_time() - began < 5.0, "not in the square of the pieces"
    assert whole == b"".join(pieces)
