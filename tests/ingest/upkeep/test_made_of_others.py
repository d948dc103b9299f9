"""Whose derived tables are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from distributary.ingest.derivation.given import OWNER
from distributary.ingest.storage.opening import files_at
from distributary.ingest.upkeep.made_of_others import take_over

TABLES = {"of_mine": "games", "of_mine_now": "plays", "of_others": "chess", "of_nobody": None}


def test_what_was_derived_under_an_earlier_name_tells_the_present_one(tmp_path: Path) -> None:
    for folder, owner in TABLES.items():
        write_deltalake(tmp_path / folder, pa.table({"n": [1]}))
        if owner is not None:
            told = {OWNER: owner}
            DeltaTable(tmp_path / folder).alter.set_table_properties(told, raise_if_not_exists=False)
    (tmp_path / "no_table").mkdir()
    for _ in range(2):
        take_over(files_at(tmp_path), [*TABLES, "no_table"], "plays", {"games", "plays"})
        tables = {folder: DeltaTable(tmp_path / folder) for folder in TABLES}
        found = {folder: one.metadata().configuration.get(OWNER) for folder, one in tables.items()}
        assert found == {**TABLES, "of_mine": "plays"}
        assert [one.version() for one in tables.values()] == [2, 1, 1, 0]


def test_a_pipeline_that_had_no_other_name_opens_none(tmp_path: Path) -> None:
    (tmp_path / "gold" / "_delta_log").mkdir(parents=True)
    take_over(files_at(tmp_path), ["gold"], "games", {"games"})
