"""Readings of wearables: bronze, silver with expectations, gold, and both made again of bronze."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

from examples.stage import Stage, jsons, require, require_same

TOPIC = "wearables"

_MODELS = ("one", "one plus", "two", None)


def readings(seed: int, count: int) -> Iterator[dict[str, Any]]:
    """Readings, of which some are what nobody can have."""
    dice = random.Random(seed)
    for number in range(count):
        yield {
            "user_id": dice.randrange(50),
            "day": f"2026-11-{dice.randrange(1, 8):02d}",
            "time": None if dice.random() < 0.01 else seed * count + number,
            "version": "2.0" if dice.random() < 0.01 else dice.choice(["1.0", "1.1"]),
            "model": dice.choice(_MODELS),
            "heart_bpm": dice.choice([0, 400]) if dice.random() < 0.02 else dice.randrange(40, 180),
            "kcal": -1 if dice.random() < 0.01 else dice.randrange(20),
        }


def play(stage: Stage) -> str:
    """Two rounds of readings: by the second one gold is brought up by what was added. Then Kafka forgets them, and all but bronze is made again."""
    stage.make_topic(TOPIC)
    for part in range(2):
        stage.send(TOPIC, ((None, value) for value in jsons(readings(part, 3_000))))
        stage.distributary("run", "pipeline.yaml", "--once", "--json")
    every = [json.loads(one.value or b"null") for one in stage.sent(TOPIC)]
    require_same(
        "bronze",
        sorted(bytes(value) for value in stage.rows("bronze")["value"].to_pylist()),
        sorted(one.value or b"" for one in stage.sent(TOPIC)),
    )
    good = [one for one in every if _is_good(one)]
    found = _held(stage, good)
    told = json.loads(stage.distributary("expectations", "pipeline.yaml", "--json"))
    require(bool(told), "the ledger tells of no expectation")
    stage.forget(TOPIC)
    require(not stage.sent(TOPIC), "Kafka has not forgotten the readings")
    stage.distributary("reset", "pipeline.yaml", "--layer", "silver", "--yes")
    stage.distributary("reset", "pipeline.yaml", "--layer", "gold")
    require_same("days made again", [_held(stage, good)], [found])
    stage.distributary("verify", "pipeline.yaml")
    kept_out = len(every) - len(good)
    return (
        f"{len(every)} readings in bronze, {len(good)} in silver, {kept_out} kept out, {found} days in gold, all made again of bronze once Kafka had "
        "forgotten them; verify holds"
    )


def _held(stage: Stage, good: list[dict[str, Any]]) -> int:
    """How many days gold has; silver and gold are held against the good readings."""
    silver = stage.rows(f"silver_{TOPIC}").select(["user_id", "time", "heart_bpm"]).to_pylist()
    require_same(
        "silver",
        sorted((row["time"], row["user_id"], row["heart_bpm"]) for row in silver),
        sorted((one["time"], one["user_id"], one["heart_bpm"]) for one in good),
    )
    gold = {(row["user_id"], row["day"]): row for row in stage.rows("gold_days").to_pylist()}
    expected = days(good)
    require_same("gold", sorted(gold), sorted(expected))
    for key, row in expected.items():
        require_same(f"gold {key}", [gold[key][name] for name in row], list(row.values()))
    return len(gold)


def _is_good(one: dict[str, Any]) -> bool:
    return (
        one["time"] is not None
        and one["version"] in ("1.0", "1.1")
        and 20 <= one["heart_bpm"] <= 250
        and one["kcal"] >= 0
    )


def days(good: list[dict[str, Any]]) -> dict[tuple[int, str], dict[str, Any]]:
    """By another way: the rows of gold, in plain Python."""
    groups: dict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for one in good:
        groups[one["user_id"], one["day"]].append(one)
    return {
        key: {
            "readings": len(rows),
            "lowest_bpm": min(row["heart_bpm"] for row in rows),
            "highest_bpm": max(row["heart_bpm"] for row in rows),
            "mean_bpm": sum(row["heart_bpm"] for row in rows) / len(rows),
            "kcal": sum(row["kcal"] for row in rows),
            "last_model": max(rows, key=lambda row: row["time"])["model"],
        }
        for key, rows in groups.items()
    }
