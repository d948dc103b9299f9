"""Files that bring their schemas, read as a worker reads them; what is in them is in tests/codecs/containers."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.codecs.containers.containers import block, container, header, sized
from tests.ingest.landing.landed import looking, put, records

from distributary.ingest.landing import reading
from distributary.ingest.landing.told import read
from distributary.ingest.landing.written_with import guid_of
from distributary.ingest.storage.posix import PosixFiles


def avro(count: int) -> bytes:
    return container("string", [[f"{n}" for n in range(count)]], "deflate")


def parquet(count: int) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"n": range(count)}), file)
    return file.getvalue()


@pytest.fixture
def folder(tmp_path: Path) -> PosixFiles:
    return PosixFiles(tmp_path)


@pytest.mark.parametrize("whole", [0, 64 << 20])
@pytest.mark.parametrize(("of", "data"), [("avro", avro(5)), ("parquet", parquet(5))])
def test_a_file_is_read_whole_or_by_parts_and_rows_are_its_records(
    folder: PosixFiles, of: str, data: bytes, whole: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_WHOLE_BYTES", whole)
    put(folder, {"a": data})
    look = looking(folder, format=of)
    look.look(0)
    found = records(folder, look, of)
    assert [offset for offset, _ in found] == list(range(5))
    assert found[4][1].endswith(b"4" if of == "avro" else b'"n":4}')


def test_a_schema_is_kept_before_records_name_it_and_damage_is_told_where_it_is(folder: PosixFiles) -> None:
    put(folder, {"a": header("string") + block(1, sized(b"x")) + block(2, b"\xff") + block(1, sized(b"y"))})
    look = looking(folder, format="avro")
    look.look(0)
    (first, value), (second, told), (third, _) = records(folder, look, "avro")
    assert (first, second, third) == (0, 1, 3)
    assert (value[:1], (read(told) or ("",))[0]) == (b"\1", "file_rows_damaged")
    kept = reading.Landing(folder, "landing", "avro", folder.below("register")).schemas()
    assert kept.by_ref(guid_of('"string"')).text == '"string"'


@pytest.mark.parametrize(("of", "data"), [("avro", avro(5)), ("parquet", parquet(5))])
def test_a_store_that_fails_is_no_damage_of_a_file(
    folder: PosixFiles, of: str, data: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(folder, {"a": data})
    look = looking(folder, format=of)
    look.look(0)
    monkeypatch.setattr(reading, "_WHOLE_BYTES", 0)

    class Failing(io.BytesIO):
        def read(self, size: int | None = -1) -> bytes:
            raise OSError("the store said 500")

    def reader(self: Any, path: str, size: int) -> Any:
        return Failing(data)

    monkeypatch.setattr(PosixFiles, "reader", reader)
    with pytest.raises(OSError, match="the store said 500"):
        records(folder, look, of)
