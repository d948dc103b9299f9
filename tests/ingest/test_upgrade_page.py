"""The page about upgrades tells the formats that the code has, and what an older program says is what it says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable, Field
from deltalake.schema import ArrayType, PrimitiveType
from tests.ingest.kafka_records import TOPIC, Sent
from tests.ingest.pipelines import checkpoint
from tests.ingest.queries import Query, batches, value

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint import change_log, generation, manifest_json, stuck
from distributary.ingest.checkpoint.generation import World, born, read_generation
from distributary.ingest.checkpoint.manifests import ManifestStore
from distributary.ingest.columns.safe_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    QUARANTINE_TABLE,
    RESERVED_TABLES,
)
from distributary.ingest.commit_log import entry_json
from distributary.ingest.landing import entries
from distributary.ingest.rebuild import resets
from distributary.ingest.replay import kept
from distributary.ingest.schemas import pinned
from distributary.producer_sim.truth import sent
from distributary.registry.disk import schema_file

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
        ("pins/", pinned.FORMAT),
        ("stuck/", stuck.FORMAT),
        ("registry.json", schema_file.FORMAT),
        ("replays/", kept.FORMAT),
        ("resets/", resets.FORMAT),
        (".distributary/landed/", entries.FORMAT),
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
    with pytest.raises(CheckpointMismatch, match=r"a newer version wrote it.*use the version that made it"):
        ManifestStore(checkpoint(tmp_path)).last()
    assert newest.read_text(encoding="utf-8") == before


def test_tables_of_ours_that_a_newer_program_gave_columns_get_rows_without_them(tmp_path: Path) -> None:
    """As the ledger and the quarantine are for the older program that goes on."""
    inline = {"evolution": "inline"}
    for version in (1, 2, 3):
        # Each time a start of its own, which asks the ledger for its newest batch.
        query = Query(tmp_path, decode=inline)
        query.resume()
        begin = 2 * (version - 1)
        query.batch(begin, [Sent(value(version, game_name="golf"), begin), Sent(b"\x7f", begin + 1)])
        if version == 1:
            given_more_columns(tmp_path)
    assert [query.rows(name) for name in (BATCHES_TABLE, QUARANTINE_TABLE)] == [3, 3]
    changes = DeltaTable(tmp_path / "lake" / CHANGES_TABLE).to_pyarrow_table()
    assert len(set(changes["batch_id"].to_pylist())) == 3
    for name in RESERVED_TABLES:
        rows = DeltaTable(tmp_path / "lake" / name).to_pyarrow_table()
        assert all(rows[added].null_count == rows.num_rows for added in ("of_a_newer_one", "another"))


def given_more_columns(root: Path) -> None:
    more = [
        Field("of_a_newer_one", PrimitiveType("string")),
        Field("another", ArrayType(PrimitiveType("long"))),
    ]
    for name in RESERVED_TABLES:
        DeltaTable(root / "lake" / name).alter.add_columns(more)
