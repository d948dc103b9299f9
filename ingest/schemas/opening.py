"""The registry that settings name, opened."""

from __future__ import annotations

from distributary.ingest.settings.registry.given import Registry
from distributary.registry.confluent.registry import ConfluentRegistry
from distributary.registry.glue.registry import GlueRegistry


def open_registry(registry: Registry) -> ConfluentRegistry | GlueRegistry:
    """What answers for it, to be closed by who is done with it. Raises ConfigError."""
    return GlueRegistry(registry.glue, registry) if registry.type == "glue" else ConfluentRegistry(registry)


def identity(registry: Registry) -> str:
    """What tells it apart from others, such as where its answers are kept."""
    return registry.glue.where if registry.type == "glue" else str(registry.url)


def kept_as(registry: Registry) -> str:
    """What tells its kept answers from others: of one Protobuf text two schemas are made, by which messages are the entries of maps."""
    told = identity(registry)
    return told if registry.map_entries == "marked" else f"{told} (map_entries: {registry.map_entries})"
