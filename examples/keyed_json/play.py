"""A keyed JSON topic as a table of what is true now."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from typing import Any

from examples.stage import Stage, require, require_same

TOPIC = "customers"

_CITIES = ("Berlin", "Lyon", "Porto", "Oslo", None)


def records(seed: int, count: int, *, referred: bool) -> Iterator[tuple[bytes, bytes | None]]:
    """Keys and values; some customers leave, and later ones say who sent them where `referred`."""
    dice = random.Random(seed)
    for number in range(count):
        customer = dice.randrange(300)
        value: dict[str, Any] | None = {
            "customer": {"id": customer, "city": dice.choice(_CITIES)},
            "plan": dice.choice(["free", "pro"]),
            "credit": dice.randrange(10_000),
            "change": seed * count + number,
        }
        if value is not None and referred:
            value["referrer"] = f"c{dice.randrange(300)}"
        gone = dice.random() < 0.05
        yield str(customer).encode(), None if gone else json.dumps(value).encode()


def play(stage: Stage) -> str:
    """Two days of changes; the second brings a field that the first did not have."""
    stage.make_topic(TOPIC)
    for day in range(2):
        stage.send(TOPIC, records(day, 2_000, referred=bool(day)))
        stage.distributary("run", "pipeline.yaml", "--once", "--json")
    expected = newest(stage)
    found = {row["customer"]["id"]: row for row in stage.rows(TOPIC).to_pylist()}
    require(len(found) == stage.rows(TOPIC).num_rows, "a customer has two rows")
    require_same("customers", sorted(found), sorted(expected))
    for number, value in expected.items():
        row = found[number]
        require_same(f"customer {number}", [row[name] for name in value], list(value.values()))
    (counted,) = stage.by_name("SELECT count(*) AS customers FROM bronze.customers")
    require(counted["customers"] == len(expected), "the catalog's table has other customers")
    stage.distributary("verify", "pipeline.yaml")
    return f"{len(found)} customers are what the topic says of them last, found by their table's name, and verify holds"


def newest(stage: Stage) -> dict[int, dict[str, Any]]:
    """By another way: the last value of each key, read from the topic."""
    last = {one.key: one.value for one in stage.sent(TOPIC)}
    values = [json.loads(value) for value in last.values() if value is not None]
    return {value["customer"]["id"]: value for value in values}
