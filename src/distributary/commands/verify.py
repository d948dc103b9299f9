"""`distributary verify`: whether a pipeline's tables hold what its topics do, or what was sent, once and with its values."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.commands.arguments import File, Given
from distributary.commands.run import session
from distributary.errors import CheckFailed
from distributary.ingest.progress import Advance, Bars
from distributary.views.terminal import bars

if TYPE_CHECKING:
    from distributary.producer_sim.verify.comparison import SurveyedSoFar
    from distributary.producer_sim.verify.verdict import Verdict


def verify(
    file: File,
    truth: Annotated[
        Path | None,
        typer.Option(
            help="The truth that simulate wrote; without it ledger, log and topics are what tables are held against."
        ),
    ] = None,
    offline: Annotated[
        bool, typer.Option("--offline", help="Do not ask Kafka what the topics hold.")
    ] = False,
    given: Given = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the verdict as JSON, and no progress.")
    ] = False,
) -> None:
    """Compare tables, quarantine and ledger with the log and the topics, or with what was sent; exit code 3 if they do not agree."""
    from distributary.ingest.settings.model import load
    from distributary.producer_sim.truth import sent as truth_file
    from distributary.producer_sim.verify.comparison import needs_spark
    from distributary.producer_sim.verify.comparison import verify as compare

    settings = load(file, given=given or ())
    told = truth_file.load(truth) if truth else None
    # A session that is made while signals are noted ends in good order, too.
    asks_spark = needs_spark(settings, told, offline=offline)
    with session(settings) if asks_spark else nullcontext(), bars(silent=as_json) as make_bar:
        bar = _TablesBar(make_bar)
        verdict = compare(settings, told, bar.turn, offline=offline)
        bar.end()
    if as_json:
        typer.echo(json.dumps({"holds": verdict.holds, **asdict(verdict)}, indent=2))
        raise typer.Exit(0 if verdict.holds else CheckFailed.exit_code)
    verdict.check()
    typer.echo(_sentence(verdict))


class _TablesBar:
    """The bar of a verification, which is told of a table when it turns to it: the ones before are done."""

    def __init__(self, make_bar: Bars) -> None:
        self._make_bar = make_bar
        self._advance: Advance | None = None

    def turn(self, progress: SurveyedSoFar) -> None:
        if self._advance is None:
            self._advance = self._make_bar(progress.total, "verifying tables")
        else:
            self._advance(1)

    def end(self) -> None:
        """The last one is done, too, if there was one."""
        if self._advance is not None:
            self._advance(1)


def _sentence(verdict: Verdict) -> str:
    if not verdict.batches and not verdict.tables and verdict.sent is None:
        return (
            "holds: nothing is there, no batch and no table. If this pipeline has run, see that `name`, `sink.root` and `checkpoint` "
            "are those of its runs"
        )
    against = "" if verdict.sent is None else f" of {verdict.sent:,} records sent"
    rows, tables = _count(verdict.rows_in_tables, "row"), _count(len(verdict.tables), "table")
    batches = (
        "the sums of the one batch" if verdict.batches == 1 else f"the sums of {verdict.batches:,} batches"
    )
    unread = verdict.unread or 0
    to_read = (
        f", {_count(unread, 'offset')} {'is' if unread == 1 else 'are'} to be read yet" if unread else ""
    )
    return (
        f"holds: {rows} in {tables}, {verdict.rows_quarantined:,} in quarantine, {verdict.rows_dropped:,} dropped{against}; "
        f"{batches} agree{to_read}"
    )


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
