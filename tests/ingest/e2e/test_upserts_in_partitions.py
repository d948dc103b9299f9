"""Tables in partitions with one row a key, on the real broker: held against the topic, whatever became of the runs that filled them."""

from __future__ import annotations

import signal
from typing import Any

import pytest
from tests.ingest.e2e.handmade import (
    Schema,
    assert_each_record_in_one_place,
    quarantined,
    registered_beside,
)
from tests.ingest.e2e.keyed import GAMES, Keyed, rows_of
from tests.ingest.e2e.pipeline_kit import PipelineKit
from tests.ingest.e2e.test_partitions import EVENT, WITH_MOOD, adds, partitioned
from tests.ingest.e2e.test_upserts_deleting import RULE, assert_current
from tests.ingest.upkeep.kept_up import DAY

from distributary.ingest.parquet.data_file import owner
from distributary.ingest.storage.contract import Files
from distributary.ingest.upkeep.maintain import Wish, maintain, time_there

pytestmark = [pytest.mark.spark, pytest.mark.stack]

WITHOUT = EVENT.replace("  optional string country = 2;\n", "")


def nine_days_later(place: Files) -> int:
    """Milliseconds since 1970."""
    return time_there(place) + 9 * DAY


# By what orders records, a row is in another partition with each that is newer.
# Lighter: all others here move rows, too.
@pytest.mark.heavy
@pytest.mark.parametrize("evolution", ["inline", pytest.param("restart", marks=pytest.mark.heavy)])
def test_rows_move_between_partitions_however_the_stream_is_cut_and_runs_die(
    kit: PipelineKit, evolution: str
) -> None:
    keyed = Keyed(kit, deletes=0.3).configured({**RULE, "partition_by": ["at"]}, limits={"commit_threads": 1})
    kit.configured(decode={"evolution": evolution})
    keyed.send(40)
    kit.run()
    assert_current(kit)
    for game in GAMES:
        assert kit.delta(game).metadata().partition_columns == ["at"]
    keyed.send(40, level=3)
    killed = kit.run_apart("amid_merge:3=kill")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    kit.run()
    assert_current(kit)
    keyed.send(20, players=12)
    kit.run()
    assert_current(kit)
    # Of most files no row is left, and of some none ever was one of the table's.
    assert kit.unnamed_files()
    done = maintain(kit.settings, Wish(older_than_days=8), clock=nine_days_later)
    assert [one.failed for one in done.tables if one.failed] == []
    # Of the newest batch all files stay.
    newest = max(row["batch_id"] for row in kit.rows("ledger_batches").to_pylist())
    left = [owner(path.partition("/")[2]) for path in kit.unnamed_files()]
    assert {batch for _, batch in filter(None, left)} <= {newest}
    assert None not in left
    assert_current(kit)


def test_rows_made_of_several_records_move_as_well(kit: PipelineKit) -> None:
    without = Schema(kit.register(WITHOUT), WITHOUT)
    schema = partitioned(kit, "country", mode="upsert", keys=["level"], update="present")
    kit.send(
        [schema.value(game="chess", country=of, level=n, score=1.5) for n, of in enumerate(("de", "fr"))]
    )
    kit.run()
    kit.send([schema.value(game="chess", country="it", level=0)])
    # Of a schema that has no such field nothing would say where its row belongs.
    kit.send([without.value(game="chess", level=1)])
    kit.run()
    rows = rows_of(kit, kit.folder_of("chess"))
    assert sorted((row["level"], row["country"]) for row in rows) == [(0, "it"), (1, "fr")]
    assert [(row["reason"], row["detail"]) for row in quarantined(kit)] == [
        ("partition", "its schema has no field country, by which its table is partitioned")
    ]
    assert_each_record_in_one_place(kit)


def test_a_delete_needs_no_value_that_its_row_would_be_found_by(kit: PipelineKit) -> None:
    without = Schema(kit.register(WITHOUT), WITHOUT)
    schema = partitioned(kit, "country", mode="upsert", keys=["level"], deletes="paid")
    # Nothing is in the table yet, and of what it is partitioned by it has no column.
    kit.send([without.value(game="chess", paid=True, level=7)])
    kit.run()
    assert not rows_of(kit, kit.folder_of("chess"))
    kit.send([schema.value(game="chess", country=of, level=n) for n, of in enumerate(("de", "fr"))])
    kit.run()
    deletes: list[dict[str, Any]] = [{"level": 0}, {"level": 9}]
    kit.send([without.value(game="chess", paid=True, **one) for one in deletes])
    kit.run()
    rows = rows_of(kit, kit.folder_of("chess"))
    assert [(row["level"], row["country"]) for row in rows] == [(1, "fr")]
    assert kit.delta(kit.folder_of("chess")).metadata().partition_columns == ["country"]
    assert not quarantined(kit)


@pytest.mark.folder
def test_a_new_table_of_deletes_and_rows_is_in_partitions_by_all_of_its_columns(kit: PipelineKit) -> None:
    """Its deletes have some of them, and are at odds, so that it has columns before the rows are read, which have all."""
    narrow = partitioned(kit, "country", "mood", mode="upsert", keys=["level"], deletes="paid")
    kit.configured(decode={"evolution": "inline"})
    wide = registered_beside(kit, EVENT.replace("double score", "string score"))
    # Schemas that are known are read in the pass before the one that is not.
    kit.send([one.value(game="golf", paid=True, level=1) for one in (narrow, wide)])
    kit.run()
    # Whichever of the two columns the table gets.
    rows = registered_beside(kit, WITH_MOOD.replace("  double score = 5;\n", ""))
    kit.send([narrow.value(game="chess", paid=True, country="de", level=8)], partition=0)
    kit.send([wide.value(game="chess", paid=True, country="de", level=9)], partition=1)
    kit.send([rows.value(game="chess", country="de", mood=of, level=n) for n, of in enumerate("ab")])
    kit.run()
    chess = kit.folder_of("chess")
    assert kit.delta(chess).metadata().partition_columns == ["country", "mood"]
    assert [set(one["partitionValues"]) for one in adds(kit, chess)] == [{"country", "mood"}] * 2
    assert sorted((row["level"], row["mood"]) for row in rows_of(kit, chess)) == [(0, "a"), (1, "b")]
    assert not kit.unnamed_files()
    assert_each_record_in_one_place(kit)


def test_a_key_that_a_partition_takes_for_none_goes_to_quarantine(kit: PipelineKit) -> None:
    schema = partitioned(kit, "country", mode="upsert", keys=["country"])
    kit.send([schema.value(game="chess", country=of, level=n) for n, of in enumerate(("de", "", "de"))])
    kit.run()
    rows = rows_of(kit, kit.folder_of("chess"))
    assert [(row["level"], row["country"]) for row in rows] == [(2, "de")]
    assert [(row["reason"], row["detail"]) for row in quarantined(kit)] == [
        ("partition", "field country is an empty text, which is none to a partition")
    ]
    assert_each_record_in_one_place(kit)
