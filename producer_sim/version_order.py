"""Whether what is sent next goes on from what was sent before, so that tables have the types that the truth expects."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from distributary.errors import ConfigError
from distributary.producer_sim.simulation import Simulation
from distributary.producer_sim.truth import Truth


def check_order(before: Truth, settings: Simulation) -> None:
    """Raises ConfigError for a truth of another topic, and for a change to versions that this truth was never told of.

    A table has a field in the type in which it first came, and the truth expects the one that the field began with.
    Versions that only grow change no type: the last of them stands for all.
    """
    before.check_topic(settings.topic)
    sent = {version for run in before.runs for version in _versions(run)}
    missing = [n for n in range(settings.versions, settings.first_version) if n not in sent]
    if missing:
        what, were = ("version", "was") if len(missing) == 1 else ("versions", "were")
        raise ConfigError(
            f"{what} {', '.join(map(str, missing))} of {settings.topic} {were} never sent, so that tables would not have "
            f"the types that the truth expects; send in order, with --first-version {missing[0]}"
        )


def _versions(run: Mapping[str, Any]) -> range:
    """What a simulation sent, by the settings that the truth has kept; the oldest truths know of no changes."""
    last = run.get("versions", 1) + len(run.get("changes", ()))
    return range(run.get("first_version", 1), last + 1)
