"""`distributary simulate`: game events with evolving schemas, and the truth about what was sent."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.commands.interrupts import interrupts
from distributary.errors import ConfigError
from distributary.files import make_folder, temporary_name
from distributary.ingest.progress import Bars
from distributary.views.terminal import bars

if TYPE_CHECKING:
    from distributary.producer_sim.sending.simulate import SentSoFar
    from distributary.producer_sim.traffic.simulation import Simulation
    from distributary.producer_sim.truth.sent import Truth


def simulate(
    simulation: Annotated[
        str, typer.Argument(help="The simulation (YAML), or a preset: see `distributary simulations list`.")
    ],
    truth: Annotated[Path, typer.Option(help="Where the truth about what was sent is written, for verify.")],
    append: Annotated[bool, typer.Option("--append", help="Add to the truth that is there.")] = False,
    versions: Annotated[
        str, typer.Option(help="Which of its versions to send, such as 2 or 4-5 (default: all).")
    ] = "",
    events: Annotated[
        int | None, typer.Option(min=0, help="Records of each version, instead of pace.events.")
    ] = None,
    rate: Annotated[float | None, typer.Option(help="Records a second, instead of pace.rate.")] = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print what was sent as JSON, and no progress.")
    ] = False,
) -> None:
    """Send game events whose schema evolves in the middle of the stream."""
    from distributary.producer_sim.sending.simulate import simulate as send
    from distributary.producer_sim.truth.sent import save

    chosen = _part_of(_chosen(simulation, events, rate), versions)
    _check_truth(truth, append, chosen)
    notices: list[str] = []
    with bars(silent=as_json) as make_bar, interrupts() as interrupted:
        mover = _mover(make_bar, chosen.target.topic, chosen.total)
        told = send(chosen, None, mover, interrupted.stop.is_set, notices.append)
        save(told, truth, append=append)
    _report(told, truth, notices, as_json)
    interrupted.end()


def _chosen(name: str, events: int | None, rate: float | None) -> Simulation:
    from distributary.producer_sim.traffic.presets import find
    from distributary.producer_sim.traffic.simulation import Simulation

    instead = {"events": events, "rate": rate}
    return Simulation.from_file(find(name)).changed(
        **{name: value for name, value in instead.items() if value is not None}
    )


def _part_of(simulation: Simulation, versions: str) -> Simulation:
    if not versions:
        return simulation
    asked = re.fullmatch(r"([0-9]+)(?:-([0-9]+))?", versions)
    if asked is None:
        raise ConfigError(f"--versions takes one version or a range, such as 2 or 4-5, and not {versions!r}")
    return simulation.only(int(asked[1]), int(asked[2] or asked[1]))


def _check_truth(truth: Path, append: bool, simulation: Simulation) -> None:
    """Raises ConfigError where the truth could not be kept once all is sent."""
    from distributary.producer_sim.sending.simulate import check_order
    from distributary.producer_sim.truth.sent import load

    if truth.exists() and not append:
        raise ConfigError(
            f"there is a truth at {truth} already; add to it with --append, or name another file"
        )
    if truth.exists():
        check_order(load(truth), simulation)
    trial = truth.with_name(temporary_name())
    try:
        make_folder(truth.parent)
        trial.touch(exist_ok=False)
        trial.unlink()
    except OSError as error:
        raise ConfigError(
            f"the truth cannot be written to {truth} ({error.strerror}); name another file"
        ) from None


def _mover(make_bar: Bars, topic: str, total: int) -> Callable[[SentSoFar], None]:
    advance = make_bar(total, f"sending to {topic}")
    sent = 0

    def move(progress: SentSoFar) -> None:
        nonlocal sent
        advance(progress.sent - sent)
        sent = progress.sent

    return move


def _report(told: Truth, path: Path, notices: list[str], as_json: bool) -> None:
    sums = {
        "topic": told.topic,
        "records": told.records,
        "good": told.good,
        "corrupt": told.corrupt_by_kind(),
        "tombstones": len(told.tombstones),
        "truth": str(path),
        "notices": notices,
    }
    if as_json:
        typer.echo(json.dumps(sums))
        return
    for notice in notices:
        typer.echo(notice)
    refused = f" {told.refused:,} that no table takes," if told.refused else ""
    typer.echo(
        f"{told.topic}: {told.records:,} records, {told.good:,} of them good events,{refused}"
        f" {len(told.corrupt) - told.refused:,} corrupt, {len(told.tombstones):,} tombstones; the truth is in {path}"
    )
