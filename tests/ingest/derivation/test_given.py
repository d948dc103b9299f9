"""What the settings say of derived tables, told at its line where it cannot be."""

from __future__ import annotations

from typing import Any

import pytest

from distributary.errors import ConfigError
from distributary.ingest.settings.model import Settings

PLAYERS = {
    "table": "gold_{entity}_players",
    "aggregate": {"by": ["gamer_id"], "columns": {"events": "count(*)"}},
}


def settings(*derive: dict[str, Any], table: str = "silver_{entity}_events", **more: Any) -> Settings:
    return Settings.from_dict(
        {
            "name": "games",
            "source": {"topics": ["events"], "kafka": {"bootstrap.servers": "127.0.0.1:9092"}},
            "registry": {"url": "http://127.0.0.1:8081"},
            "route": {"field": "game_name", "table": table},
            "sink": {"root": "lake"},
            "derive": list(derive),
            **more,
        }
    )


def test_a_table_for_each_entity_is_of_its_own_table() -> None:
    (rule,) = settings(PLAYERS).derive
    assert rule.of == ("{table}",)
    assert rule.an_entity


def test_times_take_units_as_all_others_do() -> None:
    stream = {
        "watermark": {"time": "at"},
        "window": {"seconds": "1.5 h", "slide_seconds": "30 min"},
        "columns": {"events": "count(*)"},
    }
    windows = {"table": "gold", "inputs": ["silver_chess_events"], "stream": stream}
    often, window = settings({**PLAYERS, "every_seconds": "60 s"}, windows).derive
    assert (often.every_seconds, often.stream) == (60.0, None)
    assert window.stream is not None
    assert window.stream.window is not None
    assert (window.stream.window.length, window.stream.window.slide) == (5400, 1800)


@pytest.mark.parametrize(
    ("derive", "why"),
    [
        (
            [{"table": "a", "inputs": ["silver_chess_events"]}],
            "write one of aggregate, sql, python and stream",
        ),
        ([{"table": "a", "sql": "SELECT 1 AS one"}], "write the tables that it is made of"),
        ([{**PLAYERS, "table": "silver_{entity}_events"}], "an entity's table could have this name too"),
        ([{**PLAYERS, "table": "quarantine"}], "this name is kept"),
        ([PLAYERS, PLAYERS], "written twice"),
        ([{"table": "a", "inputs": ["nothing"], "sql": "TABLE nothing"}], "no table is called nothing"),
        (
            [
                {"table": "a", "inputs": ["b"], "sql": "TABLE b"},
                {"table": "b", "inputs": ["a"], "sql": "TABLE a"},
            ],
            "made of each other",
        ),
        ([{**PLAYERS, "every_batches": 1, "every_seconds": 1}], "one of both"),
        ([{"table": "a", "inputs": ["{table}"], "sql": "SELECT 1"}], "only a table with {entity}"),
        (
            [{**PLAYERS, "aggregate": {"by": ["gamer_id"], "columns": {"n": "first(x)"}}}],
            "derive[0].aggregate.columns.n",
        ),
        (
            [{**PLAYERS, "aggregate": {"by": ["Day"], "columns": {"day": "count(*)"}}}],
            "several columns called day",
        ),
    ],
)
def test_what_cannot_be_is_told(derive: list[dict[str, Any]], why: str) -> None:
    with pytest.raises(ConfigError) as refused:
        settings(*derive)
    assert why in str(refused.value)


def test_a_table_may_be_made_of_records_as_they_came_and_not_be_called_as_theirs() -> None:
    daily = {"table": "daily", "inputs": ["bronze"], "sql": "SELECT count(*) AS n FROM bronze"}
    assert settings(daily, bronze={}).derive[0].inputs == ("bronze",)
    with pytest.raises(ConfigError, match="another table of the pipeline has this name"):
        settings({**daily, "table": "bronze", "inputs": ["quarantine"]}, bronze={})


def test_any_name_is_an_entitys_where_tables_are_called_as_entities() -> None:
    with pytest.raises(ConfigError, match="could have this name too"):
        settings(PLAYERS, table="{entity}")


def test_a_table_may_be_made_of_the_quarantine_and_of_derived_ones() -> None:
    found = settings(
        {"table": "worst", "inputs": ["counts"], "sql": "SELECT max(n) AS n FROM counts"},
        {
            "table": "counts",
            "inputs": ["quarantine"],
            "sql": "SELECT reason, count(*) AS n FROM quarantine GROUP BY 1",
        },
    )
    assert [rule.table for rule in found.derive] == ["worst", "counts"]
