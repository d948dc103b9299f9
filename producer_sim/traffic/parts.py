"""The parts of a simulation: each a frozen model that checks itself; `simulation.py` puts them together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Literal

from pydantic import Field, field_validator

from distributary.codecs.base import load_codec
from distributary.codecs.changes.classify import ChangeClass
from distributary.ingest.settings.model import Settings
from distributary.passed_on_options import ClientOptions
from distributary.producer_sim.events.routes import Routed
from distributary.producer_sim.events.versions import EVENT_TYPES
from distributary.producer_sim.formats.base import FORMATS
from distributary.producer_sim.traffic.envelopes import GAMER
from distributary.registry.confluent.options import RegistryAccess
from distributary.registry.subjects import Strategy
from distributary.values import EmptyIsNone, Group, Name, Wrong

Share = Annotated[float, Field(ge=0, le=1)]

AtLeastOne = Annotated[int, Field(ge=1)]

Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]

Skew = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class PipelineView(Group):
    """What a simulation must know of the pipeline that will read its records."""

    route: Routed = Routed()
    """How records find their tables: what the truth must tell of events, and how one can lack an entity."""
    one_format: bool = False
    """Whether it reads one format only: what is written in another must end in quarantine."""
    widens: bool = False
    """Whether its columns become as wide as a record's type, where Delta lets them."""

    @classmethod
    def of(cls, settings: Settings) -> PipelineView:
        """What a pipeline's settings say."""
        return cls(
            route=Routed.of(settings.route),
            one_format=not load_codec(settings.decode.format).takes_any_format,
            widens=settings.policies.wider_type == "widen",
        )


class Target(Group):
    """Where the records go."""

    bootstrap_servers: str = ""
    """The broker; by default the pipeline's, or else the local stack's."""
    topic: Name = "game-events"
    """The topic; by default the first one of the pipeline."""
    partitions: AtLeastOne = 4
    """Partitions of a topic that is not there yet."""
    registry: RegistryAccess = RegistryAccess()
    """The schema registry, in the words of a pipeline's settings; by default the pipeline's, or else the local stack's."""
    kafka: ClientOptions = ClientOptions({})
    """More options of librdkafka, such as its security; secrets only through `${VAR}`, and none is written to the truth."""
    compression: Literal["none", "gzip", "snappy", "lz4", "zstd"] = "lz4"
    """How the producer compresses its batches."""


class Writing(Group):
    """How events are written."""

    format: str = "protobuf"
    """`protobuf`, `avro`, `jsonschema` or `json`; by default what the pipeline reads, if that is one format."""
    event_types: Annotated[int, Field(ge=1, le=len(EVENT_TYPES))] = 1
    """How many types of events share the topic, each with a record and schemas of its own."""
    subject_strategy: Annotated[Strategy | None, EmptyIsNone] = None
    """Under what schemas are registered; by default `TopicName` with one type of event, and `TopicRecordName` with several, which one subject cannot hold."""
    references: bool = False
    """Whether the parts of a record have subjects of their own, to which its schema refers."""
    key: Name = GAMER
    """The field whose value, as text, is a record's key."""
    headers: Mapping[Name, Name] = Field(default_factory=dict)
    """The headers that records have, each with the field whose value, as text, it has."""

    @field_validator("format")
    @classmethod
    def _known(cls, name: str) -> str:
        if name not in FORMATS:
            raise ValueError(f"write one of {', '.join(FORMATS)}")
        return name

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if self.event_types > 1 and self.subject_strategy == "TopicName":
            why = "one subject cannot hold several event_types; write RecordName or TopicRecordName"
            yield ("subject_strategy",), why


class Players(Group):
    """Who plays what."""

    games: AtLeastOne = 10
    """How many games."""
    game_names: tuple[Name, ...] = ()
    """Their names, which then count instead of `games`."""
    gamers: AtLeastOne = 5_000
    """How many gamers, whose ids are the keys unless `writing.key` says otherwise."""
    game_skew: Skew = 0.0
    """How unevenly events fall on games: 0 spreads evenly, 1 is Zipf's law."""
    gamer_skew: Skew = 0.0
    """How unevenly events fall on gamers, likewise."""


class Evolution(Group):
    """How the schema evolves. Each version's events follow those of the one before."""

    first_version: AtLeastOne = 1
    """The version to begin with; those that `changes` make are counted on."""
    versions: AtLeastOne = 1
    """The last version that only grows."""
    changes: tuple[ChangeClass, ...] = ()
    """What each version after that does to the one before it, such as `widened`, `changed` or `dropped`."""
    old_producers: Share = 0.0
    """Share of the events that keep an older version once there is a newer one."""


class Pace(Group):
    """How many records, and how fast."""

    events: Annotated[int, Field(ge=0)] = 10_000
    """Records of each version, the corrupt ones and the tombstones among them."""
    rate: Annotated[Rate | None, EmptyIsNone] = None
    """Records a second; by default as fast as it goes."""


class Faults(Group):
    """What is wrong with some of the records."""

    corrupt: Share = 0.0
    """Share of records that must end in quarantine."""
    corrupt_kinds: tuple[str, ...] | None = None
    """Which kinds take turns; by default all that the format has."""
    tombstones: Share = 0.0
    """Share of records with a null value, which must be counted and dropped."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if self.corrupt + self.tombstones > 1:
            why = "corrupt and tombstones together must not exceed 1; make one of them smaller"
            yield ("corrupt",), why
        if self.corrupt and self.corrupt_kinds == ():
            yield ("corrupt_kinds",), "it is empty, so corrupt must be 0; name a kind"
