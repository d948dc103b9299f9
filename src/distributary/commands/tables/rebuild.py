"""`distributary replay` and `distributary reset`: tables made again from what bronze keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from distributary.commands.arguments import File, Given
from distributary.commands.quarantine.choosing import AsJson, Entity, Partition, Topic, chosen_by, within
from distributary.commands.run import session
from distributary.commands.tables.derive import tell_of_none
from distributary.errors import ConfigError, PipelineError
from distributary.views.answers import tell
from distributary.views.rebuild import rebuilt, replayed
from distributary.views.terminal import watching

if TYPE_CHECKING:
    from distributary.ingest.settings.model import Settings


def replay(
    file: File,
    reason: Annotated[
        list[str] | None,
        typer.Option("--reason", help="Records that are in quarantine for this reason; may be given again."),
    ] = None,
    entity: Entity = None,
    topic: Topic = None,
    since: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="TIME",
            help="Records whose time in Kafka is not before, such as 2026-01-31T08:00.",
        ),
    ] = None,
    until: Annotated[
        str | None, typer.Option("--to", metavar="TIME", help="Records whose time in Kafka is before.")
    ] = None,
    partition: Partition = None,
    offsets: Annotated[
        str | None,
        typer.Option(
            metavar="FIRST:END",
            help="Records whose offset is not before FIRST, and before END; either may be left out.",
        ),
    ] = None,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Also such that have a row, which makes room for what comes of them."),
    ] = False,
    refused: Annotated[
        Literal["keep", "quarantine"],
        typer.Option(
            help="With --replace, of records that would go to quarantine now: keep the row, or let it go."
        ),
    ] = "keep",
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Decode nothing, and count what would be decoded again.")
    ] = False,
    given: Given = None,
    as_json: AsJson = False,
) -> None:
    """Make rows again from bronze of the records that no table has, or with --replace of all, each once; a run that appends may go on meanwhile."""
    from distributary.ingest.settings.model import load

    settings = load(file, given=given or ())
    chosen = chosen_by(reason, entity, None, topic, (since, until), ("--from", "--to"))
    chosen = within(chosen, partition, offsets)
    if dry_run:
        from distributary.ingest.rebuild.dry import lacking

        done = lacking(settings, chosen, replace=replace)
    else:
        from distributary.ingest.rebuild.silver import replay as make

        with watching(silent=as_json) as progress:
            done = make(settings, chosen, progress, replace=replace, refused=refused)
    tell(done.as_dict(), replayed(done), as_json=as_json)


def reset(
    file: File,
    layer: Annotated[
        Literal["silver", "gold", "bronze"],
        typer.Option(
            help="silver: the tables of entities, made again from bronze; gold: those derived from them; bronze: what nothing brings back."
        ),
    ],
    yes: Annotated[
        bool,
        typer.Option(
            "--yes",
            help="Do it: without this neither silver nor bronze is emptied, and it is said what would be. gold needs none.",
        ),
    ] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also where rows are lost that bronze does not have.")
    ] = False,
    given: Given = None,
    as_json: AsJson = False,
) -> None:
    """Empty the tables of a layer and make them again; refused while a run of the pipeline is alive."""
    from distributary.ingest.settings.model import load

    settings = load(file, given=given or ())
    if layer == "gold":
        _gold(settings, as_json=as_json)
        return
    from distributary.ingest.rebuild.reset import reset as empty

    if not yes and (layer == "silver" or force):
        raise ConfigError(
            f"that empties all {'tables of entities' if layer == 'silver' else 'tables that keep records as they came'} of {settings.name}, "
            f"{'which are then made again from bronze' if layer == 'silver' else 'which nothing brings back'}. Say --yes to do it"
        )
    with watching(silent=as_json) as progress:
        done = empty(settings, layer, progress, force=force)
    tell(done.as_dict(), rebuilt(done), as_json=as_json)


def _gold(settings: Settings, *, as_json: bool) -> None:
    """Each derived table worked out again, by one entry in the place of all rows that it had. Raises PipelineError where one cannot be."""
    from dataclasses import asdict

    from distributary.ingest.derived.refresh import derive
    from distributary.ingest.lineage.of_commands import told_of

    if not settings.derive:
        tell_of_none(settings.name, as_json=as_json)
        return
    with told_of(settings, "reset") as heard, session(settings) as spark:
        done = derive(settings, spark, whole=True)
        heard.derived(done)
    lines = (
        f"{one.table}: {one.how}, {one.rows or 0:,} rows" + (f": {one.why}" if one.why else "")
        for one in done
    )
    tell([asdict(one) for one in done], lines, as_json=as_json)
    if failed := [one.table for one in done if one.how == "failed"]:
        raise PipelineError(f"not made again: {', '.join(failed)}; once that is mended, say it again")
