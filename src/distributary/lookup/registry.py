"""Which registry a command asks: the one it is told, a pipeline's, or the local stack's."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from distributary.errors import ConfigError

if TYPE_CHECKING:
    from distributary.ingest.settings.model import Settings
    from distributary.registry.confluent.options import RegistryAccess

OTHERWISE = "--registry or --settings"

Address = Annotated[
    str,
    typer.Option("--registry", metavar="URL", help="The registry's address (default: the local stack's)."),
]

SettingsFile = Annotated[
    Path | None,
    typer.Option("--settings", metavar="FILE", help="A pipeline's settings: its registry is asked."),
]


def chosen_registry(address: str, settings: Path | None) -> RegistryAccess:
    """How to reach the registry that is meant. Raises ConfigError for two at once, SetupError for none."""
    if address and settings:
        raise ConfigError("--registry and --settings both name a registry; give one of them")
    return registry_options(address, settings).impatient()


def registry_options(address: str, settings: Path | None, otherwise: str = OTHERWISE) -> RegistryAccess:
    """The registry at an address, or else of a pipeline, or else of the local stack.

    Raises SetupError where the stack does not run, ConfigError for a pipeline that has none.
    """
    from distributary.ingest.settings.model import load
    from distributary.producer_sim.stack.local import running_stack
    from distributary.registry.confluent.options import RegistryOptions

    if settings and not address:
        return _of_pipeline(load(settings), settings)
    return RegistryOptions(url=address or running_stack(f"give {otherwise}").registry_url)


def _of_pipeline(pipeline: Settings, file: Path) -> RegistryAccess:
    # Settings may do without an address, where no record of the pipeline's names a schema.
    if pipeline.registry.type == "glue":
        raise ConfigError(
            f"{file} names Glue's registry, which is asked with AWS's own commands (aws glue list-schemas)"
        )
    if pipeline.registry.url is None:
        raise ConfigError(f"{file} names no registry; set registry.url, or give --registry")
    return pipeline.registry
