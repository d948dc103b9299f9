from __future__ import annotations

import os
import resource
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import PrimitiveType
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.merge.test_any_cut import cut, same
from tests.ingest.merge.test_upsert import START
from tests.ingest.merge.upserted import PRESENT, Upserted, of_at_most, ordered_by

from distributary.ingest.merge.counts import MergeCounts
from distributary.ingest.merge.rule import Deletes, MergeRule, Update, memory_folder
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import At, files_at

INNER = pa.struct([("x", pa.int64()), ("in", pa.struct([("y", pa.string()), ("z", pa.int64())]))])
COLUMNS = [
    ("id", pa.int64()),
    ("seq", pa.int64()),
    ("a", pa.string()),
    ("b", pa.int64()),
    ("s", INNER),
    ("l", pa.list_(pa.struct([("n", pa.int64())]))),
    ("gone", pa.bool_()),
]
ALL = ("a", "b", "s", "l")


def made(root: At, *, mark: bool = False, update: Update = "present") -> Upserted:
    found = Upserted.made(root, COLUMNS, MergeRule(("id",), ordered_by("seq"), update), deletes=mark)
    if mark:
        memory = files_at(root).below(memory_folder(found.folder))
        found.rule = MergeRule(("id",), ordered_by("seq"), update, Deletes(memory, mark="gone"))
    return found


def row(key: int, seq: int, offset: int = 0, **given: Any) -> dict[str, Any]:
    own = {name: given.pop(name) for name in list(given)}
    present = own.pop("present", tuple(own))
    place = {"topic": "t", "partition": 0, "offset": offset, "ts": START}
    empty = dict.fromkeys((*ALL, "gone"))
    return {**place, "id": key, "seq": seq, **empty, **own, PRESENT: tuple(present)}


def plain(table: Upserted) -> dict[int, tuple[Any, ...]]:
    return {key: tuple(one[name] for name in (*ALL, "gone")) for key, one in table.by_key().items()}


def test_a_producer_on_an_old_schema_does_not_empty_new_columns(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, a="a", b=1), row(2, 1, a="b", b=2)])
    assert table.merge([row(1, 2, a="c"), row(3, 1, a="d")]) == MergeCounts(inserted=1, updated=1)
    assert {key: found[:2] for key, found in plain(table).items()} == {
        1: ("c", 1),
        2: ("b", 2),
        3: ("d", None),
    }
    assert table.by_key()[1]["seq"] == 2


def test_a_null_of_its_own_schema_is_set(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, a="a", b=1)])
    table.merge([row(1, 2, a="c", b=None)])
    assert plain(table)[1][:2] == ("c", None)


def test_what_a_file_says_to_set_and_lacks_becomes_null(tmp_path: Path) -> None:
    """As where a record's value has a type of which the column takes nothing."""
    table = made(tmp_path)
    table.merge([row(1, 1, a="a", b=1, s={"x": 1, "in": {"y": "y", "z": 1}})])
    whole, table.schema = table.schema, pa.schema([one for one in table.schema if one.name not in ("b", "s")])
    table.merge([{**row(1, 2, a="c"), PRESENT: ("a", "b", "s.in.y", "l")}])
    table.schema = whole
    assert plain(table)[1][:3] == ("c", None, None)


def test_parts_of_a_struct_are_kept_unless_it_is_emptied(tmp_path: Path) -> None:
    table = made(tmp_path)
    table.merge([row(1, 1, s={"x": 1, "in": {"y": "y", "z": 1}})])
    table.merge([row(1, 2, s={"x": 2, "in": {"y": "new", "z": None}}, present=["s.x", "s.in.y"])])
    assert plain(table)[1][2] == {"x": 2, "in": {"y": "new", "z": 1}}
    table.merge([row(1, 3, s={"x": 3, "in": None}, present=["s.x", "s.in.y"])])
    assert plain(table)[1][2] == {"x": 3, "in": None}
    table.merge([row(1, 4, s={"x": None, "in": {"y": "again", "z": None}}, present=["s.in.y"])])
    assert plain(table)[1][2] == {"x": 3, "in": {"y": "again", "z": None}}
    table.merge([row(1, 5, s=None, present=["s.x"])])
    assert plain(table)[1][2] is None


def test_columns_that_the_batch_knows_nothing_of_are_kept_in_rows_that_are_made(tmp_path: Path) -> None:
    table = made(tmp_path, mark=True)
    table.merge([row(1, 1, a="a", b=1), row(2, 1, a="b", b=2)])
    DeltaTable(tmp_path / "players").alter.add_columns([Field("by_hand", PrimitiveType("long"))])
    older, table.schema = table.schema, table.schema.append(pa.field("by_hand", pa.int64()))
    table.merge([row(key, 2, by_hand=key * 10) for key in (1, 2)])
    table.schema = older
    assert table.merge([row(1, 3, a="c")], [row(2, 3)]) == MergeCounts(updated=1, deleted=1)
    assert {key: (one["a"], one["b"], one["by_hand"]) for key, one in table.by_key().items()} == {
        1: ("c", 1, 10),
        2: ("b", 2, 20),
    }


def test_in_a_store_rows_are_made_as_anywhere(in_s3: Files) -> None:
    table = made(in_s3, mark=True)
    table.merge([row(key, 1, a="a", b=key) for key in range(9)])
    table.merge([row(key, 1, a="a", b=key) for key in range(9, 20)])
    table.merge([row(key, 2, a="c") for key in range(0, 20, 2)], [row(key, 2) for key in range(1, 20, 2)])
    assert {key: (found[0], found[1], found[4]) for key, found in plain(table).items()} == {
        key: ("a", key, True) if key % 2 else ("c", key, None) for key in range(20)
    }


def test_however_many_files_there_are_few_are_open(tmp_path: Path) -> None:
    table = made(tmp_path, mark=True)
    for key in range(150):
        table.merge([row(key, 1, a="a", b=key)])
    # delta-rs opens the log's entries all at once; here it is about the table's own files.
    DeltaTable(table.place.url).create_checkpoint()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 60, hard))
    try:
        counts = table.merge(
            [row(key, 2, a="c") for key in range(100)], [row(key, 2) for key in range(100, 150)]
        )
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert counts == MergeCounts(updated=100, deleted=50)
    assert {key: found[:2] for key, found in plain(table).items()} == {
        key: ("c" if key < 100 else "a", key) for key in range(150)
    }


def test_rows_are_made_that_have_more_text_than_one_array(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path, mark=True)
    long = {key: f"{key}" * 400 for key in range(10)}
    table.merge([row(key, 1, a=long[key], s={"x": key, "in": {"y": long[key], "z": 1}}) for key in range(10)])
    of_at_most(monkeypatch, 2000)
    assert table.merge([row(key, 2, b=key) for key in range(5)], [row(key, 2) for key in range(5, 10)])
    monkeypatch.undo()
    assert {key: (found[0], found[2]["in"]["y"], found[4]) for key, found in plain(table).items()} == {
        key: (long[key], long[key], True if key > 4 else None) for key in range(10)
    }


def test_a_delete_that_marks_keeps_the_row_and_a_newer_record_begins_it_anew(tmp_path: Path) -> None:
    table = made(tmp_path, mark=True)
    table.merge([row(1, 1, a="a", b=1)])
    assert table.merge([], [row(1, 3, offset=7), row(2, 3)]) == MergeCounts(deleted=2)
    assert plain(table) == {1: ("a", 1, None, None, True)}
    assert (table.by_key()[1]["seq"], table.by_key()[1]["offset"]) == (3, 7)
    assert table.merge([row(1, 2, a="late"), row(2, 2, a="late")]) == MergeCounts(older=2)
    table.merge([], [row(1, 4)])
    assert plain(table) == {1: ("a", 1, None, None, True)}
    assert table.merge([row(1, 5, a="new", gone=False)]) == MergeCounts(updated=1)
    assert plain(table) == {1: ("new", None, None, None, False)}


@pytest.mark.parametrize("at_once", [True, False])
def test_records_of_two_partitions_that_come_in_order_are_taken_so_in_one_batch_too(
    tmp_path: Path, at_once: bool
) -> None:
    """Whichever partition has the lower number."""
    table = made(tmp_path, mark=True)
    first = [{**row(1, 1, a="a", b=1), "partition": 1}, {**row(2, 1, a="a"), "partition": 1}]
    then, gone = row(1, 2, b=2, present=("b",)), row(2, 2)
    for rows, deletes in [([*first, then], [gone])] if at_once else [(first, []), ([then], [gone])]:
        table.merge(rows, deletes)
    assert plain(table) == {1: ("a", 2, None, None, None), 2: ("a", None, None, None, True)}


@dataclass
class Model:
    """A dictionary to which one record after the other is given."""

    rule: MergeRule
    rows: dict[Any, dict[str, Any]] = field(default_factory=dict)
    gone: dict[Any, Any] = field(default_factory=dict)

    def take(self, row: dict[str, Any], *, removes: bool) -> None:
        key, order = row["id"], (row["seq"], row["offset"])
        before = self.rows.get(key)
        older = before is not None and order <= (before["seq"], before["offset"])
        removed = key in self.gone and order <= self.gone[key]
        if removes:
            self.gone[key] = max(self.gone.get(key, order), order)
        if older or removed:
            return
        if not removes:
            begun = before is None or bool(before["gone"]) or self.rule.update == "all"
            self.rows[key] = without(row) if begun or before is None else folded(before, row)
        elif before is not None:
            self.rows[key] = {**before, **{name: row[name] for name in PLACE}, "gone": True}


PLACE = ("topic", "partition", "offset", "ts", "seq")


def without(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name != PRESENT}


def folded(before: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    present = {*row[PRESENT], *PLACE, "id", "gone"}
    return {name: _folded(before[name], value, name, present) for name, value in without(row).items()}


def _folded(before: Any, value: Any, path: str, present: set[str]) -> Any:
    if path in present:
        return value
    below = {one for one in present if one.startswith(f"{path}.")}
    if not below:
        return before
    if value is None:
        return None
    inner = before or dict.fromkeys(value)
    nested = {f"{path}.{name}" for name in value} | below
    return (
        {name: _folded(inner[name], value[name], f"{path}.{name}", present) for name in value}
        if nested
        else value
    )


STRUCTS = [
    None,
    {"x": 1, "in": None},
    {"x": None, "in": {"y": "a", "z": 1}},
    {"x": 2, "in": {"y": None, "z": None}},
]
SCHEMAS = [
    ("a",),
    ("a", "b"),
    ("a", "b", "s", "l"),
    ("s.x",),
    ("a", "s.in.y"),
    ("b", "s.in"),
    ("l", "s.x", "s.in.z"),
    (),
]


@pytest.mark.parametrize("update", ["present", "all"])
@pytest.mark.parametrize("mark", [False, True])
@given(data=st.data())
def test_any_cut_of_a_stream_gives_what_one_record_after_the_other_does(
    update: Update, mark: bool, data: st.DataObject
) -> None:
    one = st.tuples(
        st.integers(0, 2),
        st.integers(0, 4),
        st.sampled_from(SCHEMAS),
        st.sampled_from(STRUCTS),
        st.booleans() if mark else st.just(False),
    )
    drawn = data.draw(st.lists(one, min_size=1, max_size=25))
    stream = [(_record(offset, *given), given[4]) for offset, given in enumerate(drawn)]
    with TemporaryDirectory() as folder:
        table = made(Path(folder), mark=mark, update=update)
        model = Model(table.rule)
        for taken, removes in stream:
            model.take(taken, removes=removes)
        for batch in cut(data, stream):
            kept = [taken for taken, removes in batch if not removes]
            removed = [taken for taken, removes in batch if removes]
            if batch:
                assert table.merge(kept, removed, files=data.draw(st.integers(1, 2))).staged == len(batch)
        assert same(table.rows()) == same(_as_stored(list(model.rows.values()), table.schema))


def _record(offset: int, key: int, seq: int, schema: Sequence[str], struct: Any, _: bool) -> dict[str, Any]:
    values = {"a": f"a{offset}", "b": offset, "s": struct, "l": [{"n": offset}]}
    own = {name: value for name, value in values.items() if name in schema}
    if any(path.startswith("s.") for path in schema):
        own["s"] = _only(struct, "s", schema)
    return row(key, seq, offset, **own, gone=False, present=(*schema, "gone"))


def _only(value: Any, path: str, schema: Sequence[str]) -> Any:
    """What of a value a record of this schema has."""
    if any(path == one or path.startswith(f"{one}.") for one in schema):
        return value
    if value is None or not any(one.startswith(f"{path}.") for one in schema):
        return None
    return {name: _only(inner, f"{path}.{name}", schema) for name, inner in value.items()}


def _as_stored(rows: Sequence[dict[str, Any]], schema: pa.Schema) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = pa.Table.from_pylist(list(rows), schema).to_pylist()
    return found
