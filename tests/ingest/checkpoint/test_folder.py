"""The checkpoint's folder."""

from __future__ import annotations

from pathlib import Path

from distributary.ingest.checkpoint.folder import Checkpoint


def test_making_it_twice_changes_nothing(tmp_path: Path) -> None:
    checkpoint = Checkpoint.at(tmp_path / "deep" / "games")
    checkpoint.make()
    (tmp_path / "deep" / "games" / "pins" / "kept.json").touch()
    checkpoint.make()
    made = sorted(folder.name for folder in (tmp_path / "deep" / "games").iterdir())
    assert made == ["aside", "changes", "lease", "pins", "resolutions", "stuck"]
    assert (tmp_path / "deep" / "games" / "pins" / "kept.json").exists()


def test_leftovers_are_swept_everywhere(tmp_path: Path) -> None:
    checkpoint = Checkpoint.at(tmp_path)
    checkpoint.make()
    log = tmp_path / "log"
    log.mkdir()
    (tmp_path / ".generation.json.1.tmp").touch()
    (log / ".0000000000.json.1.tmp").touch()
    (log / "0000000000.json").touch()
    (tmp_path / "pins" / "keys").mkdir()
    (tmp_path / "pins" / "keys" / f".{'c' * 32}.tmp").touch()
    (tmp_path / "upkeep").mkdir()
    (tmp_path / "upkeep" / f".{'d' * 32}.tmp").touch()
    assert checkpoint.sweep() == 4
    assert [file.name for file in log.iterdir()] == ["0000000000.json"]
