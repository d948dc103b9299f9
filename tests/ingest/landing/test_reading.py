from __future__ import annotations

import gzip
import io
import json
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.landing.landed import looking, put, records, registered

from distributary.codecs.containers.base import Damaged
from distributary.ingest.landing import formats, reading
from distributary.ingest.landing.formats import FORMATS
from distributary.ingest.landing.reading import Landing, rows_of
from distributary.ingest.landing.told import read, record
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.posix import PosixFiles


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    return bytes(sink.getvalue())


def values(of: str, *pieces: bytes) -> tuple[list[tuple[int, bytes]], bool]:
    """Rows and values, and whether all could be read."""
    found = list[tuple[int, bytes]]()
    try:
        for first, batch in FORMATS[of](pieces):
            found += [(first + place, value) for place, value in enumerate(batch) if value is not None]
    except Damaged:
        return found, False
    return found, True


def test_the_offset_of_a_line_is_its_files_number_and_its_row(files: Files) -> None:
    put(files, {"a": b'{"n": 1}\r\n\n{"n": 2}\n', "b": b'{"n": 3}'})
    look = looking(files)
    look.look(0)
    found = dict(records(files, look))
    a, b = (0, 1) if found[0] == b'{"n": 1}' else (1, 0)
    assert found == {a << 32: b'{"n": 1}', (a << 32) + 2: b'{"n": 2}', b << 32: b'{"n": 3}'}


@pytest.mark.parametrize(("name", "compress"), [("a.gz", gzip.compress), ("a.zst", zstd), ("a", bytes)])
def test_what_is_compressed_is_read_as_what_is_not(files: Files, name: str, compress: object) -> None:
    lines = b"".join(b'{"n": %d}\n' % number for number in range(5000))
    put(files, {name: compress(lines)})  # type: ignore[operator]
    look = looking(files)
    look.look(0)
    assert [value for _, value in records(files, look)] == lines.splitlines()


def test_members_of_gzip_are_read_one_behind_the_other(files: Files) -> None:
    put(files, {"a.gz": gzip.compress(b"1\n2\n") + gzip.compress(b"3\n") + b"\0" * 512})
    look = looking(files)
    look.look(0)
    assert [value for _, value in records(files, look)] == [b"1", b"2", b"3"]


@pytest.mark.parametrize("name", ["a.gz", "a.zst"])
def test_a_file_of_nothing_but_zeros_is_told_as_damaged(files: Files, name: str) -> None:
    """As one is whose place was set aside before it was copied there, and that then was not."""
    put(files, {name: bytes(20_000)})
    look = looking(files)
    look.look(0)
    [(_, value)] = records(files, look)
    assert (read(value) or ("",))[0] == "file_damaged"


@pytest.mark.parametrize(("name", "compress"), [("a.gz", gzip.compress), ("a.zst", zstd)])
def test_of_a_file_that_was_cut_off_the_rows_before_that_are_read_and_the_rest_is_told(
    files: Files, name: str, compress: object
) -> None:
    lines = [b'{"n": %d, "of": "%d"}' % (number, hash(str(number)) % 10**15) for number in range(60_000)]
    whole = compress(b"\n".join(lines))  # type: ignore[operator]
    put(files, {name: whole[: len(whole) // 2]})
    look = looking(files)
    look.look(0)
    *rows, (offset, last) = records(files, look)
    assert [value for _, value in rows] == lines[: len(rows)]
    assert len(rows) > 1000
    reason, sentence = read(last) or ("", "")
    assert (reason, offset) == ("file_damaged", len(rows))
    assert "cut off" in sentence
    assert json.loads(last)["distributary_file"]["path"] == name


@given(st.binary(max_size=60), st.integers(1, 9))
def test_lines_are_the_same_however_they_come(data: bytes, size: int) -> None:
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    assert values("lines", *pieces) == values("lines", data)
    expected = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    assert [value for _, value in values("lines", data)[0]] == [
        line.removesuffix(b"\r") for line in expected if line.removesuffix(b"\r").strip()
    ]


def test_a_line_of_text_becomes_an_object_and_stays_as_it_is_where_it_is_no_text() -> None:
    assert values("text", b'say "hi"\n\n\xff\n') == (
        [(0, b'{"value": "say \\"hi\\""}'), (1, b'{"value": ""}'), (2, b"\xff")],
        True,
    )


@pytest.mark.parametrize(
    ("whole", "expected", "fine"),
    [
        (b'{\n "a": 1\n}', [b'{\n "a": 1\n}'], True),
        (b'[{"a": 1},\n {"a": [2, {}]} ]\n', [b'{"a": 1}', b'{"a": [2, {}]}'], True),
        (b'{"a": 1}{"a": 2}\n[{"a": 3}]', [b'{"a": 1}', b'{"a": 2}', b'{"a": 3}'], True),
        (b"[]", [], True),
        (b"  \n", [], True),
        (b"\xef\xbb\xbf[1]", [b"1"], True),
        (b'[{"a": 1}, {"a": ', [b'{"a": 1}'], False),
        (b'[{"a": 1} {"a": 2}]', [b'{"a": 1}'], False),
        (b'[{"a": 1}', [b'{"a": 1}'], False),
        (b"nonsense", [], False),
        (b'{"a": "\xff"}', [b'{"a": "\xff"}'], True),
        (b'{"a": ' + b"9" * 6000 + b"}", [b'{"a": ' + b"9" * 6000 + b"}"], True),
        (b"[" + b"[" * 200_000, [], False),
    ],
)
def test_documents_are_taken_as_they_stand(whole: bytes, expected: list[bytes], fine: bool) -> None:
    assert values("documents", whole) == (list(enumerate(expected)), fine)


def test_a_file_that_is_gone_is_told_or_an_error(files: Files) -> None:
    put(files, {"a": b"1"})
    look = looking(files)
    look.look(0)
    files.delete(["landing/a"])
    with pytest.raises(FileNotFoundError):
        records(files, look)
    [(offset, value)] = records(files, look, skips_gone=True)
    assert (offset, (read(value) or ("",))[0]) == (0, "file_gone")
    assert value == record("a", 0, "file_gone"), "as earlier versions told of each that was gone"
    assert "counts as read" in (read(value) or ("", ""))[1]


def test_a_file_that_was_written_to_since_is_told_and_not_read(files: Files) -> None:
    put(files, {"a": b"1"})
    look = looking(files)
    look.look(0)
    put(files, {"a": b"2, longer"})
    [(offset, value)] = records(files, look)
    assert (offset, (read(value) or ("",))[0]) == (0, "file_changed")


@pytest.mark.parametrize(("millis", "year"), [(10**16, 9999), (-(10**16), 1)])
def test_of_a_time_that_no_timestamp_holds_the_nearest_that_one_does_is_taken(
    tmp_path: Path, millis: int, year: int
) -> None:
    files = PosixFiles(tmp_path)
    put(files, {"a": b"1"})
    look = looking(files)
    look.look(0)
    (file,) = registered(look)
    reads = Landing(files.below("landing"), "landing", "lines", files.below("register"))
    (batch,) = rows_of(reads, replace(file, modified=millis), reads.schemas().named)
    assert [time.year for time in batch["timestamp"].to_pylist()] == [year]


def test_no_other_record_is_taken_for_one_that_tells_of_a_file() -> None:
    for value in (
        None,
        b"",
        b'{"distributary_file":',
        b'{"distributary_file":{"reason":"nonsense"}}',
        b'{"distributary_file":1}',
    ):
        assert read(value) is None


def test_an_empty_stream_has_no_records() -> None:
    assert values("lines") == values("documents") == values("text") == ([], True)
    assert list(FORMATS["lines"](iter([b""]))) == []
    assert io.BytesIO().read() == b""


def test_a_line_in_many_pieces_is_one_line_and_takes_no_longer_for_it() -> None:
    pieces = [b"\xef", b"\xbb\xbf1", *[b"x" * 1000] * 20_000, b"\r\n", b"2\n3"]
    began = time.process_time()
    (row, long), (second, two), (third, three) = values("lines", *pieces)[0]
    assert time.process_time() - began < 5.0, "not in the square of the pieces"
    assert (row, len(long), long[:2], second, two, third, three) == (0, 20_000_001, b"1x", 1, b"2", 2, b"3")


def test_a_line_that_no_record_holds_is_told_and_not_held(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(formats, "_LARGEST_LINE", 1000)
    read = list[int]()

    def endless() -> Iterator[bytes]:
        yield b"1\n2\n"
        while True:
            read.append(1)
            yield b"x" * 100

    found = formats.lines(endless())
    assert next(found) == (0, [b"1", b"2"])
    with pytest.raises(Damaged, match="a line takes more than 256 MiB"):
        next(found)
    assert len(read) == 11


def test_a_file_with_more_rows_than_have_a_number_is_told_within_its_own_offsets(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "MOST_ROWS", 3)
    put(files, {"a": b"1\n2\n3\n4\n"})
    look = looking(files)
    look.look(0)
    [(offset, value)] = records(files, look)
    assert offset < 3
    assert (read(value) or ("",))[0] == "file_damaged"
