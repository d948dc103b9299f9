"""Records in files, as workers read them themselves: each once, with the columns that they have of Kafka's source."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.bronze import rows as bronze
from distributary.ingest.kafka import kept_records
from distributary.ingest.kafka.kept_records import KeptFile, KeptRecords, Reading, last_header, rows_of
from distributary.ingest.kafka.records import RAW_SCHEMA, raw_records
from distributary.ingest.reshaping.rule import Beside
from distributary.ingest.storage.opening import files_at

AT = datetime(2026, 3, 4, tzinfo=timezone.utc)


def kept(
    folder: Path, name: str, first: int, count: int, *, group: int = 10, value: bytes = b"v"
) -> tuple[KeptFile, list[dict[str, Any]]]:
    rows = [
        {
            "kafka_topic": "t",
            "kafka_partition": 1,
            "kafka_offset": first + n,
            "kafka_ts": AT,
            "kafka_ts_type": [None, "create_time", "log_append_time", "odd"][n % 4],
            "kafka_key": str(n).encode(),
            "value": value,
            "headers": None
            if n % 2
            else [
                {"key": "a", "value": b"old"},
                {"key": "b", "value": None},
                {"key": "a", "value": b"%d" % n},
            ],
        }
        for n in range(count)
    ]
    schema = pa.schema([one for one in bronze.SCHEMA if one.name != bronze.DAY])
    pq.write_table(pa.Table.from_pylist(rows, schema), folder / name, row_group_size=group)
    return KeptFile(files_at(folder), name, (folder / name).stat().st_size), rows


def every(batch: pa.RecordBatch) -> pa.BooleanArray:
    return pa.array([True] * batch.num_rows)


def test_each_record_has_the_columns_that_workers_want(tmp_path: Path) -> None:
    file, rows = kept(tmp_path, "one", 0, 8)
    reading = Reading(
        every, headers={"header_id": "a"}, beside=Beside(("b", "a"), timestamp_type=True, every_header=True)
    )
    (batch,) = reading.read([file])
    raw = raw_records(batch, ("t",))
    assert raw.schema.equals(RAW_SCHEMA)
    assert raw["offset"].to_pylist() == list(range(8))
    assert raw["ts"].to_pylist() == [AT] * 8
    assert raw["ts_type"].to_pylist() == [-1, 0, 1, -1] * 2
    assert raw["header_id"].to_pylist() == [None if n % 2 else b"%d" % n for n in range(8)]
    assert raw["headers"].to_pylist() == [[None, None if n % 2 else b"%d" % n] for n in range(8)]
    assert raw["every_header"].to_pylist() == [one["headers"] for one in rows]
    assert raw["route"].null_count == 8


@pytest.mark.parametrize("tasks", [1, 2, 3, 40])
def test_tasks_share_all_row_groups_and_no_record_comes_twice(tmp_path: Path, tasks: int) -> None:
    files = [kept(tmp_path, f"{n}", n * 1_000, count)[0] for n, count in enumerate((700, 30, 5))]
    dealt = KeptRecords(None, files, Reading(every, rows=7)).coalesce(tasks)  # type: ignore[arg-type]
    assert 0 < len(dealt.shares) <= tasks
    found = [
        [offset for batch in dealt.reading.read(share) for offset in batch["offset"].to_pylist()]
        for share in dealt.shares
    ]
    wanted = [n * 1_000 + m for n, count in enumerate((700, 30, 5)) for m in range(count)]
    assert sorted(offset for some in found for offset in some) == wanted
    if tasks == 2:
        assert max(map(len, found)) < 2 * min(map(len, found))


def test_files_of_one_row_group_each_are_not_all_for_one_task(tmp_path: Path) -> None:
    files = [kept(tmp_path, f"{n}", n * 1_000, count, group=700)[0] for n, count in enumerate((650, 700))]
    dealt = KeptRecords(None, files, Reading(every)).coalesce(2)  # type: ignore[arg-type]
    found = [sum(batch.num_rows for batch in dealt.reading.read(share)) for share in dealt.shares]
    assert sorted(found) == [650, 700]


def test_only_what_is_wanted_comes_and_large_records_come_few_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kept_records, "_BYTES", 5_000)
    few, _ = kept(tmp_path, "one", 0, 20, group=20, value=bytes(1_000))

    def odd(batch: pa.RecordBatch) -> pa.BooleanArray:
        return pa.array([place % 2 == 1 for place in batch["kafka_offset"].to_pylist()])

    batches = list(Reading(odd).read([few]))
    assert [place for one in batches for place in one["offset"].to_pylist()] == list(range(1, 20, 2))
    large, _ = kept(tmp_path, "two", 0, 20, group=20, value=b"x")
    monkeypatch.setattr(kept_records, "_BYTES", 200)
    assert len(list(Reading(every).read([large]))) > 4


def test_texts_and_bytes_of_other_kinds_are_the_same(tmp_path: Path) -> None:
    file, rows = kept(tmp_path, "one", 0, 4)
    told = pq.read_table(tmp_path / "one")
    for name, kind in (("kafka_topic", pa.string_view()), ("kafka_key", pa.binary_view())):
        told = told.set_column(told.schema.get_field_index(name), name, told[name].cast(kind))
    pq.write_table(told, tmp_path / "two")
    other = KeptFile(file.place, "two", (tmp_path / "two").stat().st_size)

    def of_topic(batch: pa.RecordBatch) -> pa.BooleanArray:
        return pc.equal(batch["kafka_topic"], "t")

    reading = Reading(of_topic, beside=Beside(every_header=True))
    (found,), (wanted,) = list(reading.read([other])), list(reading.read([file]))
    assert found.equals(wanted)
    assert found["every_header"].to_pylist() == [one["headers"] for one in rows]


def test_columns_that_a_file_has_not_are_null(tmp_path: Path) -> None:
    file, _ = kept(tmp_path, "one", 0, 3)
    pq.write_table(
        pq.read_table(tmp_path / "one").drop_columns(["headers", "kafka_ts_type"]), tmp_path / "two"
    )
    old = KeptFile(file.place, "two", (tmp_path / "two").stat().st_size)
    (batch,) = Reading(every, headers={"route": "a"}, beside=Beside(every_header=True)).read([old])
    assert batch["route"].null_count == batch["every_header"].null_count == 3


@given(
    st.lists(
        st.none() | st.lists(st.tuples(st.sampled_from("abc"), st.none() | st.binary(max_size=2)), max_size=4)
    ),
    st.integers(0, 3),
)
def test_of_several_headers_of_a_name_the_last_counts(
    told: Sequence[Sequence[tuple[str, bytes | None]] | None], skipped: int
) -> None:
    rows = [None if one is None else [{"key": key, "value": value} for key, value in one] for one in told]
    headers = pa.array(rows, bronze.HEADERS).slice(skipped)
    wanted = [dict(one or ()).get("b") for one in told[skipped:]]
    assert last_header(headers, "b").to_pylist() == wanted


def test_rows_are_those_of_records_whoever_wrote_them(tmp_path: Path) -> None:
    """Spark writes times of its own kind, of which Arrow makes nanoseconds: of the year 3000 there are none."""
    file, _ = kept(tmp_path, "one", 0, 3)
    late = datetime(3000, 1, 2, tzinfo=timezone.utc)
    told = pq.read_table(tmp_path / "one").drop_columns(["headers"])
    times = pa.array([late] * 3, pa.timestamp("us", "UTC"))
    told = told.set_column(told.schema.get_field_index("kafka_ts"), "kafka_ts", times)
    pq.write_table(told, tmp_path / "two", use_deprecated_int96_timestamps=True)
    (rows,) = rows_of(KeptFile(file.place, "two", (tmp_path / "two").stat().st_size))
    assert rows.schema.equals(bronze.RECORD)
    assert rows["kafka_ts"].to_pylist() == [late] * 3
    assert rows["headers"].null_count == 3
