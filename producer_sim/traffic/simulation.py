"""The settings of a simulation, checked when they are made."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, cast, get_args

import pyarrow as pa

from distributary.codecs.changes.classify import ChangeClass
from distributary.errors import ConfigError
from distributary.producer_sim.events.model import PACKAGE, columns
from distributary.producer_sim.events.routes import Routed, Told, check_source, told_of
from distributary.producer_sim.events.versions import EVENT_TYPES
from distributary.producer_sim.formats.base import FORMATS, corrupt_kinds, load_format
from distributary.producer_sim.formats.corruption import NO_ENTITY
from distributary.producer_sim.traffic.changes import CHANGES
from distributary.producer_sim.traffic.envelopes import GAMER
from distributary.producer_sim.traffic.events import Population, game_names
from distributary.producer_sim.traffic.stages import Stage, staged
from distributary.registry.subjects import Strategy, subject_name

COMPRESSIONS = ("none", "gzip", "snappy", "lz4", "zstd")


@dataclass(frozen=True, kw_only=True, slots=True)
class Simulation:
    """What to send, where, and how fast.

    format             how events are written: protobuf, avro, jsonschema or json
    event_types        how many types of events share the topic, each with a record and schemas of its own
    subject_strategy   TopicName, RecordName or TopicRecordName; empty for TopicName with one type of event, and for
                       TopicRecordName with several, which one subject cannot hold
    first_version      where to begin: 2 with `versions=2` sends only the events of version 2
    versions           the last version that grows; each version's events follow those of the one before
    changes            what each version after that does to the one before it
    references         whether the parts of a record have subjects of their own, to which its schema refers
    one_format         whether the pipeline reads one format only: what is written in another must end in quarantine
    widens             whether the pipeline's columns become as wide as a record's type, where Delta lets them
    events             records of each version, the corrupt ones and the tombstones among them
    rate               records a second; None for as fast as it goes
    game_skew, gamer_skew   0 spreads evenly, 1 is Zipf's law
    corrupt, tombstones     shares of the records, from 0 to 1
    corrupt_kinds      which kinds take turns; None for all that the format has
    old_producers      share of the events that keep an older version once there is a newer one
    key                the field whose value, as text, is a record's key
    headers            the headers that records have, each with the field whose value, as text, it has
    route              how the pipeline routes: what the truth must tell of events, and how one can lack an entity
    kafka              more options of the Kafka client, such as its security; never written to the truth
    """

    bootstrap_servers: str
    topic: str
    format: str = "protobuf"
    event_types: int = 1
    subject_strategy: str = ""
    partitions: int = 4
    games: int = 10
    game_names: tuple[str, ...] = ()
    gamers: int = 5_000
    game_skew: float = 0.0
    gamer_skew: float = 0.0
    first_version: int = 1
    versions: int = 1
    changes: tuple[ChangeClass, ...] = ()
    references: bool = False
    one_format: bool = False
    widens: bool = False
    events: int = 10_000
    rate: float | None = None
    corrupt: float = 0.0
    corrupt_kinds: tuple[str, ...] | None = None
    tombstones: float = 0.0
    old_producers: float = 0.0
    seed: int = 0
    compression: str = "lz4"
    key: str = GAMER
    headers: Mapping[str, str] = field(default_factory=dict)
    route: Routed = field(default_factory=Routed)
    kafka: Mapping[str, str | int | float | bool] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        _check(bool(self.bootstrap_servers), "bootstrap_servers is empty; write for example 127.0.0.1:9092")
        _check(bool(self.topic), "topic is empty")
        for name in ("partitions", "gamers", "first_version", "versions"):
            _check(getattr(self, name) >= 1, f"{name} must be at least 1")
        _check(self.games >= 1 or bool(self.game_names), "games must be at least 1")
        _check(self.events >= 0, "events must not be negative")
        _check(self.seed >= 0, "seed must not be negative")
        _check(self.game_skew >= 0 and self.gamer_skew >= 0, "a skew must not be negative")
        _check(self.rate is None or self.rate > 0, "rate must be above 0; leave it out for full speed")
        for name in ("corrupt", "tombstones", "old_producers"):
            _check(0 <= getattr(self, name) <= 1, f"{name} is a share and must lie between 0 and 1")
        _check(self.corrupt + self.tombstones <= 1, "corrupt and tombstones together must not exceed 1")
        _check(self.compression in COMPRESSIONS, f"compression must be one of: {', '.join(COMPRESSIONS)}")
        _check(self.format in FORMATS, f"format must be one of: {', '.join(FORMATS)}")
        _check(
            1 <= self.event_types <= len(EVENT_TYPES),
            f"event_types must lie between 1 and {len(EVENT_TYPES)}",
        )
        _check(
            not self.subject_strategy or self.subject_strategy in get_args(Strategy),
            f"subject_strategy must be one of: {', '.join(get_args(Strategy))}",
        )
        _check(
            self.event_types == 1 or self.subject_strategy != "TopicName",
            "one subject cannot hold several event_types; choose RecordName or TopicRecordName",
        )
        _check(all(self.game_names), "a game must have a name: without one its events would be corrupt")
        self._check_changes()
        for name in dict.fromkeys(stage.format for stage in self.stages):
            self._check_kinds(name)
        self._check_addresses()

    def _check_addresses(self) -> None:
        _check(all(self.headers), "a header must have a name")
        schemas = self._schemas()
        check_source("the key", self.key, schemas)
        for name, path in self.headers.items():
            check_source(f"the header {name}", path, schemas)
        told_of(self.route, self.key, self.headers, schemas)

    def _check_changes(self) -> None:
        unknown = sorted({*self.changes} - {*CHANGES})
        _check(not unknown, f"changes {', '.join(unknown)}: there are only {', '.join(CHANGES)}")
        last = f"the last version, {self.last_version}"
        _check(self.first_version <= self.last_version, f"first_version must not be above {last}")
        _check(
            self.registered or not self.references,
            f"references: {self.format} has no schemas that could refer to any",
        )

    def _check_kinds(self, name: str) -> None:
        there, kinds = self._kinds_there(name), self.kinds_of(name)
        unknown = sorted({*kinds} - {*there})
        _check(not unknown, f"corrupt_kinds {', '.join(unknown)}: {name} has only {', '.join(there)}")
        _check(bool(kinds) or not self.corrupt, "corrupt_kinds is empty, so corrupt must be 0")

    @property
    def registered(self) -> bool:
        """Whether records name their schemas, so that a registry is asked."""
        return load_format(self.format).schema_type is not None

    @property
    def total(self) -> int:
        """Records that the whole simulation sends."""
        return self.events * (self.last_version - self.first_version + 1)

    @property
    def last_version(self) -> int:
        """The version that the last of the changes makes."""
        return self.versions + len(self.changes)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What is new in each version, from the first on. Raises ConfigError for a change that cannot be made."""
        return staged(self.format, self.versions, self.changes, self.records)

    @property
    def records(self) -> tuple[str, ...]:
        """The records of the types of events, by name."""
        return tuple(EVENT_TYPES)[: self.event_types]

    def subject_of(self, record: str, written_as: str | None = None) -> str:
        """The subject under which a record's schemas are registered, those of another format under one of their own."""
        usual = "TopicName" if self.event_types == 1 else "TopicRecordName"
        strategy = cast("Strategy", self.subject_strategy or usual)
        subject = subject_name(strategy, self.topic, f"{PACKAGE}.{record}")
        # A subject is of one format: Confluent's registry takes another at the level NONE only, Apicurio never.
        return subject if written_as in (None, self.format) else f"{subject}-{written_as}"

    def subject_of_part(self, part: str, written_as: str) -> str:
        """The subject under which a part's schemas are registered; no record's name, so that nobody takes it for one."""
        subject = f"{self.topic}-shared-{part}"
        return subject if written_as == self.format else f"{subject}-{written_as}"

    def kinds_of(self, written_as: str) -> tuple[str, ...]:
        """The kinds of corrupt records that take turns in a format."""
        return self._kinds_there(written_as) if self.corrupt_kinds is None else self.corrupt_kinds

    @property
    def told(self) -> tuple[Told, ...]:
        """What the truth tells of events beside game and type."""
        return told_of(self.route, self.key, self.headers, self._schemas())

    def _kinds_there(self, written_as: str) -> tuple[str, ...]:
        """By whatever else records are routed, no event lacks it, or some do by themselves."""
        can_lack = self.route.by_game or self.route.by in ("key", "header")
        return tuple(kind for kind in corrupt_kinds(written_as) if can_lack or kind != NO_ENTITY)

    def _schemas(self) -> list[pa.Schema]:
        return [
            columns(schema, load_format(stage.format).types)
            for stage in self.stages
            for schema in stage.schemas.values()
        ]

    @property
    def population(self) -> Population:
        """Who plays what."""
        return Population(
            games=self.game_names or game_names(self.games),
            gamers=self.gamers,
            game_skew=self.game_skew,
            gamer_skew=self.gamer_skew,
        )

    def for_truth(self) -> dict[str, Any]:
        """The settings as the truth keeps them: without client options, which may hold secrets."""
        told = {**asdict(self), "corrupt_kinds": self.kinds_of(self.format)}
        return {name: value for name, value in told.items() if name != "kafka"}


def _check(holds: bool, otherwise: str) -> None:
    if not holds:
        raise ConfigError(f"simulation: {otherwise}")
