from __future__ import annotations

import uuid
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.merge.vectors import (
    WrongVector,
    decoded,
    encoded,
    file_of,
    mark_of,
    owner,
    read,
    vector_file,
)
from distributary.ingest.storage.opening import files_at

# The example of https://github.com/delta-io/delta/blob/master/PROTOCOL.md#deletion-vector-descriptor-schema
TOLD = {
    "storageType": "u",
    "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^",
    "offset": 4,
    "sizeInBytes": 40,
    "cardinality": 6,
}


def rows(*numbers: int) -> npt.NDArray[np.uint32]:
    return np.array(sorted(set(numbers)), dtype=np.uint32)


def test_a_file_is_found_as_the_protocol_says() -> None:
    assert file_of(TOLD) == "ab/deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"


@given(st.lists(st.one_of(st.integers(0, 2**32 - 1), st.integers(0, 200_000)), max_size=300))
def test_what_is_written_is_read(numbers: list[int]) -> None:
    assert decoded(encoded(rows(*numbers))).tolist() == rows(*numbers).tolist()


def test_a_file_has_many_and_says_whose_it_is(tmp_path: Path) -> None:
    place, generation = files_at(tmp_path), str(uuid.uuid4())
    wanted = [rows(1), rows(*range(100_000)), rows(5, 2**32 - 1)]
    made = vector_file(generation, 12, wanted)
    assert made.name.startswith(mark_of(generation, 12))
    assert owner(made.name) == (generation.replace("-", "")[:8], 12)
    assert owner(f"{made.name}.crc") is None
    assert not made.name.startswith(mark_of(generation, 13))
    place.put(made.name, made.content)
    assert {file_of(one) for one in made.descriptors} == {made.name}
    assert [read(place, one).tolist() for one in made.descriptors] == [one.tolist() for one in wanted]


def test_one_that_is_in_the_log_itself_is_read() -> None:
    bits = encoded(rows(3, 4, 7, 11, 18, 29))
    padded = bits + bytes(-len(bits) % 4)
    # ZeroMQ's letters, in the order of its specification.
    letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    words = [int.from_bytes(padded[at : at + 4], "big") for at in range(0, len(padded), 4)]
    text = "".join(letters[word // 85**place % 85] for word in words for place in (4, 3, 2, 1, 0))
    told = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": len(bits), "cardinality": 6}
    assert read(files_at("/nowhere"), told).tolist() == [3, 4, 7, 11, 18, 29]


def test_damage_is_noticed(tmp_path: Path) -> None:
    place = files_at(tmp_path)
    made = vector_file("a" * 32, 0, [rows(1, 2, 3)])
    (told,) = made.descriptors
    for at in range(1, len(made.content)):
        place.put(made.name, made.content[:at] + bytes([made.content[at] ^ 1]) + made.content[at + 1 :])
        with pytest.raises(WrongVector):
            read(place, told)
    for end in range(len(made.content)):
        place.put(made.name, made.content[:end])
        with pytest.raises(WrongVector):
            read(place, told)
    place.put(made.name, made.content)
    with pytest.raises(WrongVector, match="marks 3 rows, not 4"):
        read(place, {**told, "cardinality": 4})
    with pytest.raises(WrongVector, match="outside of its table"):
        read(place, {**told, "storageType": "p"})
