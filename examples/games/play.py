"""Protobuf events of many games: a table a game, and a row a player in each game's gold, through five schema versions."""

from __future__ import annotations

import json
from typing import Any

import duckdb
from examples.stage import Stage, require, require_same

_GOLD = """
SELECT gamer_id, count(*) AS events, count(DISTINCT device) AS devices, min(event_timestamp) AS first_event,
       max(event_timestamp) AS last_event, max(score) AS best_score
FROM silver GROUP BY gamer_id ORDER BY gamer_id
"""

_SESSIONS = """
WITH events AS (
  SELECT gamer_id, score, event_timestamp AS ms,
         (event_timestamp > 2000 + lag(event_timestamp) OVER (PARTITION BY gamer_id ORDER BY event_timestamp)) IS NOT FALSE AS begins
  FROM silver
), numbered AS (
  SELECT *, sum(begins::INT) OVER (PARTITION BY gamer_id ORDER BY ms ROWS UNBOUNDED PRECEDING) AS session FROM events
)
SELECT gamer_id, min(ms) AS began, max(ms) + 2000 AS ended, count(*) AS events, max(score) AS best_score
FROM numbered GROUP BY gamer_id, session HAVING max(ms) + 2000 <= (SELECT max(ms) - 10000 FROM events) ORDER BY gamer_id, began
"""

_HELD_SESSIONS = """
SELECT gamer_id, epoch_ms(window_start) AS began, epoch_ms(window_end) AS ended, events, best_score FROM gold ORDER BY gamer_id, began
"""


def play(stage: Stage) -> str:
    """Two parts of the simulation; within each the schema evolves, and the run starts itself again."""
    for number, part in enumerate(("1-2", "3-5")):
        append = ["--append"] if number else []
        stage.distributary(
            "simulate", "simulation.yaml", "--truth", "truth.json", "--versions", part, *append
        )
        stage.distributary("run", "pipeline.yaml", "--once", "--json")
    stage.distributary("verify", "pipeline.yaml", "--truth", "truth.json")
    silver = sorted(path.name for path in (stage.folder / "lake").glob("silver_*"))
    gold = [name.replace("silver", "gold").replace("events", "player_agg") for name in silver]
    players = sum(_held(stage, *both) for both in zip(silver, gold, strict=True))
    sessions = sum(_sessions_held(stage, *both) for both in zip(silver, gold, strict=True))
    require(sessions > 0, "no session is over")
    graph = json.loads(stage.distributary("graph", "pipeline.yaml", "--json"))
    require(bool(graph), "the graph is empty")
    tables = 1 + 3 * len(silver)
    return f"{tables} tables with the ledger's batches, {players} players and {sessions} sessions in gold; verify holds what was sent"


def _sessions_held(stage: Stage, silver: str, players: str) -> int:
    """How many sessions of a game are over; they are held against what another program makes of its silver."""
    gold = players.replace("player_agg", "sessions")
    with duckdb.connect() as base:
        base.register("silver", stage.rows(silver))
        base.register("gold", stage.rows(gold))
        expected: list[dict[str, Any]] = base.sql(_SESSIONS).to_arrow_table().to_pylist()
        found: list[dict[str, Any]] = base.sql(_HELD_SESSIONS).to_arrow_table().to_pylist()
    require_same(gold, found, expected)
    return len(found)


def _held(stage: Stage, silver: str, gold: str) -> int:
    """How many players a game has; its gold is held against what another program makes of its silver."""
    with duckdb.connect() as base:
        base.register("silver", stage.rows(silver))
        expected: list[dict[str, Any]] = base.sql(_GOLD).to_arrow_table().to_pylist()
    found = stage.rows(gold)
    names = [name for name in found.column_names if not name.startswith("__")]
    held = sorted(found.select(names).to_pylist(), key=lambda row: str(row["gamer_id"]))
    require_same(gold, held, expected)
    return int(found.num_rows)
