"""`distributary simulate`: game events with evolving schemas, and the truth about what was sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.commands.interrupts import interrupts
from distributary.errors import ConfigError
from distributary.ingest.progress import Bars
from distributary.lookup.registry import local_stack, registry_options
from distributary.views.terminal import bars

if TYPE_CHECKING:
    from distributary.ingest.settings.model import Settings
    from distributary.producer_sim.sending.simulate import SentSoFar
    from distributary.producer_sim.traffic.simulation import Simulation
    from distributary.producer_sim.truth.sent import Truth
    from distributary.registry.base import SchemaRegistry


def simulate(
    truth: Annotated[Path, typer.Option(help="Where the truth about what was sent is written, for verify.")],
    file: Annotated[
        Path | None,
        typer.Argument(help="A pipeline's settings: its broker, first topic and registry are used."),
    ] = None,
    bootstrap_servers: Annotated[str, typer.Option(help="The broker (default: the local stack's).")] = "",
    registry: Annotated[str, typer.Option(help="The registry's address (default: the local stack's).")] = "",
    topic: Annotated[str, typer.Option(help="The topic to send to (default: game-events).")] = "",
    written_as: Annotated[
        str,
        typer.Option(
            "--format",
            help="protobuf, avro, jsonschema or json (default: the pipeline's, or protobuf).",
        ),
    ] = "",
    kafka: Annotated[
        list[str] | None, typer.Option(help="A librdkafka option, NAME=VALUE; repeatable.")
    ] = None,
    key: Annotated[
        str, typer.Option(help="The field whose value is a record's key, such as game_name.")
    ] = "gamer_id",
    header: Annotated[
        list[str] | None,
        typer.Option(help="A record header made of a field, NAME=FIELD, such as region=country; repeatable."),
    ] = None,
    event_types: Annotated[int, typer.Option(min=1, help="How many types of events share the topic.")] = 1,
    subject_strategy: Annotated[
        str,
        typer.Option(
            help="TopicName, RecordName or TopicRecordName (default: by how many types of events there are)."
        ),
    ] = "",
    partitions: Annotated[int, typer.Option(min=1, help="Partitions of a topic that is not there yet.")] = 4,
    games: Annotated[int, typer.Option(min=1, help="How many games.")] = 10,
    gamers: Annotated[int, typer.Option(min=1, help="How many gamers, whose ids are the keys.")] = 5_000,
    versions: Annotated[int, typer.Option(min=1, help="The last schema version that only grows.")] = 1,
    change: Annotated[
        list[str] | None,
        typer.Option(
            help="What one more version changes, such as widened, changed or dropped; repeatable, in order."
        ),
    ] = None,
    references: Annotated[
        bool, typer.Option("--references", help="Register the parts of a record by themselves.")
    ] = False,
    one_format: Annotated[
        bool | None,
        typer.Option(
            help="Whether the pipeline reads one format only (default: what its settings say, or not)."
        ),
    ] = None,
    first_version: Annotated[int, typer.Option(min=1, help="The schema version to begin with.")] = 1,
    events: Annotated[int, typer.Option(min=0, help="Records of each version.")] = 10_000,
    rate: Annotated[
        float | None, typer.Option(help="Records a second (default: as fast as it goes).")
    ] = None,
    game_skew: Annotated[float, typer.Option(min=0.0, help="0: games are alike, 1: Zipf's law.")] = 0.0,
    gamer_skew: Annotated[float, typer.Option(min=0.0, help="0: gamers are alike, 1: Zipf's law.")] = 0.0,
    corrupt: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of corrupt records.")] = 0.0,
    tombstones: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of tombstones.")] = 0.0,
    old_producers: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of events that keep an older version.")
    ] = 0.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed sends the same events.")] = 0,
    append: Annotated[bool, typer.Option("--append", help="Add to the truth that is there.")] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was sent as JSON, and no progress.")
    ] = False,
) -> None:
    """Send game events whose schema evolves in the middle of the stream."""
    from distributary.producer_sim.events.routes import Routed
    from distributary.producer_sim.sending.simulate import check_order
    from distributary.producer_sim.sending.simulate import simulate as send
    from distributary.producer_sim.traffic.simulation import Simulation
    from distributary.producer_sim.truth.sent import load, save

    pipeline = _pipeline(file)
    settings = Simulation(
        bootstrap_servers=bootstrap_servers or _broker(pipeline),
        topic=topic or (pipeline.source.topics[0] if pipeline else "game-events"),
        format=written_as or _written(pipeline),
        key=key,
        headers=dict(_header(text) for text in header or ()),
        route=Routed.of(pipeline.route) if pipeline else Routed(),
        event_types=event_types,
        subject_strategy=subject_strategy,
        partitions=partitions,
        games=games,
        gamers=gamers,
        game_skew=game_skew,
        gamer_skew=gamer_skew,
        first_version=first_version,
        versions=versions,
        changes=tuple(change or ()),  # type: ignore[arg-type]  # which ones there are is checked there
        references=references,
        one_format=_one_format(pipeline) if one_format is None else one_format,
        widens=pipeline is not None and pipeline.policies.wider_type == "widen",
        events=events,
        rate=rate,
        corrupt=corrupt,
        tombstones=tombstones,
        old_producers=old_producers,
        seed=seed,
        kafka=dict(_option(text) for text in kafka or ()),
    )
    if truth.exists() and not append:
        raise ConfigError(
            f"there is a truth at {truth} already; add to it with --append, or name another file"
        )
    if truth.exists():
        check_order(load(truth), settings)
    notices: list[str] = []
    with (
        _registry(settings, registry, file) as client,
        bars(silent=as_json) as make_bar,
        interrupts() as interrupted,
    ):
        mover = _mover(make_bar, settings.topic, settings.total)
        told = send(settings, client, mover, interrupted.stop.is_set, notices.append)
        save(told, truth, append=append)
    _report(told, truth, notices, as_json)
    interrupted.end()


@contextmanager
def _registry(settings: Simulation, address: str, file: Path | None) -> Iterator[SchemaRegistry]:
    """The registry that is meant; where no record names a schema none is asked, so that none has to be there."""
    from distributary.registry.confluent.registry import ConfluentRegistry
    from distributary.registry.memory import MemoryRegistry

    if not settings.registered:
        yield MemoryRegistry()
        return
    with ConfluentRegistry(registry_options(address, file, "--registry")) as registry:
        yield registry


def _pipeline(file: Path | None) -> Settings | None:
    from distributary.ingest.settings.model import load

    return load(file) if file else None


def _broker(pipeline: Settings | None) -> str:
    if pipeline:
        return pipeline.source.kafka["bootstrap.servers"]
    return local_stack("--bootstrap-servers").bootstrap_servers


def _written(pipeline: Settings | None) -> str:
    return pipeline.decode.format if pipeline and _one_format(pipeline) else "protobuf"


def _one_format(pipeline: Settings | None) -> bool:
    from distributary.codecs.base import decodes_any_format

    return pipeline is not None and not decodes_any_format(pipeline.decode.format)


def _option(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        # The text may hold a secret, so it is not repeated.
        raise ConfigError("--kafka takes NAME=VALUE, such as --kafka security.protocol=SSL")
    return name, value


def _header(text: str) -> tuple[str, str]:
    name, equals, path = text.partition("=")
    if not (name and equals and path):
        raise ConfigError(f"--header takes NAME=FIELD, such as --header region=country, and not {text!r}")
    return name, path


def _mover(make_bar: Bars, topic: str, total: int) -> Callable[[SentSoFar], None]:
    advance = make_bar(total, f"sending to {topic}")
    sent = 0

    def move(progress: SentSoFar) -> None:
        nonlocal sent
        advance(progress.sent - sent)
        sent = progress.sent

    return move


def _report(told: Truth, path: Path, notices: list[str], as_json: bool) -> None:
    sums = {
        "topic": told.topic,
        "records": told.records,
        "good": told.good,
        "corrupt": told.corrupt_by_kind(),
        "tombstones": len(told.tombstones),
        "truth": str(path),
        "notices": notices,
    }
    if as_json:
        typer.echo(json.dumps(sums))
        return
    for notice in notices:
        typer.echo(notice)
    refused = f" {told.refused:,} that no table takes," if told.refused else ""
    typer.echo(
        f"{told.topic}: {told.records:,} records, {told.good:,} of them good events,{refused}"
        f" {len(told.corrupt) - told.refused:,} corrupt, {len(told.tombstones):,} tombstones; the truth is in {path}"
    )
