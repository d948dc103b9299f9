"""`distributary run` and `distributary resolve`: a pipeline, and what it cannot decide alone."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.commands.interrupts import Interrupts, interrupts, left_to_us
from distributary.errors import ConfigError, DistributaryError
from distributary.views.terminal import watching

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from distributary.ingest.resolve import Choice, StuckTable
    from distributary.ingest.settings.model import Settings
    from distributary.ingest.supervisor import Outcome

File = Annotated[Path, typer.Argument(help="The pipeline's settings (YAML).")]


def run(
    file: File,
    available_now: Annotated[
        bool,
        typer.Option("--available-now", help="Take what is there now, then end, whatever the settings say."),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the outcome as JSON, and no progress.")
    ] = False,
) -> None:
    """Run a pipeline until it is done, stopped (Ctrl-C ends it in good order) or cannot go on."""
    from distributary.ingest.run import run as run_pipeline
    from distributary.ingest.settings.model import load

    settings = load(file).once() if available_now else load(file)
    with watching(silent=as_json) as progress, session(settings) as spark, interrupts() as interrupted:
        outcome = run_pipeline(settings, progress, interrupted.stop, spark)
    if as_json:
        typer.echo(json.dumps(_as_dict(outcome)))
    interrupted.end()


def resolve(
    file: File,
    table: Annotated[
        str | None, typer.Argument(help="The table to decide about; none: list those that wait.")
    ] = None,
    recreate: Annotated[
        bool,
        typer.Option(
            "--recreate", help="Make the table anew, for this batch's rows; the old one is put aside."
        ),
    ] = False,
    skip: Annotated[
        bool, typer.Option("--skip", help="Go on without this batch's rows in that table.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the tables as JSON.")] = False,
) -> None:
    """Decide about tables that cannot take their rows any more, because they were dropped or altered by hand."""
    from distributary.ingest.resolve import resolve as decide
    from distributary.ingest.resolve import stuck_tables
    from distributary.ingest.settings.model import load

    settings, choice = load(file), _choice(table, recreate, skip)
    if table is None or choice is None:
        _list([stuck for stuck in stuck_tables(settings) if table in (None, stuck.table)], as_json)
        return
    stuck = decide(settings, table, choice)
    if as_json:
        typer.echo(json.dumps({"choice": choice, **asdict(stuck)}))
    else:
        done = "is made anew" if choice == "recreate" else f"goes on without {stuck.rows:,} rows"
        typer.echo(f"{stuck.table}: {done} (batch {stuck.batch_id}); run the pipeline again")


@contextmanager
def session(settings: Settings) -> Iterator[SparkSession]:
    """The pipeline's session. Made before the run handles signals, since PySpark sets a handler of its own."""
    from distributary.ingest.spark.jvm import jvm_needed, stop_session

    session, asked = _made(settings)
    try:
        asked.end()
        with jvm_needed():
            yield session
    finally:
        stop_session(session)


def _made(settings: Settings) -> tuple[SparkSession, Interrupts]:
    """The session, and whether the command was asked to end meanwhile: a JVM that is left while it starts never ends."""
    from distributary.ingest.session import made_for
    from distributary.ingest.spark.jvm import jvm_needed

    with interrupts() as asked:
        try:
            with jvm_needed():
                session = made_for(settings)
                left_to_us(session)
        except DistributaryError:
            asked.end()
            raise
    return session, asked


def _as_dict(outcome: Outcome) -> dict[str, object]:
    restarts = [{**asdict(restart), "gap_seconds": restart.gap_seconds} for restart in outcome.restarts]
    return {**outcome.summary.as_dict(), "restarts": restarts}


def _choice(table: str | None, recreate: bool, skip: bool) -> Choice | None:
    if recreate and skip:
        raise ConfigError("--recreate and --skip exclude each other; give one of them")
    if (recreate or skip) and table is None:
        raise ConfigError("name the table to decide about; `distributary resolve FILE` lists those that wait")
    if recreate:
        return "recreate"
    return "skip" if skip else None


def _list(tables: list[StuckTable], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps([asdict(stuck) for stuck in tables], indent=2))
        return
    for stuck in tables:
        typer.echo(f"{stuck.table}: {stuck.rows:,} rows of batch {stuck.batch_id} wait: {stuck.why}")
    if not tables:
        typer.echo("nothing waits for a decision")
    else:
        typer.echo("decide with --recreate (make the table anew) or --skip (go on without these rows)")
