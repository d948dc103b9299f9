"""The same topic through a pipeline that does no more than its tables, and through ones that do more: in turns."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.landed import table_rows
from benchmarks.world import Topic, World
from deltalake import DeltaTable

from distributary.errors import CheckFailed
from distributary.ingest.rebuild.emptying import empty
from distributary.ingest.rebuild.silver import replay
from distributary.ingest.run import run
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.transaction import Transaction

PLAIN, REPLAY = "plain", "replay"

PLAYERS = {
    "table": "gold_{entity}_players",
    "aggregate": {
        "by": ["gamer_id"],
        "columns": {
            "events": "count(*)",
            "score": "sum(score)",
            "first_event": "min(kafka_ts)",
            "last_event": "max(kafka_ts)",
            "mean_duration": "avg(duration_s)",
        },
    },
}

EXPECTED = {
    "has_a_player": {"condition": "gamer_id is not null", "otherwise": "quarantine"},
    "level_is_sane": {"condition": "level between 0 and 1000000", "otherwise": "quarantine"},
    "score_is_a_number": {"condition": "score >= -9000000000000000000", "otherwise": "drop"},
    "lasts_some_time": {"condition": "duration_s >= 0 or duration_s < 0", "otherwise": "drop"},
    "is_an_event": "event_type like '%'",
}


@dataclass(frozen=True, slots=True)
class Way:
    """What a pipeline does beside filling its entities' tables, as settings say it."""

    name: str
    changed: Mapping[str, Any]


def ways(refresh_batches: int) -> dict[str, Way]:
    """All of them, by name."""
    gold = {"derive": [{**PLAYERS, "every_batches": refresh_batches}]}
    expects = {"tables": [{"match": "*", "expect": EXPECTED}]}
    found = [
        Way(PLAIN, {}),
        Way("gold", gold),
        Way("bronze", {"bronze": {}}),
        Way("expectations", expects),
        Way(REPLAY, {"bronze": {}}),
    ]
    return {way.name: way for way in found}


def measured(
    world: World, topic: Topic, batch_rows: int, chosen: Sequence[Way], runs: int
) -> dict[str, tuple[float, ...]]:
    """The seconds of each way's runs, in turns; the first of each is warm-up. Raises CheckFailed where one lost rows."""
    seconds: dict[str, list[float]] = {way.name: [] for way in chosen}
    for number in range(runs + 1):
        for way in chosen:
            with world.watch.step(f"measuring {way.name} ({sum(topic.rows.values()):,} events)", 1):
                took = _once(world, topic, batch_rows, way)
            world.watch.say(f"{way.name}: {took:.1f} s")
            seconds[way.name] += [took] if number else []
    return {name: tuple(found) for name, found in seconds.items()}


def _once(world: World, topic: Topic, batch_rows: int, way: Way) -> float:
    folder = world.new_folder(world.new_name(way.name))
    settings = world.settings(topic.name, folder, batch_rows, **way.changed)
    began = time.perf_counter()
    run(settings, spark=world.spark)
    if way.name == REPLAY:
        # From Kafka they only come there.
        for game in topic.rows:
            empty(
                files_at(folder / "lake" / settings.route.folder(game)), Transaction("benchmark", 0), way.name
            )
        began = time.perf_counter()
        replay(settings, spark=world.spark)
    seconds = time.perf_counter() - began
    _holds(settings, topic, way, folder / "lake")
    return seconds


def _holds(settings: Settings, topic: Topic, way: Way, lake: Path) -> None:
    """Whoever lost a row was not measured."""
    for game, rows in topic.rows.items():
        silver = settings.route.folder(game)
        found = {silver: table_rows(lake / silver)}
        if way.name == "gold":
            gold = silver.replace("silver", "gold").replace("events", "players")
            found[gold] = sum(_column(lake / gold, "events"))
        if wrong := [table for table, there in found.items() if there != rows]:
            raise CheckFailed(
                f"{way.name}: table {wrong[0]} tells of {found[wrong[0]]:,} events instead of {rows:,}"
            )
    if way.name == "bronze" and (kept := table_rows(lake / "bronze")) != sum(topic.rows.values()):
        raise CheckFailed(f"bronze: {kept:,} records are kept instead of {sum(topic.rows.values()):,}")


def _column(table: Path, name: str) -> list[int]:
    values: list[int] = DeltaTable(table).to_pyarrow_table(columns=[name])[name].to_pylist()
    return values
