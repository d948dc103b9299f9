"""`distributary run`: a pipeline, and the session that it runs in."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.commands.arguments import File, Given
from distributary.commands.interrupts import Interrupts, interrupts, left_to_us
from distributary.errors import ConfigError, DistributaryError
from distributary.views.terminal import console, watching

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from distributary.ingest.settings.model import Settings
    from distributary.ingest.supervision.outcome import Outcome


def run(
    file: File,
    available_now: Annotated[
        bool | None,
        typer.Option(
            "--available-now/--continuous",
            "--once",
            help="Take what is there now, then end; or go on until stopped (default: what the settings say).",
        ),
    ] = None,
    update_schema: Annotated[
        bool,
        typer.Option(
            "--update-schema",
            help="First infer the schema of JSON that names none anew, and add what is found to the one that there is.",
        ),
    ] = False,
    until: Annotated[
        str | None,
        typer.Option(
            help="Take what is before this time, such as 2026-11-02T00:00Z, or these offsets, as source.until is written; then end."
        ),
    ] = None,
    given: Given = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the outcome as JSON, and no progress.")
    ] = False,
) -> None:
    """Run a pipeline until it is done, stopped (Ctrl-C ends it in good order) or cannot go on."""
    from distributary.ingest.interruptible import when_late
    from distributary.ingest.lease.holding import looked_for
    from distributary.ingest.settings.model import load
    from distributary.ingest.settings.yaml_file import Told

    bound = () if until is None else (Told(f"source.until={until}", "--until"),)
    settings = load(file, given=(*(given or ()), *bound))
    if bound and settings.source.until is None:
        # Such as a variable of the shell that is not set.
        raise ConfigError("--until is empty; give it a value, or leave it out")
    if available_now is not None:
        settings = settings.once() if available_now else settings.continuously()
    # It may have to be watched for longer than it takes to load all that a run needs, and to make a session.
    keeper = looked_for(settings.checkpoint, settings.storage)
    from distributary.ingest.run import run_in

    with (
        watching(silent=as_json) as progress,
        when_late(lambda: progress.waiting("Spark is being started", 0.0)) as started,
        session(settings) as spark,
        interrupts() as interrupted,
    ):
        started()
        grown = _grown(settings, spark, silent=as_json) if update_schema else None
        outcome = run_in(spark, keeper, settings, progress, interrupted.stop)
    if as_json:
        inferred = {} if grown is None else {"inferred": json.loads(grown)}
        typer.echo(json.dumps({**_as_dict(outcome), **inferred}))
    interrupted.end()


def _grown(settings: Settings, spark: SparkSession, *, silent: bool) -> str:
    """Have the schema that is kept grow by what the topics hold now; what came of it, as JSON. Raises what `infer` raises."""
    from distributary.ingest.infer import kept, look
    from distributary.views import infer as views

    found = look(settings, "grow", None, lambda _: nullcontext(spark))
    # Before anything is written: who reads it knows what this run decodes otherwise.
    if not silent and (differences := views.differences(found)):
        console().print(differences, soft_wrap=True)
    found = kept(settings, found)
    if not silent:
        console().print(views.as_text(found), soft_wrap=True)
    return views.as_json(found)


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
    others = {
        "parked": dict(outcome.parked),
        "remade": list(outcome.remade),
        "lost": [asdict(one) for one in outcome.lost],
    }
    return {**outcome.summary.as_dict(), "restarts": restarts, **others}
