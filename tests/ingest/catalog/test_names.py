"""Names of tables in a catalog: none needs quotes, and no two tables share one."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.ingest.catalog.names import name_of, names_of
from distributary.ingest.settings.catalog import Catalog

BRONZE = Catalog(database="bronze")


@pytest.mark.parametrize(
    ("template", "entity", "name"),
    [
        ("{entity}", "pixel_racer", "pixel_racer"),
        ("{topic}", "game-events.v1", "game_events_v1"),
        ("raw_{entity}", "Größe", "raw_gr__e"),
        ("{table}_{entity}", "a", "folder_a"),
        ("{entity}", "", "folder"),
        ("{entity}", "{table}", "_table_"),
    ],
)
def test_a_name_needs_no_quotes(template: str, entity: str, name: str) -> None:
    assert name_of(Catalog(database="bronze", name=template), entity, "folder") == name


def test_of_two_tables_by_one_name_the_other_is_told_of() -> None:
    names, told = names_of(BRONZE, {"a-b": "a_b_1", "a.b": "a_b_2", "c": "c"}, {})
    assert names == {"a_b_1": "a_b", "c": "c"}
    assert len(told) == 1
    assert "table a_b_2 has no name" in told[0]
    assert "a_b_1 is bronze.a_b already" in told[0]


def test_who_has_a_name_keeps_it() -> None:
    names, told = names_of(BRONZE, {"a-b": "a_b_1", "a.b": "a_b_2"}, {"a_b": "a_b_2"})
    assert names == {"a_b_2": "a_b"}
    assert "table a_b_1 has no name" in told[0]


def test_entities_of_one_table_have_one_name() -> None:
    names, told = names_of(BRONZE, {"Quest": "quest", "quest": "quest"}, {})
    assert (names, told) == ({"quest": "quest"}, [])


@given(st.dictionaries(st.text(max_size=8), st.sampled_from(["t1", "t2", "t3", "t4"]), max_size=8))
def test_every_name_is_plain_and_one_tables(entities: dict[str, str]) -> None:
    names, _ = names_of(BRONZE, entities, {})
    assert len(set(names.values())) == len(names)
    assert all(re.fullmatch(r"[a-z0-9_]{1,128}", name) for name in names.values())
