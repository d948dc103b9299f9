"""What street cameras have seen: exploded, looked up, counted an hour and zip code, sent back to Kafka and reported."""

from __future__ import annotations

import csv
import json
import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, TypeAlias

import pyarrow.parquet
from examples.stage import Sent, Stage, jsons, require, require_same

TOPIC, COUNTS = "cameras", "sightings_by_hour"

_BEGIN = datetime(2026, 11, 1, 6, tzinfo=timezone.utc)

# Some cameras are where no zip code is known, and one place is busy.
_PLACES = ("10115", "10115", "10115", "80331", "01067", "04109", "99999")

Hours: TypeAlias = dict[tuple[str, str], tuple[int, int]]
"""Sightings and devices, by hour and zip code."""


def records(seed: int, count: int, *, first_hour: int) -> Iterator[dict[str, Any]]:
    """What cameras say for some hours on; some of it is said hours late."""
    dice = random.Random(seed)
    for number in range(count):
        late = timedelta(hours=dice.choice([1, 5])) if dice.random() < 0.05 else timedelta(0)
        at = _BEGIN + timedelta(hours=first_hour, seconds=number * 4 * 3600 // count) - late
        camera = dice.randrange(40)
        yield {
            "camera": {"id": f"camera-{camera}", "zip_code": _PLACES[camera % len(_PLACES)]},
            "seen_at": at.strftime("%Y-%m-%dT%H:%M:%SZ"),
            "devices": {
                f"{dice.randrange(2_000):012x}": {
                    "kind": dice.choice(["phone", "car", "watch"]),
                    "signal": dice.randrange(-100, -30),
                }
                for _ in range(dice.randrange(10))
            },
        }


def play(stage: Stage) -> str:
    """Two parts of a day; between them a zip code that was not known becomes known."""
    stage.make_topic(TOPIC)
    stage.make_topic(COUNTS, compacted=True)
    for part in range(2):
        stage.send(TOPIC, ((None, value) for value in jsons(records(part, 6_000, first_hour=4 * part))))
        stage.distributary("run", "pipeline.yaml", "--once", "--json")
        if not part:
            with (stage.folder / "zip_codes.csv").open("a", encoding="utf-8") as known:
                known.write("99999,Nowhere,Thuringia\n")
    stage.distributary("run", "report.yaml", "--once", "--json")
    sightings, hours = recomputed(stage)
    _require_kept(stage, sightings)
    found = {
        (row["hour"].strftime(_HOUR), row["zip_code"]): row for row in stage.rows("gold_hours").to_pylist()
    }
    _require_hours(
        "gold_hours", {key: (row["sightings"], row["devices"]) for key, row in found.items()}, hours
    )
    _require_hours("the topic", newest(stage.sent(COUNTS)), hours)
    busy = {key: value for key, value in hours.items() if value[0] > 1_000}
    require(bool(busy), "no hour was busy")
    report = stage.rows("busy_hours", lake="report").to_pylist()
    _require_hours("the report", {_key(row): (row["sightings"], row["devices"]) for row in report}, busy)
    stage.distributary("verify", "pipeline.yaml")
    stage.distributary("verify", "report.yaml")
    late = sum(one["late"] for one in sightings)
    return (
        f"{len(sightings)} sightings, {late} of them too late to count, {len(hours)} hours and zip codes in table and topic, "
        f"{len(busy)} with more than 1,000; verify holds"
    )


_HOUR = "%Y-%m-%dT%H:%M:%S"


def recomputed(stage: Stage) -> tuple[list[dict[str, Any]], Hours]:
    """By another way: all sightings, and the counts, out of the topic in plain Python."""
    with (stage.folder / "zip_codes.csv").open(encoding="utf-8") as file:
        known = {row["zip_code"] for row in csv.DictReader(file)}
    newest_of: dict[int, datetime] = {}
    sightings = list[dict[str, Any]]()
    for one in stage.sent(TOPIC):
        value = json.loads(one.value or b"null")
        at = datetime.strptime(value["seen_at"], "%Y-%m-%dT%H:%M:%SZ").replace(tzinfo=timezone.utc)
        newest_of[one.partition] = max(at, newest_of.get(one.partition, at))
        hour = at.replace(minute=0, second=0)
        late = hour + timedelta(hours=1) <= newest_of[one.partition] - timedelta(hours=2)
        for device, about in value["devices"].items():
            if about["signal"] >= -70 and value["camera"]["zip_code"] in known:
                key = (hour.strftime(_HOUR), value["camera"]["zip_code"])
                sightings.append(
                    {"key": key, "device": device, "late": late, "camera": value["camera"]["id"]}
                )
    groups: dict[tuple[str, str], list[str]] = defaultdict(list)
    for one_seen in sightings:
        if not one_seen["late"]:
            groups[one_seen["key"]].append(one_seen["device"])
    return sightings, {key: (len(devices), len(set(devices))) for key, devices in groups.items()}


def newest(sent: Sequence[Sent]) -> Hours:
    """What compaction leaves of the counts' topic."""
    last = {one.key: one.value for one in sent}
    rows = [json.loads(value) for value in last.values() if value is not None]
    return {_key(row): (row["sightings"], row["devices"]) for row in rows}


def _key(row: dict[str, Any]) -> tuple[str, str]:
    return str(row["hour"])[:19].replace(" ", "T"), row["zip_code"]


def _require_hours(what: str, found: Hours, expected: Hours) -> None:
    require_same(what, sorted(found.items()), sorted(expected.items()))


def _require_kept(stage: Stage, sightings: list[dict[str, Any]]) -> None:
    """Every record is in the archive, every sighting in its table and in the newest files."""
    kept = sorted(bytes(value) for value in stage.rows("bronze")["value"].to_pylist())
    require_same("bronze", kept, sorted(one.value or b"" for one in stage.sent(TOPIC)))
    expected = sorted((one["camera"], one["device"], one["late"]) for one in sightings)
    table = stage.rows("gold_sightings").to_pylist()
    require_same("sightings", sorted(map(_seen, table)), expected)
    files = sorted((stage.folder / "sightings" / "gold_sightings").glob("*.parquet"))
    of_newest = [one for one in files if one.name[:20] == files[-1].name[:20]]
    rows = [row for one in of_newest for row in _rows_of(one)]
    require_same("files", sorted(map(_seen, rows)), expected)


def _rows_of(file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pyarrow.parquet.read_table(file).to_pylist()
    return rows


def _seen(row: dict[str, Any]) -> tuple[str, str, bool]:
    return row["camera_id"], row["device"], row["late"]
