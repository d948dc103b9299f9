"""Where in a table's folder its log is."""

from __future__ import annotations

LOG = "_delta_log"
"""The folder of a table's log."""


def entry_path(version: int) -> str:
    """Where in its table a version's entry is, or would be."""
    return f"{LOG}/{version:020d}.json"
