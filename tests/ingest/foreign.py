"""What may be beside tables under a root, and is nobody's business here."""

from __future__ import annotations

import os
from errno import EACCES
from pathlib import Path

import pytest

# What a folder on the way to the tables may be called.
ODD_ABOVE = ("a#b", "#recycle", "what?", "100%", "a b", "a+b", "Ärger ü", "@eaDir")

# What one beside them may be called: delta-rs opens no table below a folder with such a name.
ODD_BESIDE = (*ODD_ABOVE, "a\\b", "%41")


def foreign_entries(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Links that lead in a circle, and a folder of another user's, which root alone could read."""
    (root / "lost+found").mkdir()
    (root / "somebodys").mkdir()
    for circle in (root / "circle", root / "somebodys" / "circle", root / "somebodys" / "_delta_log"):
        circle.symlink_to(circle)
    scandir = os.scandir

    def refused(folder: str) -> object:
        if "lost+found" in str(folder):
            raise PermissionError(EACCES, "Permission denied", folder)
        return scandir(folder)

    monkeypatch.setattr(os, "scandir", refused)
