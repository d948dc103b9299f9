"""`distributary derive`: the tables that are made of a pipeline's tables."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.commands.arguments import File, Given
from distributary.commands.run import session
from distributary.errors import PipelineError
from distributary.views.answers import tell

if TYPE_CHECKING:
    from distributary.ingest.derived.refresh import Refreshed


def derive(
    file: File,
    table: Annotated[
        list[str] | None,
        typer.Option(help="A derived table, by its folder; may be given again (default: all)."),
    ] = None,
    whole: Annotated[bool, typer.Option("--whole", help="Work all out again, whatever is there.")] = False,
    given: Given = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print what was done as JSON.")] = False,
) -> None:
    """Make a pipeline's derived tables current; a run may go on meanwhile."""
    from distributary.ingest.derived.refresh import derive as refreshed
    from distributary.ingest.lineage.of_commands import told_of
    from distributary.ingest.settings.model import load

    settings = load(file, given=given or ())
    if not settings.derive and not table:
        tell_of_none(settings.name, as_json=as_json)
        return
    with told_of(settings, "derive") as heard, session(settings) as spark:
        done = refreshed(settings, spark, table or (), whole=whole)
        heard.derived(done)
    tell([asdict(one) for one in done], map(_line, done), as_json=as_json)
    if failed := [one.table for one in done if one.how == "failed"]:
        raise PipelineError(
            f"not made current: {', '.join(failed)}; once what is said of them is mended, say it again"
        )


def tell_of_none(pipeline: str, *, as_json: bool) -> None:
    """Say that a pipeline has no derived tables."""
    said = f"{pipeline}: its settings have no tables that are made of others (`derive`)"
    tell([], [said], as_json=as_json)


def _line(one: Refreshed) -> str:
    of = ", ".join(f"{name} at version {version}" for name, version in one.inputs.items())
    said = {
        "made": f"made of all rows of {of}: {one.rows or 0:,} rows, {one.seconds:.1f} s",
        "added": f"brought up to {of} by what was added: {one.rows or 0:,} rows, {one.seconds:.1f} s",
        "current": f"current, as of {of}",
        "waits": f"waits: {one.why}",
        "failed": f"failed: {one.why}",
    }
    late = f"; {one.why}" if one.how in ("made", "added", "current") and one.why else ""
    units = {"kafka": "records to its topic", "files": "files"}
    sent = "".join(f"; {count:,} {units[name]}" for name, count in one.sent.items())
    return f"{one.table}: {said[one.how]}{late}{sent}"
