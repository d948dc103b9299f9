"""`distributary quarantine`: what waits there, brought back or deleted."""

from __future__ import annotations

import json
from datetime import datetime, timezone
from typing import TYPE_CHECKING, Annotated, Any

import typer

from distributary.commands.run import File, Given
from distributary.errors import ConfigError
from distributary.views.quarantine import listed, purged, replayed, shown
from distributary.views.terminal import watching

if TYPE_CHECKING:
    from distributary.ingest.quarantine.chosen import Chosen

app = typer.Typer(help="What waits in quarantine: seen, brought back, deleted.", no_args_is_help=True)

Reason = Annotated[
    list[str] | None,
    typer.Option("--reason", help="Records that are there for this reason; may be given again."),
]
Entity = Annotated[
    list[str] | None,
    typer.Option("--entity", help="Records of this entity, where it was known; may be given again."),
]
SchemaId = Annotated[
    list[str] | None,
    typer.Option("--schema-id", help="Records that name this schema, by id or GUID; may be given again."),
]
Topic = Annotated[
    list[str] | None, typer.Option("--topic", help="Records of this topic; may be given again.")
]
Since = Annotated[
    str | None,
    typer.Option(
        "--since", metavar="TIME", help="Records whose time in Kafka is not before, such as 2026-01-31T08:00."
    ),
]
Until = Annotated[
    str | None, typer.Option("--until", metavar="TIME", help="Records whose time in Kafka is before.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print it as JSON.")]


@app.command("list")
def list_(
    file: File,
    reason: Reason = None,
    entity: Entity = None,
    schema_id: SchemaId = None,
    topic: Topic = None,
    since: Since = None,
    until: Until = None,
    given: Given = None,
    as_json: AsJson = False,
) -> None:
    """Count what is in quarantine by reason, schema and topic, what was brought back apart from what is open."""
    from distributary.ingest.quarantine.contents import contents
    from distributary.ingest.settings.model import load

    found = contents(load(file, given=given or ()), _chosen(reason, entity, schema_id, topic, (since, until)))
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=2))
        return
    for line in listed(found):
        typer.echo(line)


@app.command()
def show(
    file: File,
    reason: Reason = None,
    entity: Entity = None,
    schema_id: SchemaId = None,
    topic: Topic = None,
    since: Since = None,
    until: Until = None,
    partition: Annotated[int | None, typer.Option(help="The record's partition.")] = None,
    offset: Annotated[int | None, typer.Option(help="The record's offset.")] = None,
    most: Annotated[int, typer.Option("--most", min=1, help="Show so many, the first ones.")] = 1,
    payload: Annotated[
        bool, typer.Option("--payload", help="Show key and value, too, in base64: they may be private.")
    ] = False,
    given: Given = None,
    as_json: AsJson = False,
) -> None:
    """Show a record in quarantine: where it is from, why it is there and what became of it; its bytes only if asked."""
    from dataclasses import replace

    from distributary.ingest.quarantine.contents import records
    from distributary.ingest.settings.model import load

    chosen = _chosen(reason, entity, schema_id, topic, (since, until))
    found = records(
        load(file, given=given or ()), replace(chosen, place=(partition, offset)), most, payload=payload
    )
    if as_json:
        told = {"total": found.total, "records": [one.as_dict() for one in found.records]}
        typer.echo(json.dumps(told, indent=2))
        return
    for line in shown(found):
        typer.echo(line)


@app.command()
def replay(
    file: File,
    reason: Reason = None,
    entity: Entity = None,
    schema_id: SchemaId = None,
    topic: Topic = None,
    since: Since = None,
    until: Until = None,
    given: Given = None,
    as_json: AsJson = False,
) -> None:
    """Decode what is in quarantine again, by today's settings and schemas, and put it into its tables, once; while no run goes on."""
    from distributary.ingest.replay.bring_back import bring_back
    from distributary.ingest.settings.model import load

    settings = load(file, given=given or ())
    chosen = _chosen(reason, entity, schema_id, topic, (since, until))
    with watching(silent=as_json) as progress:
        done = bring_back(settings, chosen, progress)
    if as_json:
        typer.echo(json.dumps(done.as_dict(), indent=2))
        return
    for line in replayed(done):
        typer.echo(line)


@app.command()
def purge(
    file: File,
    reason: Reason = None,
    entity: Entity = None,
    schema_id: SchemaId = None,
    topic: Topic = None,
    since: Since = None,
    until: Until = None,
    older_than: Annotated[
        float | None,
        typer.Option(min=0, help="Only records that are so many days old, by their time in Kafka."),
    ] = None,
    yes: Annotated[
        bool, typer.Option("--yes", help="Also such that were not brought back: nobody can bring them then.")
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Change nothing, and tell what would be done.")
    ] = False,
    given: Given = None,
    as_json: AsJson = False,
) -> None:
    """Delete from quarantine what was brought back; with --yes whatever is chosen. A run may go on meanwhile."""
    from distributary.ingest.quarantine.purging import Wish
    from distributary.ingest.quarantine.purging import purge as delete
    from distributary.ingest.settings.model import load

    wish = Wish(_chosen(reason, entity, schema_id, topic, (since, until)), yes, older_than, dry_run)
    done = delete(load(file, given=given or ()), wish)
    if as_json:
        typer.echo(json.dumps(done.as_dict(), indent=2))
    else:
        for line in purged(done):
            typer.echo(line)
    done.check()


def _chosen(
    reason: list[str] | None,
    entity: list[str] | None,
    schema_id: list[str] | None,
    topic: list[str] | None,
    times: tuple[str | None, str | None],
) -> Chosen:
    from distributary.ingest.quarantine.chosen import Chosen

    listed: dict[str, Any] = {
        "reasons": tuple(reason or ()),
        "entities": tuple(entity or ()),
        "schemas": tuple(schema_id or ()),
        "topics": tuple(topic or ()),
    }
    since, until = (_time(name, text) for name, text in zip(("--since", "--until"), times, strict=True))
    return Chosen(**listed, since=since, until=until)


def _time(option: str, text: str | None) -> datetime | None:
    """A time as users write it, in UTC unless it says otherwise. Raises ConfigError."""
    if text is None:
        return None
    try:
        # Before Python 3.11 a Z is none of ISO's.
        at = datetime.fromisoformat(text.replace("Z", "+00:00"))
    except ValueError:
        raise ConfigError(
            f"{option} {text}: that is no time; write one such as 2026-01-31 or 2026-01-31T08:00"
        ) from None
    return at.replace(tzinfo=timezone.utc) if at.tzinfo is None else at
