"""Which files are written anew: loose ones at once, all others seldom, and what is another's never."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from distributary.ingest.clustering.cubes import BY, CUBE, PROVIDER, bins, portions, told

A = (("a",),)


def add(size: int, **more: Any) -> dict[str, Any]:
    return {"size": size, **more}


def lying(size: int, cube: str, by: Any = A, **more: Any) -> dict[str, Any]:
    return add(size, clusteringProvider=PROVIDER, tags={CUBE: cube, BY: told(by)}, **more)


def chosen(files: dict[str, Any], by: Any = A, target: int = 100) -> list[set[str]]:
    return [set(one.files) for one in portions(files.items(), by, target)]


def test_loose_files_come_together_and_what_lies_well_stays() -> None:
    assert chosen({"a": add(5), "b": add(7), "c": lying(500, "x")}) == [{"a", "b"}]
    assert chosen({"c": lying(500, "x"), "d": lying(5, "y")}) == []
    assert chosen({"a": add(5)}) == [{"a"}]
    assert chosen({}) == []


def test_what_is_not_much_larger_than_what_came_together_comes_with_it() -> None:
    files = {
        "new": add(10),
        "x": lying(10, "x"),
        "y1": lying(9, "y"),
        "y2": lying(9, "y"),
        "z": lying(80, "z"),
    }
    assert chosen(files) == [{"new", "x", "y1", "y2"}]


def test_files_of_another_hand_are_left_to_it() -> None:
    liquid = add(1, clusteringProvider="liquid", tags={"ZCUBE_ID": "1"})
    assert chosen({"a": liquid, "b": add(2)}) == [{"b"}]
    assert chosen({"a": liquid, "b": liquid}, by=()) == []


def test_other_columns_and_many_marked_rows_make_a_file_loose() -> None:
    vector = {"cardinality": 25}
    stats = '{"numRecords":100}'
    files = {
        "other": lying(500, "x", (("b",),)),
        "marked": lying(600, "x", deletionVector=vector, stats=stats),
        "hardly": lying(700, "x", deletionVector={"cardinality": 24}, stats=stats),
        "untold": lying(800, "x", deletionVector=vector),
        "untagged": add(900, clusteringProvider=PROVIDER),
    }
    assert chosen(files, target=10_000) == [{"other", "marked", "hardly", "untold", "untagged"}] or chosen(
        files, target=10_000
    ) == [{"other", "marked", "untagged", "hardly", "untold"}]
    assert chosen({name: files[name] for name in ("hardly", "untold")}) == []


def test_a_table_that_is_clustered_by_nothing_has_its_small_files_brought_together() -> None:
    files = {"a": add(40), "b": lying(40, "x"), "c": add(100), "d": add(90)}
    assert chosen(files, by=()) == [{"a", "b"}]


def test_more_than_a_cube_has_room_for_is_written_in_portions() -> None:
    files = {str(n): add(100) for n in range(130)}
    assert [len(one) for one in chosen(files)] == [64, 64, 2]


@pytest.mark.parametrize(
    "grows", [lambda day: 100, lambda day: 1 + day % 7 * 30, lambda day: 1000 >> (day % 5)]
)
@pytest.mark.parametrize("takes", [0.8, 1, 1.2])
def test_a_year_of_batches_writes_each_byte_few_times_and_leaves_few_cubes(grows: Any, takes: float) -> None:
    """A batch's file a day, and upkeep each day; a batch's rows take so much of its bytes once they are written anew."""
    files: dict[str, Any] = {}
    sizes, written, most = Counter[str](), 0, 0
    for day in range(365):
        size = grows(day)
        files[f"day-{day}"] = add(size)
        sizes["all"] += size
        for number, portion in enumerate(portions(files.items(), A, 1000)):
            written += portion.bytes
            together = sum(
                int(one["size"] * (1 if "tags" in one else takes)) for one in portion.files.values()
            )
            for name in portion.files:
                del files[name]
            cube = f"cube-{day}-{number}"
            for part in range(-(-together // 1000)):
                files[f"{cube}-{part}"] = lying(min(1000, together - part * 1000), cube)
        most = max(most, len({one["tags"][CUBE] for one in files.values()}))
    assert sum(one["size"] for one in files.values()) == pytest.approx(takes * sizes["all"], rel=0.05)
    assert written <= 9 * sizes["all"]
    assert most <= 12
    assert chosen(files, target=1000) == []


def test_bins_hold_what_fits() -> None:
    assert bins([3, 9, 4, 10, 1], int, 10) == [[1, 3, 4]]
