"""The settings of a test's pipeline as a file, read again only where it says something else: every question about tables asks for them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

from distributary.files import replace
from distributary.ingest.settings.model import Settings, load

# Far faster, where PyYAML was built with it.
_DUMPER: Any = getattr(yaml, "CSafeDumper", yaml.SafeDumper)


class SettingsFile:
    """One file, written with what it is given."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._known: tuple[object, Settings] | None = None

    def written(self, document: Mapping[str, Any]) -> Path:
        """The file, with these settings in it now."""
        data = _text(document).encode()
        if not self._path.is_file() or self._path.read_bytes() != data:
            # Whole for whoever else reads them at this moment.
            replace(self._path, data)
        return self._path

    def read(self, document: Mapping[str, Any]) -> Settings:
        """The same, as a run reads it."""
        text = _text(document)
        told = text, tuple(os.environ.items())
        # What is filled in may be another value each time.
        if self._known is None or self._known[0] != told or "${" in text:
            self._known = told, load(self.written(document))
        return self._known[1]


def _text(document: Mapping[str, Any]) -> str:
    return str(yaml.dump(document, Dumper=_DUMPER, sort_keys=False))
