"""Whether everything arrived: a way that lost rows was not measured."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from deltalake import DeltaTable

from distributary.errors import CheckFailed
from distributary.ingest.settings.model import Settings
from distributary.ingest.supervision.outcome import Outcome
from distributary.ingest.tables.state import table_folder
from distributary.producer_sim.truth.sent import Truth
from distributary.producer_sim.verify.comparison import compare
from distributary.producer_sim.verify.lake import Lake

# In place of a game's name, where a way does not tell games apart.
ALL = "all games"


def table_rows(table: Path) -> int:
    """How many rows a Delta table's files hold, by their own footers."""
    return int(DeltaTable(table).to_pyarrow_dataset().count_rows())


def rows_in(lake: Lake, name: str) -> int:
    """The same of a pipeline's table, wherever it lies; none where it is not there."""
    table = lake.open(name)
    return 0 if table is None else int(table.to_pyarrow_dataset(filesystem=table_folder(table)).count_rows())


def check_rows(way: str, landed: Mapping[str, int], sent: Mapping[str, int]) -> None:
    """Raises CheckFailed unless what landed is what was sent, game by game where games are told apart."""
    expected = {ALL: sum(sent.values())} if ALL in landed else dict(sent)
    wrong = [game for game in expected if landed.get(game) != expected[game]]
    if wrong:
        game = wrong[0]
        raise CheckFailed(
            f"{way}: {landed.get(game, 0):,} of {expected[game]:,} events of {game} landed"
            f" ({len(wrong)} of {len(expected)} counts are wrong), so its time means nothing"
        )


def outcome_holds(outcome: Outcome, events: int) -> None:
    """Raises CheckFailed unless the pipeline wrote each event at its first attempt."""
    found = outcome.summary
    if (found.written, found.quarantined, found.dropped, found.failures) != (events, 0, 0, 0):
        raise CheckFailed(
            f"ours: of {events:,} events {found.written:,} were written, {found.quarantined:,} went to quarantine,"
            f" {found.dropped:,} were dropped; {found.failures} attempts failed"
        )


def verified(settings: Settings, truth: Truth) -> None:
    """Raises CheckFailed unless tables, quarantine and ledger hold exactly what was sent, values included."""
    compare(Lake.of(settings), truth).check()
