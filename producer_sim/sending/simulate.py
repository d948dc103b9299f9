"""Sends game events whose schema grows in the middle of the stream, and tells the truth about what was sent.

Also whether a simulation may be added to the truth that is there: versions are sent in order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from distributary.errors import ConfigError
from distributary.producer_sim.sending.delivery import Delivery, make_topic
from distributary.producer_sim.sending.registration import Registration
from distributary.producer_sim.traffic.records import Record, Traffic
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.producer_sim.truth.sent import Truth
from distributary.registry.base import SchemaRegistry

PACES_A_SECOND = 20

RECORDS_A_POLL = 1_000


@dataclass(frozen=True, slots=True)
class SentSoFar:
    """How far a simulation is: the newest version, records sent, records in all, and seconds since it began."""

    version: int
    sent: int
    total: int
    seconds: float


def simulate(
    settings: Simulation,
    registry: SchemaRegistry,
    on_progress: Callable[[SentSoFar], None] | None = None,
    stop: Callable[[], bool] | None = None,
    on_notice: Callable[[str], None] | None = None,
) -> Truth:
    """Sends everything the settings ask for and returns the truth about it, once every record is confirmed.

    A version is registered, under `Simulation.subject_of` each type of event, when the last event of the one before is confirmed, unless the
    format's records name no schema: then the registry is not asked for anything. A schema that it refuses is registered at the
    compatibility level NONE, if it may be that it only breaks its readers, and `on_notice` is told so. `stop` is asked once a second or every ten thousand records; when it says yes, the truth covers what was sent until
    then. Raises SetupError if the broker does not take the records.
    """
    make_topic(settings)
    traffic, delivery = Traffic(settings), Delivery(settings)
    registration = Registration(settings, registry, on_notice)
    pace, began, sent = _Pace(settings.rate), time.monotonic(), 0
    for stage in settings.stages:
        version = stage.number
        for record in settings.records:
            traffic.introduce(version, registration.register(stage, record), record)
        if version < settings.first_version:
            continue
        for records in traffic.stage(version):
            _send(records, delivery, pace)
            sent += len(records)
            if on_progress is not None:
                on_progress(SentSoFar(version, sent, settings.total, time.monotonic() - began))
            if stop is not None and stop():
                return _truth(settings, traffic, delivery)
        delivery.finish()
    return _truth(settings, traffic, delivery)


def _send(records: list[Record], delivery: Delivery, pace: _Pace) -> None:
    step = pace.step
    for first in range(0, len(records), step):
        for key, value, corruption, headers in records[first : first + step]:
            if value is None:
                delivery.send_tombstone(key, headers)
            elif corruption is not None:
                delivery.send_corrupt(key, value, corruption, headers)
            else:
                delivery.send(key, value, headers)
        delivery.poll()
        pace.keep(min(step, len(records) - first))


def _truth(settings: Simulation, traffic: Traffic, delivery: Delivery) -> Truth:
    delivery.finish()
    return Truth(
        topic=settings.topic,
        sent=traffic.sent(),
        corrupt=delivery.corrupt,
        tombstones=frozenset(delivery.tombstones),
        offsets=delivery.offsets,
        runs=(settings.for_truth(),),
    )


class _Pace:
    """Keeps to so many records a second, or to none."""

    def __init__(self, rate: float | None) -> None:
        self._rate = rate
        self._began = time.monotonic()
        self._count = 0

    @property
    def step(self) -> int:
        """How many records go out between two looks at the clock."""
        return RECORDS_A_POLL if self._rate is None else max(1, int(self._rate / PACES_A_SECOND))

    def keep(self, count: int) -> None:
        """Waits until it is time for the records after these `count`."""
        self._count += count
        if self._rate is not None:
            time.sleep(max(0.0, self._began + self._count / self._rate - time.monotonic()))


def check_order(before: Truth, settings: Simulation) -> None:
    """Raises ConfigError for a truth of another topic, and for a change to versions that this truth was never told of.

    A table has a field in the type in which it first came, and the truth expects the one that the field began with.
    Versions that only grow change no type: the last of them stands for all.
    """
    before.check_topic(settings.topic)
    sent = {version for run in before.runs for version in _versions(run)}
    missing = [n for n in range(settings.versions, settings.first_version) if n not in sent]
    if missing:
        what, were = ("version", "was") if len(missing) == 1 else ("versions", "were")
        raise ConfigError(
            f"{what} {', '.join(map(str, missing))} of {settings.topic} {were} never sent, so that tables would not have "
            f"the types that the truth expects; send in order, with --first-version {missing[0]}"
        )


def _versions(run: Mapping[str, Any]) -> range:
    """What a simulation sent, by the settings that the truth has kept; the oldest truths know of no changes."""
    last = run.get("versions", 1) + len(run.get("changes", ()))
    return range(run.get("first_version", 1), last + 1)
