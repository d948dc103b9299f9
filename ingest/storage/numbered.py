"""Files whose names are numbers, such as the manifests of batches."""

from __future__ import annotations

from distributary.ingest.storage.contract import Files


def numbered(files: Files, folder: str, suffix: str = "") -> list[int]:
    """The numbers that are names of files right in a folder, such as 0, 1, 2 or 0.json, ascending."""
    stems = (name.removesuffix(suffix) for name in files.names(folder) if name.endswith(suffix))
    return sorted(int(stem) for stem in stems if stem.isascii() and stem.isdigit())
