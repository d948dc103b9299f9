"""Files that land, through whole pipelines: each row once, whatever becomes of files and runs."""

from __future__ import annotations

import gzip
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession
from tests.ingest.e2e.dying import dies
from tests.ingest.e2e.landing_kit import LandingKit, lines

from distributary.errors import CheckpointMismatch
from distributary.ingest.inputs.opening import open_source
from distributary.ingest.landing.gone import FilesGone
from distributary.ingest.landing.looking import Rewritten
from distributary.ingest.rebuild.silver import replay

pytestmark = pytest.mark.spark


@pytest.fixture(params=["folder", "s3"])
def landed(tmp_path: Path, spark: SparkSession, request: pytest.FixtureRequest) -> LandingKit:
    """A pipeline with an empty folder, or an empty place in a store."""
    kit = LandingKit(tmp_path, spark)
    return kit if request.param == "folder" else kit.in_store(request.getfixturevalue("s3_store"))


@pytest.fixture
def kit(tmp_path: Path, spark: SparkSession) -> LandingKit:
    """A pipeline with an empty folder."""
    return LandingKit(tmp_path, spark)


def test_rows_of_files_land_once_and_a_run_goes_on_where_the_last_one_was(landed: LandingKit) -> None:
    landed.land({"a.json": lines(range(10)), "day=1/b.json.gz": gzip.compress(lines(range(10, 20)))})
    assert landed.run().summary.rows == 20
    assert landed.run().summary.rows == 0
    landed.land({"0.json": lines(range(20, 30))})
    landed.land({"c.json": b'{"n": 30, "new": true}\n'})
    assert landed.run().summary.rows == 11
    assert landed.numbers() == list(range(31))
    assert set(landed.rows()["kafka_topic"].to_pylist()) == {"landing"}
    landed.assert_clean()


# In a store, too, rows land in the test above; what is there is looked up in tests/ingest/landing and tests/ingest/storage.
IN_A_FOLDER = pytest.mark.parametrize(
    "landed", ["folder", pytest.param("s3", marks=pytest.mark.heavy)], indirect=True
)


@IN_A_FOLDER
def test_a_renamed_file_is_not_read_again_and_a_rewritten_one_is_told(landed: LandingKit) -> None:
    landed.land({"a.json": lines(range(10)), "b.json": lines(range(10, 20))})
    landed.run()
    landed.landing.delete(["a.json"])
    landed.land({"moved/a.json": lines(range(10)), "b.json": lines(range(100, 103))})
    assert landed.run().summary.rows == 1
    assert landed.numbers() == list(range(20))
    assert landed.quarantined() == [("file_rewritten", "b.json", 0)]
    assert landed.run().summary.rows == 0
    landed.assert_clean()


# Lighter: test_a_rewritten_file_goes_as_the_settings_say (tests/ingest/landing/test_looking.py); one that is told of is above.
@pytest.mark.heavy
def test_a_rewritten_file_is_read_whole_where_that_is_wanted(kit: LandingKit) -> None:
    kit.configured(source={"files": {"on_rewrite": "ingest"}})
    kit.land({"a.json": lines(range(3))})
    kit.run()
    kit.land({"a.json": lines(range(5))})
    kit.run()
    assert kit.numbers() == [0, 0, 1, 1, 2, 2, 3, 4]
    kit.assert_clean()


# Lighter: the test of this name in tests/ingest/landing/test_looking.py.
@pytest.mark.heavy
def test_a_rewritten_file_ends_the_run_where_that_is_wanted(kit: LandingKit) -> None:
    kit.configured(source={"files": {"on_rewrite": "fail"}})
    kit.land({"a.json": lines(range(3))})
    kit.run()
    kit.land({"a.json": lines(range(5))})
    with pytest.raises(Rewritten, match=r"a\.json was read as file 0"):
        kit.run()
    kit.land({"a.json": lines(range(3))})
    assert kit.run().summary.rows == 0


def test_of_a_damaged_file_the_rows_before_the_damage_land(kit: LandingKit) -> None:
    whole = gzip.compress(lines(range(40_000)))
    kit.land({"a.json.gz": whole[: len(whole) // 2], "b.json": lines(range(100_000, 100_010)) + b"{broken\n"})
    kit.run()
    found = kit.numbers()
    count = len(found) - 10
    assert found[:count] == list(range(count))
    assert count > 1000
    rows = kit.rows("quarantine").select(["reason", "detail", "value"]).to_pylist()
    assert sorted(row["reason"] for row in rows) == ["file_damaged", "malformed"]
    assert [row["value"] for row in rows if row["reason"] == "malformed"] == [b"{broken"]
    assert "was cut off" in next(row["detail"] for row in rows if row["reason"] == "file_damaged")
    kit.assert_clean()


def test_batches_have_files_whole_and_no_more_than_the_settings_say(kit: LandingKit) -> None:
    kit.configured(source={"files": {"max_files_a_batch": 2}})
    kit.land({f"{number}.json": lines(range(number * 10, number * 10 + 10)) for number in range(5)})
    assert kit.run().summary.batches == 3
    assert kit.numbers() == list(range(50))
    kit.configured(source={"files": {"max_files_a_batch": 1000, "max_bytes_a_batch": 100}})
    kit.land({f"1{number}.json": lines(range(number * 10 + 50, number * 10 + 60)) for number in range(3)})
    assert kit.run().summary.batches == 3
    assert kit.numbers() == list(range(80))
    kit.assert_clean()


# Lighter: test_one_that_went_with_all_its_copies_ends_the_run (tests/ingest/inputs/test_from_files.py), and those of what is told as gone
# (tests/ingest/inputs/test_files_out_of_reach.py); one that is told of is below, too, behind the archive.
@pytest.mark.heavy
def test_files_that_went_away_before_they_were_read_end_the_run_or_are_told(kit: LandingKit) -> None:
    kit.land({"a.json": lines(range(3))})
    kit.run()
    kit.land({"b.json": lines(range(3, 6)), "c.json": lines(range(6, 9))})
    registered_and_not_read(kit)
    kit.landing.delete(["b.json"])
    with pytest.raises(FilesGone, match=r"1 files of .* went away before they were read: b\.json"):
        kit.run()
    kit.configured(source={"on_data_loss": "record"})
    kit.run()
    assert kit.numbers() == [0, 1, 2, 6, 7, 8]
    assert kit.quarantined() == [("file_gone", "b.json", 0)]
    kit.land({"b.json": lines(range(3, 6))})
    kit.run()
    assert kit.numbers() == list(range(9)), "it is there again"
    assert kit.quarantined() == [("file_gone", "b.json", 0)]
    kit.assert_clean()


def registered_and_not_read(kit: LandingKit) -> None:
    """Have what is there registered, as by a run that died right behind that."""
    with open_source(kit.settings) as channels:
        channels.end_offsets()


@IN_A_FOLDER
def test_a_run_that_fails_anywhere_is_gone_on_with_and_nothing_is_lost_or_twice(
    landed: LandingKit, fail_at: Callable[..., None]
) -> None:
    landed.land({"a.json": lines(range(10))})
    landed.run()
    landed.land({"b.json": lines(range(10, 20)), "c.json": b'{"n": 20, "new": 1}\n'})
    for point in ("before_manifest", "after_manifest", "between_commits", "before_ledger"):
        dies(landed, point, fail_at)
    landed.land({"d.json": lines(range(21, 25))})
    landed.run()
    assert landed.numbers() == list(range(25))
    landed.assert_clean()


# A JVM each: as errors they are above, and test_crashes.py kills runs at more points.
@pytest.mark.heavy
@pytest.mark.parametrize(
    ("landed", "point"),
    [("folder", "after_manifest"), ("folder", "amid_file"), ("s3", "between_commits")],
    indirect=["landed"],
)
def test_a_run_that_dies_is_gone_on_with_and_nothing_is_lost_or_twice(landed: LandingKit, point: str) -> None:
    landed.land({"a.json": lines(range(10))})
    landed.run()
    landed.land({"b.json": lines(range(10, 20)), "c.json": b'{"n": 20, "new": 1}\n'})
    killed = landed.run_apart(f"{point}=kill")
    assert killed.returncode == -signal.SIGKILL or point == "amid_file", killed.stderr
    landed.land({"d.json": lines(range(21, 25))})
    landed.run()
    assert landed.numbers() == list(range(25))
    landed.assert_clean()


def test_a_new_checkpoint_goes_on_from_the_tables(kit: LandingKit) -> None:
    kit.land({"a.json": lines(range(10))})
    kit.run()
    kit.land({"b.json": lines(range(10, 20))})
    kit.configured(checkpoint="./another", start="from_tables")
    assert kit.run().summary.rows == 10
    assert kit.numbers() == list(range(20))
    kit.assert_clean()


def test_a_checkpoint_may_begin_behind_the_files_that_are_there(kit: LandingKit) -> None:
    kit.configured(source={"starting_offsets": "latest"}, decode={"schema_hints": "n bigint"})
    kit.land({"a.json": lines(range(10))})
    kit.run()
    kit.land({"b.json": lines(range(10, 20))})
    kit.run()
    assert kit.numbers() == list(range(10, 20))


def test_rows_of_lines_come_back_from_bronze_once_however_often_they_are_asked_for(kit: LandingKit) -> None:
    kit.configured(bronze={})
    kit.land({"a.json": lines(range(5)) + b"{broken\n", "b.json.gz": gzip.compress(lines(range(5, 9)))})
    kit.run()
    kit.landing.delete(["a.json", "b.json.gz"])
    DeltaTable(str(kit.folder / "lake" / "silver_landing")).delete("n % 2 = 0")
    done = [replay(kit.settings, spark=kit.spark).tables for _ in range(2)]
    assert done == [{"silver_landing": 5}, {}]
    assert kit.numbers() == list(range(9))
    assert kit.rows("quarantine").num_rows == 1
    kit.assert_clean()


def test_paths_become_columns_where_a_rule_says_so(kit: LandingKit) -> None:
    kit.configured(tables=[{"match": "*", "columns": {"headers": {"path": "path"}}}])
    kit.land({"day=1/a.json": lines(range(1)), "b.json": lines(range(1, 2))})
    kit.run()
    found = {row["n"]: row["path"] for row in kit.rows().to_pylist()}
    assert found == {0: "day=1/a.json", 1: "b.json"}


@pytest.mark.parametrize(
    ("of", "content", "column", "expected"),
    [
        ("text", b'say "hi"\n\nand bye', "value", ["", "and bye", 'say "hi"']),
        ("documents", b'[{"n": 1},\n {\n"n": 2}]\n{"n": 3}', "n", [1, 2, 3]),
    ],
)
def test_other_formats_land(
    kit: LandingKit, of: str, content: bytes, column: str, expected: list[object]
) -> None:
    kit.configured(source={"files": {"format": of}})
    kit.land({"a": content})
    kit.run()
    assert sorted(kit.rows()[column].to_pylist()) == expected
    kit.assert_clean()


def test_files_that_were_read_are_archived_once_a_later_batch_is_finished(kit: LandingKit) -> None:
    # A name that is no UTF-8 is one.
    first = os.fsdecode(b"day=1/a\xe9.json")
    kit.configured(source={"files": {"archive_to": "./archive"}})
    kit.land({first: lines(range(10))})
    kit.run()
    kit.land({"b.json": lines(range(10, 20))})
    kit.run()
    kit.land({"c.json": lines(range(20, 30))})
    kit.run()
    assert (kit.folder / "archive" / first).read_bytes() == lines(range(10))
    assert kit.landing.info(first) is None
    assert kit.landing.info("c.json") is not None
    kit.landing.put("again.json", lines(range(10)))
    assert kit.run().summary.rows == 0, "it is known, wherever it comes from"
    assert kit.numbers() == list(range(30))
    kit.assert_clean()
    # What was archived is no reason to stop for who reads all again, and that is told of the checkpoint, whatever the settings say later.
    kit.configured(checkpoint="./other", start="again", source={"on_data_loss": "record"})
    kit.run()
    assert kit.quarantined() == [("file_gone", "b.json", 0)]


@pytest.mark.folder
def test_another_pipeline_is_not_let_at_the_same_register(kit: LandingKit) -> None:
    kit.land({"a.json": lines(range(1))})
    kit.run()
    kit.configured(name="more", checkpoint="./more", route={"table": "more_{entity}"})
    with pytest.raises(CheckpointMismatch, match=r"pipeline landed reads the files in .*source\.files\.name"):
        kit.run()
    kit.configured(source={"files": {"name": "others"}})
    kit.run()
    assert kit.rows("more_others").num_rows == 1
