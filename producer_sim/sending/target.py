"""Where a simulation's records and schemas go: what it names, or else the local stack."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from distributary.errors import ConfigError
from distributary.producer_sim.stack.local import running_stack
from distributary.producer_sim.traffic.simulation import Simulation
from distributary.registry.base import SchemaRegistry
from distributary.registry.confluent.options import RegistryAccess, RegistryOptions
from distributary.registry.confluent.registry import ConfluentRegistry
from distributary.registry.memory import MemoryRegistry


def with_a_broker(simulation: Simulation) -> Simulation:
    """The same, to the local stack's broker where it names none. Raises SetupError where the stack does not run."""
    if simulation.target.bootstrap_servers:
        return simulation
    stack = running_stack("write target.bootstrap_servers in the simulation")
    return simulation.changed(bootstrap_servers=stack.bootstrap_servers)


@contextmanager
def registry_of(simulation: Simulation) -> Iterator[SchemaRegistry]:
    """The registry that is meant; where no record names a schema none is asked, so that none has to be there.

    Raises ConfigError where a broker is named but no registry, SetupError where the local stack is meant and does not run.
    """
    if not simulation.registered:
        yield MemoryRegistry()
        return
    with ConfluentRegistry(_registry_options(simulation)) as registry:
        yield registry


def _registry_options(simulation: Simulation) -> RegistryAccess:
    target = simulation.target
    if target.registry.url is not None:
        return target.registry
    if target.bootstrap_servers:
        raise ConfigError(
            f"records in {simulation.writing.format} name their schema, and neither the simulation nor its pipeline "
            "names a registry; write target.registry, such as {url: http://127.0.0.1:8081}"
        )
    return RegistryOptions(url=running_stack("write target.registry in the simulation").registry_url)
