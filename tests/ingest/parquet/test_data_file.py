from __future__ import annotations

import uuid

import pytest

from distributary.ingest.parquet.data_file import (
    file_name,
    generation_mark,
    merged_name,
    merger,
    owner,
)


@pytest.mark.parametrize("batch_id", [0, 7, 12_345_678_901])
def test_a_name_says_whose_it_is(batch_id: int) -> None:
    generation = uuid.uuid4().hex
    assert owner(file_name(generation, batch_id)) == (generation_mark(generation), batch_id)
    assert merger(merged_name(generation, batch_id)) == (generation_mark(generation), batch_id)
    assert (merger(file_name(generation, batch_id)), owner(merged_name(generation, batch_id))) == (None, None)


def test_no_two_names_are_the_same() -> None:
    assert len({file_name("ab" * 16, 1) for _ in range(1_000)}) == 1_000


def test_a_uuid_with_dashes_is_the_same_generation() -> None:
    generation = uuid.UUID(int=2**127 + 5)
    assert generation_mark(str(generation)) == generation_mark(generation.hex)


@pytest.mark.parametrize(
    "name",
    [
        "part-00000-2f0d2f1c-9f1b-4a51-9f6d-0d8a3d1f7c11-c000.snappy.parquet",
        "0123abcd-0000000001-zz.parquet",
        "0123abcd-1-" + "0" * 32 + ".parquet",
        "0123abcd-0000000001-" + "0" * 32 + ".parquet.crc",
        "_delta_log",
    ],
)
def test_files_of_others_have_no_owner(name: str) -> None:
    assert owner(name) is None
    assert merger(name) is None
