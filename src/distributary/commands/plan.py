"""`distributary plan`: what the newest schemas would do to a pipeline's tables, before anything runs."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.commands.run import File
from distributary.commands.settings import routing_expression
from distributary.errors import CheckFailed, ConfigError
from distributary.lookup.offered import Answered, Offer, offered
from distributary.lookup.versions import asking
from distributary.views import plan as views

if TYPE_CHECKING:
    from distributary.codecs.base import Codec
    from distributary.ingest.evolution.candidates import Candidate, Candidates
    from distributary.ingest.evolution.pairing import Known
    from distributary.ingest.settings.model import Settings


def plan(
    file: File,
    schema: Annotated[
        Path | None,
        typer.Option(help="A file with a schema that is not registered yet: it is taken for the newest one."),
    ] = None,
    subject: Annotated[
        str | None,
        typer.Option(help="The subject that --schema is for; may be left out where only one is watched."),
    ] = None,
    schema_type: Annotated[
        str | None,
        typer.Option(
            "--type", help="AVRO, PROTOBUF or JSON (default: by the file's suffix, or the subject's)."
        ),
    ] = None,
    references: Annotated[
        list[str] | None,
        typer.Option("--reference", help="An import of --schema, NAME=SUBJECT:VERSION; repeatable."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the plan as JSON.")] = False,
) -> None:
    """Show what the newest schemas would do to each table; exit code 3 if something needs a decision."""
    from distributary.ingest.evolution.plan import Planner
    from distributary.ingest.evolution.rules import rules_of
    from distributary.ingest.settings.model import load

    if schema is None and (subject or schema_type or references):
        raise ConfigError(
            "--subject, --type and --reference are about a schema in a file; give it by --schema"
        )
    settings = load(file)
    expression = routing_expression(file, settings, ", nor what changes do to it")
    offer = None if schema is None else Offer(schema, subject, schema_type, tuple(references or ()))
    with _answered(file, settings) as answered:
        candidate = None if offer is None else offered(offer, _value_subjects(settings), answered)
        codec, candidates = _candidates(settings, answered, candidate)
        told = views.told_subjects(candidates, answered)
        # Older versions are asked for when a table's records are of a type that the newest is not.
        found = Planner(codec, candidates, rules_of(settings, expression), _known(settings)).plan()
    view = views.View(settings.name, str(settings.sink.root), told, found)
    typer.echo(json.dumps(view.as_dict(), indent=2) if as_json else view.text())
    if view.open and as_json:
        raise typer.Exit(CheckFailed.exit_code)
    if view.open:
        raise CheckFailed(view.verdict())


@contextmanager
def _answered(file: Path, settings: Settings) -> Iterator[Answered]:
    """The settings' registry, the location of their inferred schema, or both; neither is written to."""
    from distributary.codecs.base import growing, load_codec
    from distributary.ingest.schemas.entity_location import location_of
    from distributary.ingest.schemas.mixed import MixedSchemas

    codec = load_codec(settings.decode.format)
    if not codec.registered:
        yield Answered(location_of(settings.name, settings.decode), None)
        return
    with asking("", file) as asked:
        mixed = growing(codec) is not None
        registry = (
            MixedSchemas(asked.registry, location_of(settings.name, settings.decode))
            if mixed
            else asked.registry
        )
        yield Answered(registry, asked.catalogue)


def _candidates(
    settings: Settings, answered: Answered, candidate: Candidate | None
) -> tuple[Codec, Candidates]:
    from distributary.codecs.base import codec_knowing, load_codec
    from distributary.ingest.evolution.candidates import Candidates

    subjects = [*_value_subjects(settings), *_inferred_subjects(settings)]
    codec = load_codec(settings.decode.format)
    found = Candidates(codec, answered.registry, subjects, candidate)
    return codec_knowing(settings.decode.format, {one.ref: one.schema.type for one in found.newest}), found


def _value_subjects(settings: Settings) -> tuple[str, ...]:
    from distributary.ingest.schemas.subjects import value_subjects

    return value_subjects(settings.source, settings.registry, settings.decode)


def _inferred_subjects(settings: Settings) -> list[str]:
    """What the inferred schemas' versions are called by: one for all records, or one an entity."""
    from distributary.ingest.schemas.entity_location import EntitySchemas, location_of
    from distributary.ingest.schemas.subjects import inferred_subject

    inferred = inferred_subject(settings.name, settings.decode)
    if inferred is None:
        return []
    location = location_of(settings.name, settings.decode)
    return location.subjects() if isinstance(location, EntitySchemas) else [inferred]


def _known(settings: Settings) -> Known:
    """What checkpoint and tables tell of the past; a checkpoint that is not there tells nothing."""
    from distributary.ingest.checkpoint.folder import Checkpoint
    from distributary.ingest.checkpoint.manifest_file import ManifestStore
    from distributary.ingest.evolution.pairing import Known
    from distributary.ingest.schemas.store import PinsStore
    from distributary.ingest.tables.book import TableBook

    checkpoint = Checkpoint(settings.checkpoint)
    last = ManifestStore(checkpoint).last()
    tables = TableBook(str(settings.sink.root), settings.sink.columns, None, settings.limits.commit_threads)
    there, unread = tables.readable(last.entities if last else tables.entities_there())
    pinned = dict(PinsStore(checkpoint).read()) if checkpoint.pins.is_dir() else {}
    return Known(there, last.met if last else {}, pinned, unread)
