"""The page about upgrades tells the formats that the code has, and what an older program says is what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.ingest.kafka_records import TOPIC
from tests.ingest.pipelines import checkpoint
from tests.ingest.queries import batches

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint import change_log, generation, manifest_json
from distributary.ingest.checkpoint.generation import World, born, read_generation
from distributary.ingest.checkpoint.manifests import ManifestStore
from distributary.ingest.commit_log import entry_json
from distributary.ingest.schemas import pinned
from distributary.producer_sim.truth import sent

PAGE = (Path(__file__).resolve().parents[2] / "docs/how-to/upgrade.md").read_text(encoding="utf-8")


def formats_of(file: str) -> list[int]:
    """The formats that the page's table has of a file, from the row that names it to the next one that names any."""
    rows = [line.split("|")[1:3] for line in PAGE.splitlines() if line.startswith("| ")]
    names = [name.strip() for name, _ in rows]
    (start,) = [place for place, name in enumerate(names) if name.startswith(f"`{file}`")]
    end = next((place for place in range(start + 1, len(names)) if names[place]), len(names))
    return [int(number) for _, number in rows[start:end]]


@pytest.mark.parametrize(
    ("file", "newest"),
    [
        ("generation.json", generation.FORMAT),
        ("log/", entry_json.FORMAT),
        ("truth.json", sent.FORMAT),
        ("manifest", manifest_json.FORMAT),
        ("changes/", change_log.FORMAT),
        ("changes/", pinned.FORMAT),
    ],
)
def test_the_newest_format_of_a_file_is_on_the_page(file: str, newest: int) -> None:
    assert formats_of(file)[-1] == newest


def raised(file: Path, by: int = 1) -> None:
    value = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**value, "format": value["format"] + by}), encoding="utf-8")


def test_a_program_that_reads_less_says_so_and_changes_nothing(tmp_path: Path) -> None:
    here = checkpoint(tmp_path)
    born(here, "games", World("cluster", {TOPIC: "topic"}, {}))
    # One that was born with nothing new is of the format before.
    raised(tmp_path / "checkpoint" / "generation.json", by=generation.FORMAT + 1 - generation.WITHOUT_PLACED)
    said = rf"has format {generation.FORMAT + 1}.*use the version that made it"
    with pytest.raises(CheckpointMismatch, match=said):
        read_generation(here)


def test_a_program_that_reads_less_of_the_log_says_so(tmp_path: Path) -> None:
    batches(tmp_path, 1)
    newest = max((tmp_path / "checkpoint" / "log").glob("*.json"))
    raised(newest, by=entry_json.FORMAT)
    before = newest.read_text(encoding="utf-8")
    with pytest.raises(CheckpointMismatch, match="a newer version has run this pipeline"):
        ManifestStore(checkpoint(tmp_path)).last()
    assert newest.read_text(encoding="utf-8") == before
