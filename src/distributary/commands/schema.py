"""`distributary schema`: what a registry holds, what it would make of a table, and whether a new schema would fit."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from fnmatch import fnmatchcase
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.errors import BadSchema, CheckFailed, ConfigError, SchemaNotFound
from distributary.lookup.registry import Address, SettingsFile
from distributary.lookup.schema_file import check_syntax, text_of
from distributary.lookup.versions import (
    Asked,
    asking,
    candidate,
    reference,
    schema_of,
    schemas_of,
    type_of,
)
from distributary.registry.versions import find
from distributary.views import schema as views
from distributary.views.schema_columns import as_list
from distributary.views.terminal import bars

if TYPE_CHECKING:
    from distributary.registry.base import Schema
    from distributary.registry.confluent.catalogue import Compatibility

app = typer.Typer(help="Look at a registry's schemas, and at the columns they give.", no_args_is_help=True)

Subject = Annotated[str, typer.Argument(help="The subject, such as game-events-value.")]

AsJson = Annotated[bool, typer.Option("--json", help="Print the answer as JSON, and no progress.")]

_AT_ONCE = 8


@app.command("list")
def list_subjects(
    pattern: Annotated[
        str, typer.Argument(help="The beginning of the subjects' names, or a pattern with * and ?.")
    ] = "",
    deleted: Annotated[bool, typer.Option("--deleted", help="Subjects that are deleted, too.")] = False,
    registry: Address = "",
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """List subjects: type, latest version, schema id and compatibility level of each."""
    with asking(registry, settings) as asked, bars(silent=as_json) as make_bar:
        # Filtered here: some registries ignore every filter they are sent.
        names = [name for name in asked.catalogue.subjects(deleted) if _matches(name, pattern)]
        advance = make_bar(len(names), "asking for subjects")

        def row(name: str) -> views.Row | None:
            found = _row(asked, name, deleted)
            advance(1)
            return found

        with ThreadPoolExecutor(_AT_ONCE, "schema-list") as pool:
            rows = [found for found in pool.map(row, names) if found is not None]
    typer.echo(json.dumps(rows, indent=2) if as_json else views.table(rows))


@app.command()
def show(
    subject: Annotated[
        str | None, typer.Argument(help="The subject, unless --id or --guid is given.")
    ] = None,
    version: Annotated[str, typer.Option(help="Its version: a number, or latest.")] = "latest",
    schema_id: Annotated[
        int | None,
        typer.Option("--id", min=0, help="A schema id; SUBJECT then says in which context."),
    ] = None,
    guid: Annotated[str | None, typer.Option("--guid", help="A schema's GUID.")] = None,
    registry: Address = "",
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Show a schema: its text, its references, and the columns it gives."""
    with asking(registry, settings) as asked:
        if guid is not None or schema_id is not None:
            if guid is not None and schema_id is not None:
                raise ConfigError("--id and --guid both name a schema; give one of them")
            found, one = None, asked.registry.by_ref(guid if schema_id is None else schema_id, subject)  # type: ignore[arg-type]
        elif subject is None:
            raise ConfigError("name a subject, or a schema by --id or --guid")
        else:
            found = find(asked.registry.versions(subject, deleted=True), subject, version)
            one = schema_of(asked, found)
    shown = views.shown(one, found)
    typer.echo(json.dumps(shown, indent=2) if as_json else views.shown_text(shown, one))


@app.command()
def diff(
    subject: Subject,
    before: Annotated[str, typer.Argument(metavar="A", help="The older version.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The newer version.")] = "latest",
    registry: Address = "",
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Show what changed between two versions of a subject: fields by the class of change first, then the text."""
    with asking(registry, settings) as asked:
        known = asked.registry.versions(subject, deleted=True)
        pair = [find(known, subject, wanted) for wanted in (before, after)]
        old, new = (schema_of(asked, version) for version in pair)
    shown = views.difference(pair[0], old, pair[1], new)
    typer.echo(json.dumps(shown.as_dict(), indent=2) if as_json else shown.text())


@app.command()
def check(
    subject: Subject,
    file: Annotated[Path, typer.Argument(help="The file with the schema.")],
    schema_type: Annotated[
        str | None,
        typer.Option(
            "--type", help="AVRO, PROTOBUF or JSON (default: by the file's suffix, or the subject's)."
        ),
    ] = None,
    references: Annotated[
        list[str] | None, typer.Option("--reference", help="An import, NAME=SUBJECT:VERSION; repeatable.")
    ] = None,
    registry: Address = "",
    settings: SettingsFile = None,
    as_json: AsJson = False,
) -> None:
    """Tell what a schema would change, and whether the registry takes it as the next version; exit code 3 if not."""
    from distributary.codecs.changes_between import changes_between

    imports, text = [reference(one) for one in references or ()], text_of(file)
    with asking(registry, settings) as asked:
        latest = schema_of(asked, find(asked.registry.versions(subject), subject, "latest"))
        kind = type_of(file, schema_type, latest.type)
        offered = candidate(asked, text, kind, imports)
        verdict = _verdict(asked, subject, file, offered)
        level = asked.catalogue.level(subject)
        changes = changes_between(latest, offered)
    if as_json:
        answer = {
            "subject": subject,
            "compatible": verdict.compatible,
            "type": kind,
            "level": level,
            "against": verdict.against,
            "messages": list(verdict.messages),
            "changes": as_list(changes),
            "why_no_changes": changes.why_none,
        }
        typer.echo(json.dumps(answer, indent=2))
        raise typer.Exit(0 if verdict.compatible else CheckFailed.exit_code)
    typer.echo("\n".join(views.change_lines(changes)))
    held = f"{subject} ({level or 'level unknown'}), held against {verdict.against}"
    if not verdict.compatible:
        said = "".join(f"\n  {message}" for message in verdict.messages) or "; the registry does not say why"
        raise CheckFailed(f"{file} is not compatible with {held}{said}")
    typer.echo(f"{file} is compatible with {held}")


def _verdict(asked: Asked, subject: str, file: Path, offered: Schema) -> Compatibility:
    """What the registry says. What is no schema it refuses, or calls incompatible: that is told in words of our own."""
    try:
        verdict = asked.catalogue.check(subject, offered.text, offered.type, offered.references)
    except BadSchema as error:
        check_syntax(file, offered)
        raise BadSchema(f"{file}: {error}") from None
    if not verdict.compatible:
        check_syntax(file, offered)
    return verdict


@app.command()
def history(
    subject: Subject, registry: Address = "", settings: SettingsFile = None, as_json: AsJson = False
) -> None:
    """Tell a subject's versions, deleted ones too, and what each changed, by the class of change."""
    with asking(registry, settings) as asked:
        versions = asked.registry.versions(subject, deleted=True)
        schemas = schemas_of(asked, versions)
    steps = views.steps(versions, schemas)
    if as_json:
        typer.echo(json.dumps([step.as_dict() for step in steps], indent=2))
    else:
        typer.echo("\n".join(line for step in steps for line in step.lines()))


def _matches(name: str, pattern: str) -> bool:
    is_pattern = any(character in pattern for character in "*?[")
    return fnmatchcase(name, pattern) if is_pattern else name.startswith(pattern)


def _row(asked: Asked, name: str, deleted: bool) -> views.Row | None:
    """One subject's line; None for one that was deleted since the subjects were listed."""
    try:
        return views.row(asked.catalogue.latest(name), asked.catalogue.level(name))
    except SchemaNotFound:
        return _deleted_row(asked, name) if deleted else None


def _deleted_row(asked: Asked, name: str) -> views.Row | None:
    from distributary.registry.confluent.catalogue import Latest

    try:
        last = asked.registry.versions(name, deleted=True)[-1]
    except SchemaNotFound:
        return None
    kind = getattr(schemas_of(asked, [last])[0], "type", "?")
    return views.row(Latest(name, last.version, int(last.id), kind), None, deleted=True)
