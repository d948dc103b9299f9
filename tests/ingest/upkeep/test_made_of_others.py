"""Whose derived tables are."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.ingest.pipelines import settings
from tests.ingest.storage.relay import served
from tests.ingest.storage.stores import Store
from tests.ingest.tables.test_refused_prefix import LISTING, READING, Refusing

from distributary.errors import PipelineError
from distributary.ingest.derivation.given import OWNER, Derived
from distributary.ingest.erasure import erase
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.change import create
from distributary.ingest.upkeep.made_of_others import derived_tables, take_over


def test_what_was_derived_under_an_earlier_name_tells_the_present_one(tmp_path: Path) -> None:
    write_deltalake(tmp_path, pa.table({"n": [1]}))
    DeltaTable(tmp_path).alter.set_table_properties({OWNER: "games"}, raise_if_not_exists=False)
    take_over(files_at(tmp_path), "plays")
    found = DeltaTable(tmp_path)
    assert (found.metadata().configuration.get(OWNER), found.version()) == ("plays", 2)


@pytest.mark.parametrize("refused", [LISTING, READING])
def test_a_folder_that_is_kept_for_others_keeps_nobody_from_upkeep(
    s3_store: Store, refused: bytes, caplog: pytest.LogCaptureFixture
) -> None:
    """Its name fits a rule's: no table of the pipeline had any upkeep."""
    direct = s3_store.files()
    for folder in ("golf_days", "others_days"):
        create(direct.below(folder), pa.schema([("a", pa.int64())]), {OWNER: "games"})
    rule = Derived(table="{entity}_days", sql="TABLE {table}")
    assert derived_tables(direct, [rule], "games") == ["golf_days", "others_days"]
    with served(Refusing(s3_store.port, refused=(refused,))) as relay:
        assert derived_tables(s3_store.files_at(direct.url, relay.port), [rule], "games", passing=True) == [
            "golf_days"
        ]
    assert "others_days is passed by, since it may not be read" in caplog.text


def test_an_erasure_passes_by_no_folder_that_may_have_derived_rows(
    tmp_path: Path, s3_store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It tells which tables are to be made anew: one that was left out has the rows of whoever is to be forgotten."""
    monkeypatch.setattr(erase, "conditions_ahead", lambda asked: {text: None for _, text in asked})
    direct = s3_store.files()
    create(direct.below("others_days"), pa.schema([("a", pa.int64())]), {OWNER: "games"})
    rule = Derived(table="{entity}_days", sql="TABLE {table}")
    given = settings(tmp_path, sink={"root": direct.url}).model_copy(update={"derive": (rule,)})
    with served(Refusing(s3_store.port, refused=(READING,))) as relay:
        behind = given.model_copy(update={"storage": s3_store.options_by(relay.port)})
        with pytest.raises(PipelineError, match=r"others_days.*nothing was changed"):
            erase.erase(behind, erase.Wanted("level > 1"))
