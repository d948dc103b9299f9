"""Sends game events whose schema grows in the middle of the stream, and tells the truth about what was sent.

Also whether a simulation may be added to the truth that is there: versions are sent in order.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from distributary.errors import ConfigError
from distributary.producer_sim.sending.delivery import Delivery, make_topic
from distributary.producer_sim.sending.registration import Registration
from distributary.producer_sim.sending.target import registry_of, with_a_broker
from distributary.producer_sim.traffic.records import Record, Traffic
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.producer_sim.traffic.stages import Stage
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
    simulation: Simulation,
    registry: SchemaRegistry | None = None,
    on_progress: Callable[[SentSoFar], None] | None = None,
    stop: Callable[[], bool] | None = None,
    on_notice: Callable[[str], None] | None = None,
) -> Truth:
    """Sends everything the simulation asks for, and returns the truth about it once every record is confirmed.

    simulation   what to send, where to, and how fast
    registry     where schemas are registered, under `Simulation.subject_of` each type of event; by default the one that the
                 simulation names. Where records name no schema, none is asked
    on_progress  told how far it is
    stop         asked once a second or every ten thousand records; when it says yes, the truth covers what was sent until then
    on_notice    told of a schema that the registry refuses and takes at the compatibility level NONE only

    A version is registered when the last event of the one before is confirmed. One that the registry refuses is registered
    at the level NONE, if it may be that it only breaks its readers. Raises SetupError where the broker does not take the
    records, BadSchema where the registry does not take a schema.

    >>> truth = distributary.simulate(simulation, registry)
    >>> truth.records
    200
    """
    if registry is None:
        with registry_of(simulation) as named:
            return simulate(simulation, named, on_progress, stop, on_notice)
    run = _Run(with_a_broker(simulation), registry, on_notice)
    for so_far in run.chunks():
        if on_progress is not None:
            on_progress(so_far)
        if stop is not None and stop():
            break
    return run.truth()


class _Run:
    """One simulation on its way, chunk by chunk."""

    def __init__(
        self, simulation: Simulation, registry: SchemaRegistry, on_notice: Callable[[str], None] | None
    ) -> None:
        make_topic(simulation)
        self._simulation = simulation
        self._traffic, self._delivery = Traffic(simulation), Delivery(simulation)
        self._registration = Registration(simulation, registry, on_notice)

    def chunks(self) -> Iterator[SentSoFar]:
        """Sends all of it; after each chunk, how far it is."""
        simulation, pace, began, sent = (
            self._simulation,
            _Pace(self._simulation.pace.rate),
            time.monotonic(),
            0,
        )
        for stage in simulation.stages:
            self._register(stage)
            if stage.number < simulation.evolution.first_version:
                continue
            for records in self._traffic.stage(stage.number):
                _send(records, self._delivery, pace)
                sent += len(records)
                yield SentSoFar(stage.number, sent, simulation.total, time.monotonic() - began)
            self._delivery.finish()

    def truth(self) -> Truth:
        """About what was sent so far, once all of it is confirmed."""
        self._delivery.finish()
        return Truth(
            topic=self._simulation.target.topic,
            sent=self._traffic.sent(),
            corrupt=self._delivery.corrupt,
            tombstones=frozenset(self._delivery.tombstones),
            offsets=self._delivery.offsets,
            runs=(self._simulation.for_truth(),),
        )

    def _register(self, stage: Stage) -> None:
        for record in self._simulation.records:
            self._traffic.introduce(stage.number, self._registration.register(stage, record), record)


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


def check_order(before: Truth, simulation: Simulation) -> None:
    """Raises ConfigError for a truth of another topic, and for a change to versions that this truth was never told of.

    A table has a field in the type in which it first came, and the truth expects the one that the field began with.
    Versions that only grow change no type: the last of them stands for all.
    """
    topic, evolution = simulation.target.topic, simulation.evolution
    before.check_topic(topic)
    sent = {version for run in before.runs for version in _versions(run)}
    missing = [n for n in range(evolution.versions, evolution.first_version) if n not in sent]
    if missing:
        what, were = ("version", "was") if len(missing) == 1 else ("versions", "were")
        raise ConfigError(
            f"{what} {', '.join(map(str, missing))} of {topic} {were} never sent, so that tables would not have "
            f"the types that the truth expects; send in order, with --versions {missing[0]}-{simulation.last_version}"
        )


def _versions(run: Mapping[str, Any]) -> range:
    """What a simulation sent, by the settings that the truth has kept; the oldest truths know of no changes."""
    last = run.get("versions", 1) + len(run.get("changes", ()))
    return range(run.get("first_version", 1), last + 1)
