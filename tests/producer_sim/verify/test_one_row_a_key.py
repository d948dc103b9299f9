from __future__ import annotations

import pyarrow as pa
import pytest

from distributary.ingest.settings.groups import Columns
from distributary.producer_sim.verify.one_row_a_key import KeysMet

POINT = pa.struct([("x", pa.int64())])


def rows(*keys: tuple[str, int, bytes, str | None]) -> pa.RecordBatch:
    names, points, raw, texts = zip(*keys, strict=True)
    return pa.RecordBatch.from_pydict(
        {
            "id": pa.array(names),
            "point": pa.array([{"x": point} for point in points], POINT),
            "kafka_key": pa.array(raw, pa.binary()),
            "kafka_key_text": pa.array(texts, pa.string()),
        }
    )


def twice(paths: tuple[tuple[str, ...], ...], columns: Columns | None = None) -> int:
    met = KeysMet(paths, columns or Columns())
    met.add(rows(("a", 1, b"1", "one"), ("a", 2, b"2", "one")))
    met.add(rows(("A", 1, b"\xff", None), ("a", 1, b"\xfe", None)))
    return met.twice()


def test_rows_that_have_the_key_of_another_one_are_counted() -> None:
    assert twice((("id",),)) == 2
    assert twice((("id",), ("point", "x"))) == 1
    assert twice((("point", "x"),)) == 2


def test_a_records_own_key_is_its_text_where_it_has_one_and_its_bytes_otherwise() -> None:
    assert twice(()) == 0
    assert twice((), Columns(key_text="kafka_key_text")) == 1


def test_a_table_without_rows_has_no_key_twice() -> None:
    assert KeysMet((("id",),), Columns()).twice() == 0


@pytest.mark.parametrize(
    ("spans", "wrong"),
    [
        ([("a", 1, 3), ("a", 3, 5), ("a", 9, None), ("b", 0, None)], 0),
        ([("a", 1, 4), ("a", 3, 5)], 1),
        ([("a", 1, None), ("a", 3, 5)], 1),
        ([("a", 1, None), ("b", 3, None), ("a", 3, None)], 1),
        ([("a", 3, 3)], 1),
        ([("a", 4, 3), ("b", 4, None)], 1),
    ],
)
def test_rows_that_say_when_they_are_true_may_have_the_key_of_another_one_at_another_time(
    spans: list[tuple[str, int, int | None]], wrong: int
) -> None:
    met = KeysMet((("id",),), Columns(), ("since", "until"))
    for key, since, until in spans:
        moments = pa.timestamp("us", "UTC")
        arrays = [pa.array([key], pa.string_view()), pa.array([since], moments), pa.array([until], moments)]
        met.add(pa.RecordBatch.from_arrays(arrays, names=["id", "since", "until"]))
    assert met.twice() == wrong
