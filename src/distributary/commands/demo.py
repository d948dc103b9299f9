"""`distributary demo`: a real broker and registry, evolving games, the pipeline, and the proof, in one command."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from distributary.commands.interrupts import ended_by_term
from distributary.errors import CheckFailed, ConfigError
from distributary.views.terminal import console, printable, watching

if TYPE_CHECKING:
    from distributary.producer_sim.demo.scenario import Demo, Demonstration


def demo(
    folder: Annotated[
        Path, typer.Option(help="Where tables, settings and truth are left; emptied first.")
    ] = Path("demo-output"),
    games: Annotated[int, typer.Option(min=1, help="How many games.")] = 10,
    versions: Annotated[int, typer.Option(min=1, help="How many schema versions.")] = 3,
    events: Annotated[int, typer.Option(min=1, help="How many records in all.")] = 300_000,
    corrupt: Annotated[float, typer.Option(min=0.0, max=1.0, help="Share of corrupt records.")] = 0.0001,
    batch_rows: Annotated[int, typer.Option(min=1, help="Records a batch.")] = 25_000,
    s3: Annotated[
        bool, typer.Option("--s3", help="Put the tables into a store that speaks S3, which runs as long.")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the outcome as JSON, and no progress.")
    ] = False,
) -> None:
    """Simulate games whose schema evolves in the middle of the stream, ingest them, and prove the result."""
    from distributary.producer_sim.demo.scenario import Demo

    if events < versions:
        raise ConfigError(
            f"--events {events}: each of {versions} versions takes one at the least; write {versions} or more, or fewer --versions"
        )
    settings = Demo(
        folder=folder.absolute(),
        games=games,
        versions=versions,
        events=events,
        corrupt=corrupt,
        batch_rows=batch_rows,
        s3=s3,
    )
    with _alone(folder), ended_by_term():
        _empty(folder)
        outcome = _demonstrate(settings, silent=as_json)
    if as_json:
        typer.echo(json.dumps(_as_dict(outcome), indent=2))
        raise typer.Exit(0 if outcome.verdict.holds else CheckFailed.exit_code)
    _print(outcome, folder, s3)
    outcome.verdict.check()


# Left by a demonstration, and nothing else: a folder that holds anything besides is somebody's.
_SETTINGS = "games.yaml"
_OURS = frozenset({"lake", "checkpoints", "stack", _SETTINGS, "truth.json"})


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Raises ConfigError where the folder is none, or another demonstration is at work in it."""
    if folder.exists() and not folder.is_dir():
        raise ConfigError(f"{folder} is no folder; name another --folder")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be used ({error.strerror}); name another --folder") from None
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        # Where a file system has no locks, as over some networks, nobody can tell.
        with suppress(OSError):
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise ConfigError(
                    f"another demonstration is at work in {folder}; wait until it ends, or name another --folder"
                ) from None
        yield
    finally:
        os.close(descriptor)


def _empty(folder: Path) -> None:
    from distributary.producer_sim.stack.local import LocalStack

    left = list(folder.iterdir())
    stack = LocalStack(folder / "stack") if (folder / "stack").is_dir() else None
    if not _is_ours(folder, {entry.name for entry in left}) or (stack is not None and stack.has_others):
        raise ConfigError(f"{folder} holds files that no demonstration left there; name another --folder")
    if stack is not None:
        # One that was killed has left its broker and registry behind.
        stack.down()
    # The settings go last: by them what is left is known, whatever ends this.
    for entry in sorted(left, key=lambda one: one.name == _SETTINGS):
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry)
        else:
            entry.unlink()


def _is_ours(folder: Path, names: set[str]) -> bool:
    """Whether a demonstration left all of it: somebody's pipeline may have files of these names, as the documentation calls them so."""
    from distributary.producer_sim.demo.scenario import NAME

    if not names <= _OURS:
        return False
    # It writes its settings before anything else but what its services keep.
    if not names - {"stack"}:
        return True
    try:
        told = (folder / _SETTINGS).read_bytes()
    except OSError:
        return False
    return told.startswith(f"name: {NAME}\n".encode())


def _demonstrate(settings: Demo, silent: bool) -> Demonstration:
    from distributary.ingest.spark.jvm import jvm_needed, stop_session
    from distributary.ingest.spark.session import spark_session
    from distributary.producer_sim.demo.scenario import demonstrate
    from distributary.producer_sim.stack.local import LocalStack

    def tell(line: str) -> None:
        if not silent:
            console().print(line, soft_wrap=True)

    store = 0 if settings.s3 else None
    tell(f"starting a broker{', a registry and a store' if settings.s3 else ' and a registry'}")
    stack_folder = settings.folder / "stack"
    with LocalStack(stack_folder, broker_port=0, registry_port=0, s3_port=store) as stack, jvm_needed():
        tell("starting Spark")
        spark = spark_session("distributary-demo")
        try:
            with watching(silent) as progress:
                return demonstrate(settings, stack, spark, progress)
        finally:
            stop_session(spark)


def _print(outcome: Demonstration, folder: Path, s3: bool = False) -> None:
    out = Console(highlight=False, markup=False, emoji=False)
    out.print(_tables(outcome))
    for line in _lines(outcome, folder, s3):
        out.print(line, soft_wrap=True)


def _lines(outcome: Demonstration, folder: Path, s3: bool) -> Iterator[str]:
    for restart in outcome.restarts:
        yield f"restart: {printable('; '.join(restart.changes))} ({restart.gap_seconds:.1f} s)"
    rows, summary = outcome.verdict.sent or 0, outcome.summary
    yield (
        f"throughput: {rows:,} records sent and ingested in {outcome.seconds:.1f} s, "
        f"{rows / outcome.seconds:,.0f} records/s, {summary.batches} batches, {len(outcome.restarts)} restarts"
    )
    reasons = ", ".join(f"{count} {reason}" for reason, count in sorted(outcome.quarantine.items()))
    yield f"quarantine: {sum(outcome.quarantine.values())} records ({reasons or 'none'})"
    yield f"verify: {_verdict(outcome)}"
    lake = "settings, checkpoint, truth; the tables ended with their store" if s3 else "lake, settings, truth"
    yield f"left for you to look at: {folder} ({lake})"


def _tables(outcome: Demonstration) -> Table:
    table = Table(title="one topic in, one Delta table a game out")
    for title in ("table", "rows", "columns before", "columns after", "schema ids"):
        table.add_column(title, justify="left" if title in ("table", "schema ids") else "right")
    for one in outcome.tables:
        ids = ", ".join(map(str, one.schema_ids))
        table.add_row(one.name, f"{one.rows:,}", str(one.columns_before), str(one.columns_after), ids)
    return table


def _verdict(outcome: Demonstration) -> str:
    verdict = outcome.verdict
    if not verdict.holds:
        return f"FAILED, {len(verdict.differences)} differences"
    return (
        f"holds: {verdict.sent or 0:,} records sent = {verdict.rows_in_tables:,} in tables + "
        f"{verdict.rows_quarantined:,} in quarantine + {verdict.rows_dropped:,} dropped; nothing lost, nothing twice, "
        "every value as it was sent"
    )


def _as_dict(outcome: Demonstration) -> dict[str, object]:
    restarts = [{**asdict(one), "gap_seconds": one.gap_seconds} for one in outcome.restarts]
    verdict = {"holds": outcome.verdict.holds, **asdict(outcome.verdict)}
    return {**asdict(outcome), "restarts": restarts, "verdict": verdict}
