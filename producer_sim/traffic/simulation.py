"""A simulation: what to send, where, and how fast; checked when it is made."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import Field, ValidationError, ValidationInfo, WithJsonSchema, model_validator

from distributary.errors import ConfigError
from distributary.ingest.settings.check import add_problems, refuse_literal_secrets
from distributary.ingest.settings.model import Settings
from distributary.ingest.settings.model import load as load_pipeline
from distributary.ingest.settings.problems import as_error
from distributary.ingest.settings.reference import json_schema_of
from distributary.ingest.settings.yaml_file import Document, in_no_file, read
from distributary.producer_sim.events.model import PACKAGE, columns
from distributary.producer_sim.events.routes import Told, check_source, told_of
from distributary.producer_sim.events.versions import EVENT_TYPES
from distributary.producer_sim.formats.base import corrupt_kinds, load_format
from distributary.producer_sim.formats.corruption import NO_ENTITY
from distributary.producer_sim.traffic.events import Population, game_names
from distributary.producer_sim.traffic.given import as_given, in_their_parts
from distributary.producer_sim.traffic.parts import (
    Evolution,
    Faults,
    Pace,
    PipelineView,
    Players,
    Target,
    Writing,
)
from distributary.producer_sim.traffic.stages import Stage, staged
from distributary.registry.subjects import Strategy, subject_name
from distributary.values import Group, Wrong, WrongValues

_A_PATH = "write the path of the pipeline's settings, such as games.yaml"


class Simulation(Group):
    """What to send, where, and how fast.

    Made by `of`, of settings by their own names, whatever part they are in, `Simulation.of(games=3, events=100)`, or read by
    `from_file`. Both refuse what cannot work.
    """

    pipeline: Annotated[PipelineView, WithJsonSchema({"type": "string", "format": "path"})] = PipelineView()
    """The settings file of the pipeline that will read the records: its broker, first topic, registry and format are the defaults, and by its route the truth tells where events must be."""
    target: Target = Target()
    """Where the records go."""
    writing: Writing = Writing()
    """How events are written."""
    players: Players = Players()
    """Who plays what."""
    evolution: Evolution = Evolution()
    """How the schema evolves in the middle of the stream."""
    pace: Pace = Pace()
    """How many records, and how fast."""
    faults: Faults = Faults()
    """What is wrong with some of the records."""
    seed: Annotated[int, Field(ge=0)] = 0
    """The same seed and settings make the same records."""

    @classmethod
    def of(cls, **settings: Any) -> Simulation:
        """A simulation of these settings by their own names, in whatever part they are; `pipeline` may be a settings file.

        Raises one ConfigError with all problems.
        """
        return _checked(in_no_file(in_their_parts(cls, settings, {})), {})

    @classmethod
    def from_file(cls, path: Path | str, environment: Mapping[str, str] | None = None) -> Simulation:
        """The simulation in a YAML file, `${VAR}` filled in from the environment.

        path         the file; the path of the pipeline's settings is relative to its folder
        environment  the variables; by default the process's

        Raises ConfigError, which names all problems with their lines and remedies.
        """
        variables = os.environ if environment is None else environment
        document = read(Path(path), variables)
        _refuse_a_pipeline(document)
        refuse_literal_secrets(document, cls)
        folder = Path(os.path.abspath(path)).parent
        return _checked(document, {"folder": folder, "environment": variables})

    def changed(self, **settings: Any) -> Simulation:
        """The same with some settings changed, by their own names. Raises one ConfigError with all problems."""
        return _checked(in_no_file(in_their_parts(type(self), settings, as_given(self))), {})

    def only(self, first: int, last: int | None = None) -> Simulation:
        """The part of it that sends these versions, or this one. Raises ConfigError where there are none such."""
        last = first if last is None else last
        if not 1 <= first <= last <= self.last_version:
            raise ConfigError(
                f"the simulation has versions 1 to {self.last_version}, and not {first} to {last}; "
                "ask for some of those, or raise evolution.versions"
            )
        grown, changes = self.evolution.versions, self.evolution.changes
        return self.changed(
            first_version=first, versions=min(last, grown), changes=changes[: max(0, last - grown)]
        )

    @model_validator(mode="before")
    @classmethod
    def _as_its_pipeline_says(cls, given: Any, info: ValidationInfo) -> Any:
        if not isinstance(given, Mapping) or given.get("pipeline") is None:
            return given
        named = given["pipeline"]
        if isinstance(named, PipelineView | Mapping):
            return given
        settings = named if isinstance(named, Settings) else _settings(named, info.context or {})
        return _with_defaults(given, settings)

    def wrong(self) -> Iterator[Wrong]:
        """What cannot be sent as it is."""
        if self.evolution.first_version > self.last_version:
            yield (
                ("evolution", "first_version"),
                f"it must not be above the last version, {self.last_version}",
            )
        if self.writing.references and not self.registered:
            why = f"{self.writing.format} has no schemas that could refer to any; leave it out"
            yield ("writing", "references"), why
        try:
            stages = self.stages
        except ConfigError as error:
            yield ("evolution", "changes"), str(error)
            return
        for name in dict.fromkeys(stage.format for stage in stages):
            yield from self._unknown_kinds(name)
        yield from self._sources_amiss()

    def _unknown_kinds(self, name: str) -> Iterator[Wrong]:
        there = self._kinds_there(name)
        unknown = sorted({*self.kinds_of(name)} - {*there})
        if unknown:
            why = f"there is no {', '.join(unknown)}: {name} has only {', '.join(there)}"
            yield ("faults", "corrupt_kinds"), why

    def _sources_amiss(self) -> Iterator[Wrong]:
        schemas = self._schemas()
        sources = {("writing", "key"): ("the key", self.writing.key)}
        for name, path in self.writing.headers.items():
            sources["writing", "headers", name] = (f"the header {name}", path)  # type: ignore[index]
        for keys, (what, path) in sources.items():
            try:
                check_source(what, path, schemas)
            except ConfigError as error:
                yield keys, str(error)
        try:
            told_of(self.pipeline.route, self.writing.key, self.writing.headers, schemas)
        except ConfigError as error:
            yield ("pipeline",), str(error)

    @property
    def registered(self) -> bool:
        """Whether records name their schemas, so that a registry is asked."""
        return load_format(self.writing.format).schema_type is not None

    @property
    def total(self) -> int:
        """Records that the whole simulation sends."""
        return self.pace.events * (self.last_version - self.evolution.first_version + 1)

    @property
    def last_version(self) -> int:
        """The version that the last of the changes makes."""
        return self.evolution.versions + len(self.evolution.changes)

    @property
    def stages(self) -> tuple[Stage, ...]:
        """What is new in each version, from the first on. Raises ConfigError for a change that cannot be made."""
        return staged(self.writing.format, self.evolution.versions, self.evolution.changes, self.records)

    @property
    def records(self) -> tuple[str, ...]:
        """The records of the types of events, by name."""
        return tuple(EVENT_TYPES)[: self.writing.event_types]

    def subject_of(self, record: str, written_as: str | None = None) -> str:
        """The subject under which a record's schemas are registered, those of another format under one of their own."""
        usual: Strategy = "TopicName" if self.writing.event_types == 1 else "TopicRecordName"
        strategy = self.writing.subject_strategy or usual
        subject = subject_name(strategy, self.target.topic, f"{PACKAGE}.{record}")
        # A subject is of one format: Confluent's registry takes another at the level NONE only, Apicurio never.
        return subject if written_as in (None, self.writing.format) else f"{subject}-{written_as}"

    def subject_of_part(self, part: str, written_as: str) -> str:
        """The subject under which a part's schemas are registered; no record's name, so that nobody takes it for one."""
        subject = f"{self.target.topic}-shared-{part}"
        return subject if written_as == self.writing.format else f"{subject}-{written_as}"

    def kinds_of(self, written_as: str) -> tuple[str, ...]:
        """The kinds of corrupt records that take turns in a format."""
        chosen = self.faults.corrupt_kinds
        return self._kinds_there(written_as) if chosen is None else chosen

    @property
    def told(self) -> tuple[Told, ...]:
        """What the truth tells of events beside game and type."""
        return told_of(self.pipeline.route, self.writing.key, self.writing.headers, self._schemas())

    def _kinds_there(self, written_as: str) -> tuple[str, ...]:
        """By whatever else records are routed, no event lacks it, or some do by themselves."""
        route = self.pipeline.route
        can_lack = route.by_game or route.by in ("key", "header")
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
            games=self.players.game_names or game_names(self.players.games),
            gamers=self.players.gamers,
            game_skew=self.players.game_skew,
            gamer_skew=self.players.gamer_skew,
        )

    def for_truth(self) -> dict[str, Any]:
        """The settings as the truth keeps them, by their own names: without how broker and registry are logged in to."""
        told: dict[str, Any] = {}
        for part in self.model_dump(
            mode="json", exclude={"target": {"kafka", "registry"}, "seed": True}
        ).values():
            told.update(part)
        return {**told, "seed": self.seed, "corrupt_kinds": [*self.kinds_of(self.writing.format)]}


def _settings(named: Any, context: Mapping[str, Any]) -> Settings:
    if not isinstance(named, str | Path):
        raise WrongValues((("pipeline",), _A_PATH))
    path = Path(context.get("folder", "")) / Path(named).expanduser()
    try:
        return load_pipeline(path, context.get("environment"))
    except ConfigError as error:
        raise WrongValues((("pipeline",), str(error))) from None


def _with_defaults(given: Mapping[str, Any], settings: Settings) -> dict[str, Any]:
    """What is given, and where nothing is, what the pipeline says."""
    view = PipelineView.of(settings)
    servers = settings.source.kafka.get("bootstrap.servers")
    if servers is None:
        raise WrongValues((("pipeline",), "it reads no topics of Kafka's, to which alone events are sent"))
    target = {"bootstrap_servers": servers, "topic": settings.source.topics[0], "registry": settings.registry}
    writing = {"format": settings.decode.format} if view.one_format else {}
    return {
        **given,
        "pipeline": view,
        "target": _laid_over(target, given.get("target", {})),
        "writing": _laid_over(writing, given.get("writing", {})),
    }


def _laid_over(below: Mapping[str, Any], part: Any) -> Any:
    given = as_given(part)
    return {**below, **given} if isinstance(given, Mapping) else given


def json_schema() -> dict[str, Any]:
    """A simulation's JSON Schema, for editors that complete and check YAML."""
    return json_schema_of(Simulation)


def _checked(document: Document, context: Mapping[str, Any]) -> Simulation:
    simulation: Simulation | None = None
    try:
        simulation = Simulation.model_validate(document.settings, context=dict(context))
    except ValidationError as error:
        add_problems(document, Simulation, error)
    if simulation is None or document.problems:
        raise as_error(document.path, document.problems)
    return simulation


def _refuse_a_pipeline(document: Document) -> None:
    """Two files lie beside each other; it is told in one sentence when the one was given for the other."""
    given, path = document.settings, document.path
    if not isinstance(given, Mapping) or path is None:
        return
    if {"source", "sink"} <= given.keys():
        raise ConfigError(
            f"{path} holds a pipeline's settings; write a simulation, a file of its own that says "
            f"`pipeline: {path.name}` (`distributary simulations list` shows some to start from)"
        )
    if isinstance(given.get("pipeline"), Mapping):
        document.complain(("pipeline",), _A_PATH)
