"""Simulations that come with the package, as files to send or to begin one's own with."""

from __future__ import annotations

from pathlib import Path

from distributary.errors import ConfigError

_FOLDER = Path(__file__).parents[1] / "presets"


def find(name: str) -> Path:
    """The file of this name, or else the preset. Raises ConfigError where there is neither."""
    if Path(name).is_file():
        return Path(name)
    if name not in presets():
        raise ConfigError(
            f"there is no file {name}, and no preset is called so; the presets are {', '.join(presets())}"
        )
    return presets()[name]


def presets() -> dict[str, Path]:
    """Their files, by name."""
    return {file.stem: file for file in sorted(_FOLDER.glob("*.yaml"))}


def about(preset: Path) -> str:
    """What a preset is for: its first line."""
    return preset.read_text(encoding="utf-8").partition("\n")[0].removeprefix("# ")
