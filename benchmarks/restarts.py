"""What a schema that evolves costs a pipeline in full swing, by the supervisor's own timestamps."""

from __future__ import annotations

import shutil
from dataclasses import dataclass

from benchmarks.stepped_run import stepped_run
from benchmarks.world import World

from distributary.errors import CheckFailed

# Two full batches of each new version: the one that meets it, and one after that.
_BATCHES_A_VERSION = 2


@dataclass(frozen=True, slots=True)
class Restarts:
    """The gap of each restart, from the attempt that met the new version to the one that decodes it."""

    batch_rows: int
    gap_seconds: tuple[float, ...]

    @property
    def worst_seconds(self) -> float:
        """The longest of them."""
        return max(self.gap_seconds)


def measure_restarts(world: World) -> Restarts:
    """Batches of version 1, then each next version is registered and sent while the pipeline runs."""
    sizes = world.sizes
    name = world.new_name("restarts")
    folder = world.new_folder(name)
    settings = world.settings(
        name,
        folder,
        sizes.restart_batch_rows,
        trigger={"available_now": False, "interval_seconds": 0},
        decode={"evolution": "restart"},
    )
    with stepped_run(world, settings) as pipeline:
        for version in range(1, sizes.restarts + 2):
            batches = sizes.steady_batches if version == 1 else _BATCHES_A_VERSION
            events = batches * sizes.restart_batch_rows
            pipeline.step(
                world.simulation(
                    name, games=sizes.games, first_version=version, versions=version, events=events
                )
            )
        found = pipeline.end().restarts
    shutil.rmtree(folder)
    if len(found) != sizes.restarts:
        raise CheckFailed(
            f"{sizes.restarts} versions were new to the pipeline, it restarted {len(found)} times"
        )
    return Restarts(sizes.restart_batch_rows, tuple(restart.gap_seconds for restart in found))
