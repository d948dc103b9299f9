"""Manifests: their sums, their text and where they are kept."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.pipelines import begun, keep

from distributary.errors import CheckpointMismatch, SumsDisagree
from distributary.ingest.bronze.rule import ALREADY
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.manifest import (
    BatchPins,
    Counts,
    Manifest,
    Merging,
    Remembering,
    Role,
    SpanRead,
    TableFiles,
)
from distributary.ingest.checkpoint.manifest_json import (
    from_json,
    rewritten_from_json,
    rewritten_to_json,
    to_json,
)
from distributary.ingest.checkpoint.manifests import ManifestStore, names_of
from distributary.ingest.checkpoint.sums import check_sums
from distributary.ingest.columns.layout import NO_COLUMNS, Layout
from distributary.ingest.commit_log.reading import entry_path
from distributary.ingest.kafka.offsets import Offsets
from distributary.ingest.merge.rule import Validity
from distributary.ingest.parquet.data_file import DataFile
from distributary.registry.base import Guid

LAYOUT = Layout(
    pa.schema(
        [
            pa.field("score", pa.int64(), metadata={b"distributary.source": b"Score"}),
            pa.field(
                "where", pa.struct([pa.field("x", pa.float64(), metadata={b"distributary.source": b"X "})])
            ),
            pa.field("inventory", pa.map_(pa.string(), pa.list_(pa.timestamp("us", tz="UTC")))),
        ]
    )
)
OTHER_LAYOUT = Layout(pa.schema([("level", pa.int32()), ("exact", pa.decimal128(20, 0))]))


def files(folder: str, rows: list[int]) -> tuple[DataFile, ...]:
    return tuple(DataFile(folder, f"part-{n}.parquet", r, r * 10, "{}") for n, r in enumerate(rows))


def table(folder: str, rows: list[int], role: Role = "events", layout: Layout = LAYOUT) -> TableFiles:
    return TableFiles(folder, role, f"g1/{folder}", layout, True, files(folder, rows))


# Ten offsets of each of two partitions, one of them without a record.
def manifest(batch_id: int = 7, offsets: Offsets | None = None, counts: Counts | None = None) -> Manifest:
    return Manifest(
        batch_id,
        "g1",
        "2026-01-01T00:00:00+00:00",
        "0.1.0",
        offsets or {"events": {0: (10, 20), 1: (0, 10)}},
        BatchPins({1: "aa", Guid("1"): "bb"}, "cc", {"denied": ["x"]}),
        {"a": "silver_a", "b": "silver_b"},
        (
            table("silver_a", [5, 4]),
            table("silver_b", [3], layout=OTHER_LAYOUT),
            table("quarantine", [2], "quarantine"),
            table("ledger_batches", [1], "batches"),
        ),
        counts or sums(),
        {"silver_a": ((1, ()), (Guid("1"), (0, 2))), "silver_b": ((1, ()),), "silver_c": ((1, ()),)},
    )


def sums(**changed: object) -> Counts:
    values: dict[str, object] = {
        "read": {"events": {0: SpanRead(10, 10, 19), 1: SpanRead(9, 0, 9)}},
        "rows": {"silver_a": 9, "silver_b": 3},
        "quarantined": {"undecodable": 2},
        "dropped": {"tombstone": 1},
        "already": 4,
    }
    return Counts(**{**values, **changed})  # type: ignore[arg-type]


name = st.text(min_size=1, max_size=8)
count = st.integers(0, 2**40)
spans = st.one_of(
    st.just(SpanRead(0, None, None)),
    st.tuples(st.integers(0, 2**60), st.integers(1, 2**40)).map(
        lambda t: SpanRead(t[1], t[0], t[0] + t[1] - 1)
    ),
)
partitions = st.lists(st.tuples(name, st.none() | name), max_size=2).map(tuple)
data_files = st.builds(DataFile, name, name, count, count, st.text(max_size=30), partitions)
layouts = st.sampled_from([LAYOUT, OTHER_LAYOUT, Layout(pa.schema(LAYOUT.columns)), NO_COLUMNS])
tables = st.builds(
    TableFiles,
    name,
    st.sampled_from(["events", "quarantine", "batches", "changes", "bronze"]),
    name,
    layouts,
    st.booleans(),
    st.lists(data_files, max_size=3).map(tuple),
    st.none()
    | st.builds(
        Merging, st.lists(name).map(tuple), st.lists(name).map(tuple), st.sampled_from(["stop", "timestamp"])
    ),
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | name,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(name, inner, max_size=3),
    max_leaves=5,
)
manifests = st.builds(
    Manifest,
    batch_id=count,
    generation=name,
    created_at=name,
    code_version=name,
    offsets=st.dictionaries(name, st.dictionaries(count, st.tuples(count, count), max_size=3), max_size=2),
    pins=st.builds(
        BatchPins,
        st.dictionaries(st.integers(0, 2**31) | name, name, max_size=3),
        name,
        st.dictionaries(name, json_values, max_size=2),
    ),
    entities=st.dictionaries(name, name, max_size=3),
    tables=st.lists(tables, max_size=4).map(tuple),
    counts=st.builds(
        Counts,
        st.dictionaries(name, st.dictionaries(count, spans, max_size=3), max_size=2),
        st.dictionaries(name, count, max_size=2),
        st.dictionaries(name, count, max_size=2),
        st.dictionaries(name, count, max_size=2),
        count,
        expected=st.dictionaries(
            name, st.dictionaries(name, st.tuples(count, count), max_size=2), max_size=2
        ),
        kept=st.dictionaries(name, count, max_size=2),
    ),
)


def through_text(value: Manifest) -> Manifest:
    return from_json(json.loads(json.dumps(to_json(value))))


@pytest.fixture
def here(tmp_path: Path) -> Checkpoint:
    return Checkpoint.at(tmp_path)


@given(manifests)
def test_every_manifest_survives_its_text(value: Manifest) -> None:
    assert through_text(value) == value


# Older programs read the oldest format that says all there is to say; what they would pass over they refuse.
@pytest.mark.parametrize(
    ("merging", "expected"),
    [
        (None, 1),
        (Merging(("id",)), 2),
        (Merging(("id",), ("at",), "timestamp", "present"), 3),
        (Merging(("id",), deletes=Remembering(7)), 3),
        (Merging(("id",), ("at",), deletes=Remembering(7), history=Validity(apart=("seen", "kafka_key"))), 6),
    ],
)
def test_a_manifest_has_the_oldest_format_that_tells_all(merging: Merging | None, expected: int) -> None:
    whole = manifest()
    first, *others = whole.tables
    whole = replace(whole, tables=(replace(first, merging=merging), *others))
    assert to_json(whole)["format"] == expected
    assert through_text(whole) == whole


def test_files_in_partitions_take_a_format_of_their_own() -> None:
    whole = manifest()
    first, *others = whole.tables
    values = (("day", "2026-01-02"), ("land", None))
    parted = replace(first, files=tuple(replace(file, partition=values) for file in first.files))
    assert (first.partitions, parted.partitions) == ((), ("day", "land"))
    again = replace(whole, tables=(parted, *others))
    assert to_json(again)["format"] == 4
    assert through_text(again) == again
    written = json.loads(json.dumps(rewritten_to_json({"t": parted.files})))
    assert rewritten_from_json(written) == {"t": parted.files}
    # Of a table that is whole a file is what it was to versions before.
    assert all(len(file) == 5 for file in to_json(whole)["tables"][0]["files"])


def test_what_remembers_deletes_is_a_part_of_its_table() -> None:
    whole = manifest()
    first, *others = whole.tables
    gone = files("silver_a__deleted", [2])
    first = replace(first, merging=Merging(("id",), deletes=Remembering(7)), deletes=gone)
    whole = replace(whole, tables=(first, *others))
    assert first.folder == "silver_a"
    assert list(first.parts) == ["silver_a__deleted", "silver_a"]
    assert first.rows == sum(file.rows for file in first.files) + 2
    assert gone[0].name in whole.file_names()
    assert through_text(whole) == whole
    again = (replace(gone[0], name="again.parquet"),)
    assert first.with_parts({"silver_a__deleted": again}) == replace(first, deletes=again)
    assert first.with_parts({"silver_a": again}) == replace(first, files=again)


def test_what_remembers_all_records_has_each_once() -> None:
    whole = manifest()
    first, *_ = whole.tables
    remembered = files("silver_a__deleted", [7])
    merging = Merging(("id",), ("at",), deletes=Remembering(7), history=Validity())
    assert replace(first, merging=merging, deletes=remembered).rows == 7


def test_a_layout_shared_by_many_tables_is_kept_once() -> None:
    many = replace(
        manifest(),
        tables=tuple(table(f"t{n}", [1], layout=Layout(pa.schema(LAYOUT.columns))) for n in range(50)),
    )
    assert len(to_json(many)["layouts"]) == 1
    assert through_text(many) == many


def test_sums_that_agree_are_let_through() -> None:
    check_sums(manifest())
    assert manifest().gaps == {"events": {1: 1}}
    assert manifest().counts.total_read == 19


@pytest.mark.parametrize(
    ("counts", "said"),
    [
        (
            sums(rows={"silver_a": 8, "silver_b": 3}),
            "table silver_a: its files hold 9 rows, the workers reported 8",
        ),
        (sums(rows={"silver_a": 9}), "table silver_b: its files hold 3 rows, the workers reported 0"),
        (sums(rows={"silver_a": 9, "silver_b": 3, "x": 0, "y": 1}), "table y: its files hold 0 rows"),
        (sums(quarantined={"a": 1, "b": 2}), "the quarantine's files hold 2 rows, the workers reported 3"),
        (
            sums(dropped={}),
            "19 records were read, 18 are accounted for: 12 in tables, 2 in quarantine, 0 dropped",
        ),
        (sums(already=5), "19 records were read, 20 are accounted for"),
        (sums(already=-1, dropped={"x": 6}), "a count is negative: there already"),
        (sums(read={"events": {0: SpanRead(19, 10, 19)}}), "events/0: 19 records were read"),
        (sums(read={"events": {0: SpanRead(10, 9, 19), 1: SpanRead(9, 0, 9)}}), "the first at 9"),
        (sums(read={"events": {0: SpanRead(10, 10, 20), 1: SpanRead(9, 0, 9)}}), "from 10 to before 20"),
        (sums(read={"events": {0: SpanRead(10, 10, 18), 1: SpanRead(9, 0, 9)}}), "the last at 18"),
        (
            sums(read={"events": {0: SpanRead(10, 10, 19), 2: SpanRead(9, 0, 9)}}),
            "the batch has no such partition",
        ),
        (sums(read={"events": {0: SpanRead(10, None, 19), 1: SpanRead(9, 0, 9)}}), "the first at None"),
        (sums(read={"events": {0: SpanRead(10, None, None), 1: SpanRead(9, 0, 9)}}), "the first at None"),
        (
            sums(read={"events": {0: SpanRead(0, 10, 10), 1: SpanRead(9, 0, 9)}}),
            "0 records were read, the first",
        ),
    ],
)
def test_sums_that_do_not_agree_are_named(counts: Counts, said: str) -> None:
    with pytest.raises(SumsDisagree) as caught:
        check_sums(manifest(counts=counts))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ({"bronze": 15, ALREADY: 4}, ""),
        ({"bronze": 15, ALREADY: 3}, "19 records were read, and 18 were kept as they came"),
        (
            {"bronze": 16, ALREADY: 3},
            "table bronze: its files hold 15 records as they came, the workers reported 16",
        ),
        ({ALREADY: 19}, "table bronze: its files hold 15 records as they came, the workers reported 0"),
        ({}, "19 records were read, and 0 were kept as they came"),
    ],
)
def test_every_record_read_is_kept_as_it_came_where_that_is_wanted(kept: dict[str, int], said: str) -> None:
    whole = manifest(counts=sums(kept=kept))
    pins = replace(whole.pins, decisions={"rules": {"bronze": {"events": "bronze"}}})
    tables = (*whole.tables, table("bronze", [10, 5], "bronze"))
    whole = replace(whole, pins=pins, tables=tables)
    assert through_text(whole) == whole
    assert to_json(whole)["format"] == 9
    if said:
        with pytest.raises(SumsDisagree, match=said):
            check_sums(whole)
    else:
        check_sums(whole)


def test_a_batch_without_a_record_agrees() -> None:
    read = {"events": {0: SpanRead(0, None, None)}}
    empty = replace(manifest(counts=Counts(read)), tables=())
    check_sums(empty)
    assert empty.gaps == {"events": {0: 10, 1: 10}}


def test_what_was_written_is_read_back(here: Checkpoint) -> None:
    store = ManifestStore(here)
    assert store.last() is None and store.last_batch() is None and store.read(7) is None
    keep(here, manifest())
    assert store.read(7) == store.last() == manifest()
    assert store.last_batch() == 7
    assert store.read(6) is store.read(8) is None


def test_the_last_one_is_found_behind_starts(here: Checkpoint) -> None:
    keep(here, manifest())
    for number in (8, 9):
        assert begun(here).start.number == number
    assert ManifestStore(here).last() == manifest()
    assert ManifestStore(here).read(8) is None


def test_of_files_written_again_the_new_ones_stay(here: Checkpoint) -> None:
    keep(here, manifest())
    again = files("silver_a", [9])[0]
    writer = begun(here)
    writer.rewrite(rewritten_to_json({"silver_a": (replace(again, name="again.parquet"),)}))
    names = names_of(begun(here).unsettled(), here.log)
    kept = {file.name for table in manifest().tables if table.folder != "silver_a" for file in table.files}
    assert names == {*kept, "again.parquet"}


@pytest.mark.parametrize(
    "edit",
    [
        lambda text: "",
        lambda text: text[:-20],
        lambda text: "[]",
        lambda text: "{}",
        lambda text: text.replace('"format":1,"batch_id"', '"format":2,"batch_id"'),
        lambda text: text.replace('"format":1,"batch_id"', '"format":3,"batch_id"'),
        lambda text: text.replace('"role":"events"', '"role":"other"'),
        lambda text: text.replace('"layout":"', '"layout":"0'),
        lambda text: text.replace('"layouts":{', '"layouts":{"x":"AAAA",'),
        lambda text: text.replace('"batch_id":7', '"batch_id":8'),
    ],
)
def test_a_manifest_that_was_edited_is_not_taken_for_none(
    here: Checkpoint, edit: Callable[[str], str]
) -> None:
    keep(here, manifest())
    path = here.folder / entry_path(7)
    path.write_text(edit(path.read_text()))
    with pytest.raises(CheckpointMismatch, match=r"7\.json"):
        ManifestStore(here).read(7)


def test_a_thousand_tables_take_little_time(here: Checkpoint) -> None:
    statistics = json.dumps({"numRecords": 5, "minValues": {f"column_{n}": n for n in range(100)}})
    assert 1_500 < len(statistics) < 2_500

    def big(number: int) -> TableFiles:
        folder = f"silver_{number}_events"
        parts = tuple(DataFile(folder, f"part-{n}.parquet", 5, 4_096, statistics) for n in range(2))
        return TableFiles(folder, "events", f"g1/{folder}", LAYOUT, True, parts)

    tables = tuple(big(number) for number in range(1_000))
    counts = Counts({"events": {0: SpanRead(10_000, 0, 9_999)}}, {one.folder: 10 for one in tables})
    value = replace(manifest(counts=counts, offsets={"events": {0: (0, 10_000)}}), tables=tables)
    began = time.perf_counter()
    keep(here, value)
    written = time.perf_counter()
    assert ManifestStore(here).read(7) == value
    # Ten times what it takes on a quiet machine.
    assert written - began < 2.0 and time.perf_counter() - written < 2.0
