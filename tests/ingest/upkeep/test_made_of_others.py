"""Whose derived tables are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
from deltalake import DeltaTable, write_deltalake

from distributary.ingest.derivation.given import OWNER
from distributary.ingest.storage.opening import files_at
from distributary.ingest.upkeep.made_of_others import take_over


def test_what_was_derived_under_an_earlier_name_tells_the_present_one(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"n": [1]}))
    DeltaTable(tmp_path).alter.set_table_properties({OWNER: "games"}, raise_if_not_exists=False)
    take_over(files_at(tmp_path), "plays")
    found = DeltaTable(tmp_path)
    assert (found.metadata().configuration.get(OWNER), found.version()) == ("plays", 2)
