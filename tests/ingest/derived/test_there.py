"""What there is to derive tables from, where somebody has harmed a table."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from pyspark.sql import SparkSession
from tests.ingest.batch.test_one_put_back import batch
from tests.ingest.batch.test_standing_still import goes_on, query
from tests.ingest.batch.test_unreadable import newer_protocol
from tests.ingest.pipelines import settings
from tests.ingest.queries import GOLF, QUEST
from tests.ingest.test_table_versions import garbled_end

from distributary.errors import PipelineError
from distributary.ingest import failpoints
from distributary.ingest.checkpoint.folder import BEGUN, DONE, RESETS
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.derivation.given import Derived
from distributary.ingest.derived import refresh
from distributary.ingest.derived.refresh import derive
from distributary.ingest.derived.there import entities_of, versions_now
from distributary.ingest.settings.model import Settings
from distributary.ingest.storage.opening import files_at, open_files
from distributary.ingest.table_versions import Versions, versions_at, versions_left
from distributary.ingest.tables.known import ENTITY_PROPERTY
from distributary.ingest.tables.log import newest_version


@pytest.mark.spark
def test_a_table_that_nobody_can_open_keeps_those_that_are_made_of_others_from_nothing(
    tmp_path: Path, spark: SparkSession
) -> None:
    batch(goes_on(query(tmp_path)))
    rules = {"gold_golf": GOLF, "gold_quest": QUEST}
    given = tuple(
        Derived.model_validate(
            {"table": name, "inputs": [of], "sql": f"SELECT count(*) AS n FROM {of}"}  # noqa: S608
        )
        for name, of in rules.items()
    )
    chosen = settings(tmp_path).model_copy(update={"derive": given})
    put_right = garbled_end(tmp_path / "lake" / GOLF)
    failed, made = derive(chosen, spark)
    assert (failed.how, made.how) == ("failed", "made")
    assert f"nobody can open table {GOLF} (" in failed.why
    put_right()
    assert [one.how for one in derive(chosen, spark)] == ["made", "current"]


@pytest.mark.spark
def test_amid_a_reset_that_ends_while_versions_are_looked_for_nothing_is_derived(
    tmp_path: Path, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    batch(goes_on(query(tmp_path)))
    chosen = settings(tmp_path)
    files = open_files(chosen.checkpoint, chosen.storage)
    files.put(f"{RESETS}/one/{BEGUN}", b"{}")

    def meanwhile(chosen: Settings) -> Versions:
        found = versions_at(chosen)
        files.put(f"{RESETS}/one/{DONE}", b"{}")
        return found

    monkeypatch.setattr(refresh, "versions_at", meanwhile)
    with pytest.raises(PipelineError, match="a reset was begun and is not done"):
        derive(chosen, spark)
    files.put(f"{RESETS}/one/{DONE}", b"{}")
    assert derive(chosen, spark) == []


def test_a_table_that_delta_rs_cannot_open_keeps_the_entities_of_no_others(tmp_path: Path) -> None:
    write_deltalake(tmp_path / "bronze", pa.table({"n": [1]}))
    newer_protocol(tmp_path / "bronze")
    found = entities_of(files_at(tmp_path), {QUEST: 0, "bronze": 1}, {"quest": QUEST}, str)
    assert found == {"quest": QUEST}


def test_an_entity_whose_tables_were_called_otherwise_once_has_the_one_that_it_would_get_now(
    tmp_path: Path,
) -> None:
    """As after `start: again` into tables of other names: none of before is newer, by whichever name."""
    for folder, entity in (("a_golf", "golf"), ("b_golf", "golf"), ("b_quest", "quest")):
        DeltaTable.create(
            tmp_path / folder,
            pa.schema({"n": pa.int64()}),
            configuration={ENTITY_PROPERTY: entity},
            raise_if_key_not_exists=False,
        )
    versions = dict.fromkeys(("a_golf", "b_golf", "b_quest"), 0)
    found = entities_of(files_at(tmp_path), versions, {}, "a_{}".format)
    assert found == {"golf": "a_golf", "quest": "b_quest"}
    # One that a replay made is in no batch yet, which knows the one of before.
    known = {"golf": "b_golf", "quest": "b_quest"}
    assert entities_of(files_at(tmp_path), versions, known, "a_{}".format) == found


def test_what_a_checkpoint_took_over_is_as_of_the_last_batch_that_is_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its first one completes what a crash had left in some tables; windows that end, and topics, would keep what was made of that."""
    run = goes_on(query(tmp_path))
    batch(run)
    root = files_at(tmp_path / "lake")
    monkeypatch.setattr(failpoints, "_fired", set())
    monkeypatch.setenv(failpoints.VARIABLE, f"{failpoints.BEFORE_LEDGER}=fail")
    whole = {one.table: one.version for one in versions_at(settings(tmp_path)).tables}
    with pytest.raises(failpoints.Failpoint):
        batch(run)
    assert newest_version(root.below(GOLF)) == whole[GOLF] + 1
    records = Records(root)
    for table, owner in records.all().items():
        records.put(table, 1, replace(owner, generation="second"))
    found = versions_left(root, "games", "second", 2)
    assert found is not None
    assert versions_now(root, found) == whole
    assert versions_left(root, "games", "third", 2) is None
    shutil.rmtree(tmp_path / "lake" / BATCHES_TABLE)
    assert versions_left(root, "games", "second", 2) is None
