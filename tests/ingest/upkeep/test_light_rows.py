"""Rows that stay in Arrow are as a list of them would be."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.upkeep import light_rows
from distributary.ingest.upkeep.light_rows import LightRows


@pytest.fixture(autouse=True)
def few_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(light_rows, "_AT_ONCE", 3)


@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 99)), max_size=20), st.data())
def test_they_are_as_a_list_would_be(told: list[tuple[str, int]], data: st.DataObject) -> None:
    table = pa.table(
        {
            "of": pa.array([of for of, _ in told], pa.string()),
            "n": pa.array([n for _, n in told], pa.int64()),
        }
    )
    found = LightRows.by(table, "of", "n")
    assert sorted(found) == sorted({of for of, _ in told})
    for of, rows in found.items():
        wanted = [{"n": n} for n in sorted(n for mine, n in told if mine == of)]
        assert (list(rows), len(rows), rows.names) == (wanted, len(wanted), ["n"])
        assert rows.column("n").to_pylist() == [row["n"] for row in wanted]
        first, last = (data.draw(st.integers(-25, 25)) for _ in range(2))
        assert list(rows[first:last]) == wanted[first:last]
        assert list(rows[:-2]) == wanted[:-2]
        places = data.draw(st.lists(st.integers(-len(wanted), len(wanted) - 1), max_size=8))
        assert [rows[place] for place in places] == [wanted[place] for place in places]


def test_a_place_behind_the_last_is_none() -> None:
    rows = LightRows(pa.table({"n": [1, 2]}))
    for place in (2, -3):
        with pytest.raises(IndexError):
            rows[place]
