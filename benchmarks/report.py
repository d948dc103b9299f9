"""The results as tables for a reader."""

from __future__ import annotations

from benchmarks.bounds import BOUNDS
from benchmarks.results import Results
from benchmarks.table_costs import BatchCost
from rich.console import Console
from rich.table import Table


def show(results: Results, full: bool, screen: Console) -> None:
    """Print everything that was measured; whether a bound holds is said only of the full size."""
    if results.timings:
        screen.print(_ways(results), "")
    screen.print(_figures(results, full))
    for line in _details(results):
        screen.print(line, soft_wrap=True)


def _ways(results: Results) -> Table:
    table = Table("way", "what", title="One topic, in one run", title_justify="left")
    for heading in ("games", "events", "seconds", "rows/s"):
        table.add_column(heading, justify="right")
    for timing in results.timings.values():
        numbers = (
            f"{timing.games:,}",
            f"{timing.events:,}",
            f"{timing.median:.1f}",
            f"{timing.rows_per_second:,.0f}",
        )
        table.add_row(timing.name, timing.title, *numbers)
    return table


def _figures(results: Results, full: bool) -> Table:
    table = Table("figure", "what", title="Ours beside them", title_justify="left")
    for heading in ("measured", "must be", "aim", *(["holds"] if full else [])):
        table.add_column(heading, justify="right")
    figures = results.figures()
    for bound in BOUNDS:
        value = figures[bound.figure]
        if value is not None:
            verdict = ["yes" if bound.holds(value) else "NO"] if full else []
            aim = "" if bound.aim is None else f"{bound.aim:g}"
            table.add_row(bound.figure, bound.meaning, f"{value:,.3g}", bound.required(), aim, *verdict)
    return table


def _details(results: Results) -> list[str]:
    lines = []
    if restarts := results.restarts:
        gaps = ", ".join(f"{gap:.2f} s" for gap in restarts.gap_seconds)
        lines.append(f"Restarts at batches of {restarts.batch_rows:,} events: {gaps}.")
    if memory := results.memory:
        pss = (
            ""
            if memory.peak_pss_mib is None
            else f", {memory.peak_pss_mib:,.0f} MiB with shared pages counted once"
        )
        groups = memory.row_groups_a_file
        lines.append(
            f"Workers, a batch of {memory.batch_rows:,} events: {memory.peak_mib:,.0f} MiB in {memory.processes}"
            f" processes{pss}; {memory.files:,} files of {memory.rows_a_file.median:,.0f} rows in {groups.least:.0f} to"
            f" {groups.most:.0f} row groups of {memory.rows_a_group.median:,.0f} rows (medians)."
        )
    if alone := results.single_records:
        lines.append(
            f"Records that come alone: {min(alone.seconds):.2f} to {max(alone.seconds):.2f} s a trigger, {len(alone.seconds)} of them."
        )
    if age := results.age:
        lines.append(
            f"A commit among a table's first thousand: {age.young_ms:.2f} ms; among the last of {age.commits:,}: {age.old_ms:.2f} ms. Its log"
            f" is {age.log_bytes / 2**20:,.1f} MiB, the newest checkpoint {age.checkpoint_bytes / 2**20:,.1f} MiB of that. A start over"
            f" {age.started_tables:,} tables of {age.started_commits:,} commits: {age.start_seconds:.1f} s, {age.start_mib:,.0f} MiB."
        )
    if commits := results.commits:
        lines.append(
            f"A commit: a table's first {commits.first_ms:.1f} ms; its last {commits.cycle} of {commits.commits}"
            f" {commits.last_cycle_ms:.1f} ms each, the very last {commits.last_ms:.1f} ms; the next, after a start of the"
            f" pipeline, {commits.met_again_ms:.1f} ms."
        )
    if new := results.new_tables:
        lines.append(_batch("creates", new))
    if evolving := results.evolving:
        lines.append(_batch("evolves", evolving))
    return lines


def _batch(does: str, cost: BatchCost) -> str:
    taken, usual = (
        ", ".join(f"{seconds:.2f} s" for seconds in batches) for batches in (cost.seconds, cost.usual_seconds)
    )
    return f"A batch that {does} {cost.tables:,} tables: {taken}; one that does not: {usual}."
