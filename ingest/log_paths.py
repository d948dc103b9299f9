"""Where in a table's folder its log is."""

from __future__ import annotations

import re

LOG = "_delta_log"
"""The folder of a table's log."""

_ENTRY = re.compile(r"(\d{20})\.json")


def entry_path(version: int) -> str:
    """Where in its table a version's entry is, or would be."""
    return f"{LOG}/{version:020d}.json"


def entry_version(name: str) -> int | None:
    """The version whose entry a file of a log is, by its name; None for anything else."""
    found = _ENTRY.fullmatch(name)
    return None if found is None else int(found[1])
