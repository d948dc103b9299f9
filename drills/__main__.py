"""Drills: a pipeline on the local stack is harmed in every way we know, and nothing may be lost, or be there twice.

python -m drills --help, from the repository's top; `make drill ARGS="--only NAME"`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
from drills import copies, kills, others, outages, power, told, upserted, walks
from drills.drill import Account, CannotBeDrilled, Drill
from drills.table import PAGE, RECORD, recorded, with_table
from drills.world import World, open_world

from distributary.errors import CheckFailed, ConfigError, DistributaryError

DRILLS = tuple(
    Drill(run.__name__, (run.__doc__ or "").strip(), run)
    for run in (
        kills.at_failpoints_before_the_manifest,
        kills.at_failpoints_after_the_manifest,
        kills.at_any_moment,
        kills.standing_still_while_another_goes_on,
        upserted.upserted_at_failpoints,
        upserted.upserted_at_any_moment,
        told.told_at_any_moment,
        power.power_lost,
        copies.checkpoint_from_a_copy,
        copies.checkpoint_lost,
        copies.copy_elsewhere,
        copies.topic_made_anew,
        copies.two_runs_on_one_checkpoint,
        copies.two_pipelines_on_one_sink,
        copies.two_pipelines_on_one_ledger,
        outages.broker_bounced,
        outages.broker_stopped,
        outages.registry_silent,
        outages.registry_wrong,
        outages.registry_failing,
        outages.disk_full,
        outages.read_only,
        others.optimize_vacuum_alter,
        walks.random_walk,
    )
)


def main(  # noqa: PLR0913, PLR0917 - its parameters are the options
    only: Annotated[str, typer.Option(metavar="NAMES", help="Only these, with commas.")] = "",
    seed: Annotated[
        int | None, typer.Option(min=0, help="What the dice and the formats follow (the commit's hash).")
    ] = None,
    rounds: Annotated[int, typer.Option(min=1, help="Rounds of kills at any moment.")] = 20,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the results as JSON, and nothing else.")
    ] = False,
    record: Annotated[
        bool, typer.Option("--record", help="Write drills.json and the table of the docs.")
    ] = False,
    names: Annotated[bool, typer.Option("--list", help="Tell which drills there are, and do none.")] = False,
) -> None:
    """Do the drills; exit code 3 if one of them did not end as it should."""
    if names:
        for drill in DRILLS:
            typer.echo(f"{drill.name}: {drill.does}")
        return
    chosen, seed = _chosen(only), _of_commit() if seed is None else seed
    logging.disable(logging.WARNING)
    say = _silent if as_json else typer.echo
    say(f"{len(chosen)} drills, --seed {seed} --rounds {rounds}")
    with (
        tempfile.TemporaryDirectory(prefix="drills-") as folder,
        open_world(Path(folder), seed, rounds) as world,
    ):
        rows, broken = _done(chosen, world, say)
    if as_json:
        typer.echo(json.dumps(rows, indent=1))
    if record and not broken:
        _record(rows)
    if broken:
        raise CheckFailed(f"{', '.join(broken)} did not end as it should (--seed {seed})")


def _silent(_: str) -> None:
    """Says nothing."""


def _done(chosen: Sequence[Drill], world: World, say: Any) -> tuple[list[dict[str, Any]], list[str]]:
    rows, broken = [], []
    for number, drill in enumerate(chosen, 1):
        account, began = Account(), time.monotonic()
        place = f"[{number}/{len(chosen)}] {drill.name}"
        try:
            drill.run(world, account)
        except CannotBeDrilled as why:
            say(f"{place}: left out, as {why}")
            continue
        except Exception as error:  # noqa: BLE001 the others are to be done
            account.differences.append("".join(traceback.format_exception(error)))
        row = account.row(drill.name)
        rows.append(row)
        say(f"{place}: {_sentence(row)} ({time.monotonic() - began:.0f} s)")
        for difference in account.differences:
            say(f"    {difference}")
        if account.differences or account.lost or account.twice:
            broken.append(drill.name)
    return rows, broken


def _sentence(row: dict[str, Any]) -> str:
    told = f"{row['rounds']} rounds, {row['faults']} faults, {row['records']:,} records, {row['lost']} lost, {row['twice']} twice"
    refused = f", refused by {', '.join(row['refused'])}" if "refused" in row else ""
    recovery = row["recovery_seconds"]
    vacuumed = f", {row['vacuumed']} files deleted by VACUUM" if "vacuumed" in row else ""
    again = f", whole again in {recovery} s at most" if recovery is not None else ""
    return told + again + refused + vacuumed


def _chosen(only: str) -> list[Drill]:
    wanted = [name for name in only.split(",") if name]
    if unknown := [name for name in wanted if name not in {drill.name for drill in DRILLS}]:
        raise ConfigError(f"there is no drill {unknown[0]!r}; --list tells which there are")
    return [drill for drill in DRILLS if not wanted or drill.name in wanted]


def _of_commit() -> int:
    with contextlib.suppress(OSError, subprocess.CalledProcessError, ValueError):
        head = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout
        return int(head[:7], 16)
    return 0


def _record(done: list[dict[str, Any]]) -> None:
    """Those that were done take the place of what is on record of them."""
    found = {row["drill"]: row for row in (recorded() if RECORD.exists() else [])}
    found |= {row["drill"]: row for row in done}
    rows = [found[drill.name] for drill in DRILLS if drill.name in found]
    lines = ",\n ".join(json.dumps(row) for row in rows)
    RECORD.write_text(f"[\n {lines}\n]\n", encoding="utf-8")
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), rows), encoding="utf-8")


if __name__ == "__main__":
    try:
        typer.run(main)
    except DistributaryError as error:
        sys.exit(f"error: {error}")
