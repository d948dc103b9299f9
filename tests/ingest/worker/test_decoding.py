"""Records that are more text together than one column of Arrow's can number: a byte of each may be an enum's long name."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from tests.ingest.kafka_records import Sent, batch, folder, numbered, pins, rows_of, value

from distributary.codecs.base import Decoded
from distributary.codecs.protobuf.codec import ProtobufReader
from distributary.ingest.columns.safe_names import QUARANTINE_TABLE
from distributary.ingest.worker import decoding
from distributary.ingest.worker.demux import Demultiplexer

SENT = numbered([value(1, game_name="go", event_id=f"{number:04}" * 25) for number in range(16)])


def places(root: Path, sent: list[Sent], table: str, **changes: object) -> list[int]:
    """The offsets of the records that are in a table."""
    by = pins(root, **changes)
    task = Demultiplexer(by)
    task.take(batch(sent))
    return [row["kafka_offset"] for row in rows_of(by, task.finish(), table)]


@pytest.mark.parametrize("guarded", [False, True])
def test_what_is_too_much_text_for_one_column_is_decoded_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, guarded: bool
) -> None:
    monkeypatch.setattr(decoding, "MOST_TEXT", 450)
    assert places(tmp_path, SENT, folder("go"), guarded=guarded) == list(range(16))


def test_a_record_that_is_too_much_text_by_itself_goes_to_quarantine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(decoding, "MOST_TEXT", 450)
    large = value(1, game_name="go", event_id="x" * 500)
    sent = numbered([*(one.value for one in SENT[:3]), large, SENT[3].value])
    by = pins(tmp_path)
    task = Demultiplexer(by)
    task.take(batch(sent))
    report = task.finish()
    assert [row["kafka_offset"] for row in rows_of(by, report, folder("go"))] == [0, 1, 2, 4]
    (refused,) = rows_of(by, report, QUARANTINE_TABLE)
    assert (refused["kafka_offset"], refused["reason"]) == (3, "too_large")
    assert refused["detail"] == "a single column of the record takes more than 1 GiB"


@pytest.mark.parametrize(
    "error",
    [pa.ArrowInvalid("offset overflow while concatenating arrays"), pa.ArrowCapacityError("no room")],
)
def test_where_arrow_has_no_room_for_all_of_them_they_are_decoded_in_pieces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: pa.ArrowException
) -> None:
    decode = ProtobufReader.decode

    def few(self: ProtobufReader, payloads: pa.BinaryArray) -> Decoded:
        if len(payloads) > 3:
            raise error
        return decode(self, payloads)

    monkeypatch.setattr(ProtobufReader, "decode", few)
    assert places(tmp_path, SENT, folder("go")) == list(range(16))


def test_another_error_of_arrow_s_is_a_defect_and_no_matter_of_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(self: ProtobufReader, payloads: pa.BinaryArray) -> Decoded:
        raise pa.ArrowInvalid("something else")

    monkeypatch.setattr(ProtobufReader, "decode", broken)
    with pytest.raises(pa.ArrowInvalid, match="something else"):
        places(tmp_path, SENT, folder("go"))


def test_texts_are_measured_in_whatever_depth() -> None:
    nested = pa.array([{"a": [{"b": "xxxx"}, {"b": "y"}]}, None, {"a": [{"b": None}]}])
    rows = pa.RecordBatch.from_arrays([nested, pa.array(["zz", None, ""])], names=["n", "t"])
    assert [decoding._text_bytes(column) for column in rows.columns] == [5, 2]
    assert [decoding._text_bytes(column) for column in rows.slice(1).columns] == [0, 0]
    assert decoding._text_bytes(pa.array([1, 2])) == 0
