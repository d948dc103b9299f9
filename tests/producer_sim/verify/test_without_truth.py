"""What a pipeline lost or doubled is found without a truth: by its ledger, its log, its tables' transactions and its topics.

Each loss is planted into what three whole batches of a real pipeline left.
"""

from __future__ import annotations

import json
import shutil
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, TableFeatures, write_deltalake
from tests.ingest.kafka_records import TOPIC, Sent
from tests.ingest.pipelines import settings
from tests.ingest.queries import GOLF, QUEST, Query, value

from distributary.errors import BrokerUnavailable
from distributary.ingest import failpoints
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.commit_log import writing
from distributary.ingest.commit_log.owners import Whose, said_of
from distributary.ingest.inputs.from_kafka import open_kafka
from distributary.ingest.quarantine.resolved import RESOLVED_SCHEMA
from distributary.ingest.replay.outcomes import Outcome, tell
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.upkeep.resolved import keep_moved
from distributary.producer_sim.verify.comparison import Beside, compare, verify
from distributary.producer_sim.verify.coverage import Coverage
from distributary.producer_sim.verify.kept.replayed import with_replayed
from distributary.producer_sim.verify.lake import Lake
from distributary.producer_sim.verify.ledger_check import Held, read_ledger
from distributary.producer_sim.verify.log_check import check_log, read_log
from distributary.producer_sim.verify.topic_check import TopicsNow
from distributary.producer_sim.verify.verdict import Difference, DifferenceKind, Verdict

LEDGER, QUARANTINE = "ledger_batches", "quarantine"
BATCHES, ROWS = 3, 4


def four(begin: int) -> list[Sent]:
    """Two events of golf, one of quest, and one that is corrupt."""
    values = [value(1, game_name="golf", score=1), value(1, game_name="golf"), value(2, game_name="quest")]
    return [Sent(one, begin + place) for place, one in enumerate([*values, b"\x7f"])]


def topics(end: int = BATCHES * ROWS, earliest: int = 0, uuid: str = "topic") -> TopicsNow:
    first = {TOPIC: {0: earliest}}
    return TopicsNow({TOPIC: uuid}, first, {TOPIC: {0: end}}, begins=first)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    query = Query(tmp_path)
    query.resume()
    for number in range(BATCHES):
        query.batch(number * ROWS, four(number * ROWS))
    return tmp_path


def found(root: Path, now: TopicsNow | None = None, place: str = "checkpoint") -> Verdict:
    beside = Beside(Checkpoint.at(root / place), now or topics())
    return compare(Lake.of(settings(root)), beside=beside)


def kinds(verdict: Verdict) -> set[DifferenceKind]:
    return {difference.kind for difference in verdict.differences}


def the(kind: DifferenceKind, verdict: Verdict) -> Difference:
    (one,) = [difference for difference in verdict.differences if difference.kind == kind]
    return one


def entries(root: Path, table: str) -> list[Path]:
    return sorted((root / "lake" / table / "_delta_log").glob("*.json"))


def test_what_is_whole_holds(root: Path) -> None:
    verdict = found(root)
    assert verdict.differences == ()
    assert (verdict.rows_in_tables, verdict.rows_quarantined, verdict.batches) == (9, 3, 3)
    assert verdict.unread == 0


@pytest.mark.parametrize(
    "kind", [pa.list_(pa.string()), pa.struct([("a", pa.int64())]), pa.binary()], ids=str
)
def test_anybodys_field_may_be_called_as_the_simulators_name_of_a_game(
    tmp_path: Path, kind: pa.DataType
) -> None:
    values = {"kafka_topic": TOPIC, "kafka_partition": 0, "kafka_offset": 0, "schema_id": 1}
    types = {"kafka_partition": pa.int32(), "kafka_offset": pa.int64(), "schema_id": pa.int64()}
    game = pa.nulls(1, kind) if kind != pa.binary() else pa.array([b"\xff"])
    columns = {name: pa.array([one], types.get(name)) for name, one in values.items()}
    write_deltalake(tmp_path / "lake" / GOLF, pa.table({**columns, "game_name": game}))
    verdict = compare(Lake.of(settings(tmp_path)))
    assert kinds(verdict) == {"ledger_missing"}
    assert verdict.rows_in_tables == 1


def test_records_that_wait_in_the_topic_are_no_loss(root: Path) -> None:
    verdict = found(root, topics(end=20))
    assert (verdict.differences, verdict.unread) == ((), 8)


def test_nothing_of_a_pipeline_that_never_ran_is_lost(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    verdict = found(tmp_path, topics(end=20))
    assert (verdict.differences, verdict.unread) == ((), 20)


def test_a_checkpoint_that_went_back_in_time(root: Path) -> None:
    here = root / "checkpoint"
    shutil.copytree(here, root / "copy")
    query = Query(root)
    query.resume()
    query.batch(12, four(12))
    shutil.rmtree(here)
    shutil.copytree(root / "copy", here)
    verdict = found(root, topics(end=16))
    behind = the("checkpoint_behind", verdict)
    assert behind.where == str(here)
    assert "the ledger has batch 5, the log knows batch 3 as the newest one" in behind.detail
    assert kinds(verdict) == {"checkpoint_behind"}


def test_tables_that_went_back_in_time(root: Path) -> None:
    shutil.copytree(root / "lake", root / "copy")
    query = Query(root)
    query.resume()
    for begin in (12, 16):
        query.batch(begin, four(begin))
    shutil.rmtree(root / "lake")
    shutil.copytree(root / "copy", root / "lake")
    verdict = found(root, topics(end=20))
    assert "and batch 5 was in all tables" in the("tables_behind", verdict).detail


def half_committed(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failpoints, "_fired", set())
    monkeypatch.setenv(failpoints.VARIABLE, f"{failpoints.BETWEEN_COMMITS}=fail")
    query = Query(root)
    query.resume()
    with pytest.raises(failpoints.Failpoint):
        query.batch(12, four(12))


def test_a_batch_that_is_decided_and_not_in_all_tables(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half_committed(root, monkeypatch)
    verdict = found(root, topics(end=16))
    assert the("batch_unfinished", verdict).where.startswith("batch 5 of generation")
    assert "start the pipeline" in the("batch_unfinished", verdict).detail
    assert kinds(verdict) <= {"batch_unfinished", "ledger_rows"}
    query = Query(root)
    query.resume(four(12))
    assert found(root, topics(end=16)).differences == ()


def test_a_batch_in_tables_that_neither_ledger_nor_log_has(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copytree(root / "checkpoint", root / "copy")
    half_committed(root, monkeypatch)
    shutil.rmtree(root / "checkpoint")
    shutil.copytree(root / "copy", root / "checkpoint")
    verdict = found(root, topics(end=16))
    assert {"batch_unrecorded"} <= kinds(verdict) <= {"batch_unrecorded", "ledger_rows"}
    unrecorded = [one for one in verdict.differences if one.kind == "batch_unrecorded"]
    assert {one.where for one in unrecorded} <= {GOLF, QUEST, QUARANTINE}
    assert all("batch 5 of generation" in one.detail for one in unrecorded)


def test_the_same_without_the_checkpoint(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    half_committed(root, monkeypatch)
    shutil.rmtree(root / "checkpoint")
    assert "batch_unrecorded" in kinds(found(root, topics(end=16)))


def test_a_table_that_is_parked(root: Path) -> None:
    log = read_log(Checkpoint.at(root / "checkpoint"), [])
    assert log is not None
    ledger = read_ledger(Lake.of(settings(root))) or []
    assert list(check_log(ledger, log)) == []
    parked = replace(log, so_far=replace(log.so_far, parked={GOLF: (2, 3)}))
    (said,) = check_log(ledger, parked)
    assert (said.kind, said.where) == ("table_parked", GOLF)
    assert "2 of its batches, 2 to 3, wait" in said.detail


def test_a_log_with_a_hole(root: Path) -> None:
    (root / "checkpoint" / "log" / "0000000001.json").unlink()
    assert kinds(found(root)) == {"checkpoint_unreadable"}


def test_a_topic_that_was_made_anew(root: Path) -> None:
    verdict = found(root, topics(uuid="another"))
    assert kinds(verdict) == {"topic_made_anew"}
    assert the("topic_made_anew", verdict).where == TOPIC


def test_a_topic_that_is_shorter_than_what_was_read(root: Path) -> None:
    short = the("topic_offsets", found(root, topics(end=10)))
    assert short.where == f"{TOPIC}/0"
    assert short.detail.startswith("batches read up to offset 12, the topic ends at 10")


def test_records_that_kafka_forgot_before_they_were_read(root: Path) -> None:
    forgotten = the("topic_offsets", found(root, topics(earliest=15, end=20)))
    assert forgotten.detail == "offsets 12 to 14 are gone from the topic, and no batch had read them"


def test_what_kafka_forgot_after_it_was_read_is_no_loss(root: Path) -> None:
    assert found(root, topics(earliest=7)).differences == ()
    assert found(root, topics(earliest=12)).differences == ()


def begun_late(root: Path) -> None:
    query = Query(root, ends={TOPIC: {0: 10}})
    query.resume()
    query.batch(10, four(10))


def test_records_before_the_first_batch(tmp_path: Path) -> None:
    begun_late(tmp_path)
    late = the("topic_offsets", found(tmp_path, topics(end=14)))
    assert late.detail == "offsets 0 to 9 are in the topic, and no batch read them"


def test_a_pipeline_that_is_to_begin_with_the_newest_records_left_none_out(tmp_path: Path) -> None:
    begun_late(tmp_path)
    now = TopicsNow({TOPIC: "topic"}, {TOPIC: {0: 0}}, {TOPIC: {0: 14}}, begins={})
    assert found(tmp_path, now).differences == ()


@pytest.mark.parametrize(("begin", "kind"), [(14, "ledger_offsets"), (10, "record_twice")])
def test_a_checkpoint_that_went_on_elsewhere_than_where_the_one_before_ended(
    root: Path, begin: int, kind: DifferenceKind
) -> None:
    shutil.rmtree(root / "lake" / ".distributary")  # who has the tables, which would refuse it
    query = Query(root, "later", ends={TOPIC: {0: begin}}, decode={"evolution": "inline"})
    query.batch(begin, four(begin))
    verdict = found(root, topics(end=begin + ROWS), place="later")
    assert kind in kinds(verdict)
    if kind == "ledger_offsets":
        assert "no batch read offsets 12 to 13" in the(kind, verdict).detail


@pytest.mark.parametrize("begin", [0, 12, 14])
def test_a_log_that_is_to_begin_behind_what_others_have_read(root: Path, begin: int) -> None:
    Query(root, "later", ends={TOPIC: {0: begin}})
    verdict = found(root, topics(end=20), place="later")
    if begin <= 12:
        assert verdict.differences == ()
    else:
        said = the("ledger_offsets", verdict).detail
        assert said == "the log goes on at 14, the ledger ends at 12: that leaves out 2 offsets"


def test_a_commit_that_was_lost(root: Path) -> None:
    """A newer one took its place: what Spark's log store may do to an entry in a folder."""
    newest = entries(root, GOLF)[-1]
    lines = [json.loads(line) for line in newest.read_text().splitlines()]
    newest.write_text("".join(json.dumps(line) + "\n" for line in lines if "commitInfo" in line))
    lost = found(root)
    assert "its offsets have 1 rows in the tables, the ledger says 3" in the("ledger_rows", lost).detail


def test_a_commit_that_was_made_twice(root: Path) -> None:
    newest = entries(root, GOLF)[-1]
    rows = DeltaTable(root / "lake" / GOLF).to_pyarrow_table()
    last = rows.filter(pa.compute.greater_equal(rows["kafka_offset"], 8))
    write_deltalake(root / "lake" / GOLF, last, mode="append")
    assert newest != entries(root, GOLF)[-1]
    assert kinds(found(root)) == {"record_twice", "ledger_rows"}


def test_a_record_twice_in_a_table_that_only_the_slower_reader_knows(root: Path) -> None:
    table = DeltaTable(root / "lake" / GOLF)
    write_deltalake(table, table.to_pyarrow_table().slice(0, 1), mode="append")
    table.alter.add_feature(TableFeatures.DeletionVectors, allow_protocol_versions_increase=True)
    assert f"{GOLF} (offset " in the("record_twice", found(root)).detail


def test_a_quarantined_record_that_is_in_a_table_too(root: Path) -> None:
    rows = DeltaTable(root / "lake" / GOLF).to_pyarrow_table().slice(0, 1)
    place = rows.schema.get_field_index("kafka_offset")
    again = rows.set_column(place, rows.schema.field(place), pa.array([3], pa.int64()))
    write_deltalake(root / "lake" / GOLF, again, mode="append")
    verdict = found(root)
    assert kinds(verdict) == {"record_twice", "ledger_rows"}
    assert QUARANTINE in the("record_twice", verdict).detail


def test_a_quarantined_record_that_is_gone(root: Path) -> None:
    DeltaTable(root / "lake" / QUARANTINE).delete("kafka_offset = 7")
    said = the("ledger_rows", found(root))
    assert said.detail == "0 rows in quarantine are its own, the ledger says 1"


def test_a_row_of_the_ledger_that_is_gone(root: Path) -> None:
    DeltaTable(root / "lake" / LEDGER).delete("batch_id = 3")
    verdict = found(root)
    assert kinds(verdict) == {"batch_unfinished", "ledger_rows"}
    rest = [one.detail for one in verdict.differences if one.where == f"{TOPIC}/0"]
    assert rest == [
        f"{rows} rows in {where} lie at offsets that no batch in the ledger read"
        for rows, where in ((3, "the tables"), (1, "quarantine"))
    ]


def emptied(files: Sequence[Path]) -> None:
    assert files
    for file in files:
        file.write_bytes(b"")


@pytest.mark.parametrize("table", [GOLF, LEDGER, QUARANTINE])
def test_a_data_file_that_a_loss_of_power_emptied(root: Path, table: str) -> None:
    emptied(sorted((root / "lake" / table).glob("*.parquet"))[-1:])
    assert the("table_unreadable", found(root)).where == table


@pytest.mark.parametrize("place", [1, -1])
@pytest.mark.parametrize("table", [GOLF, LEDGER, QUARANTINE])
def test_an_entry_that_a_loss_of_power_emptied(root: Path, table: str, place: int) -> None:
    """delta-rs takes it for a commit of nothing; its rows are missing."""
    emptied([entries(root, table)[place]])
    assert "ledger_rows" in kinds(found(root))


def test_an_emptied_entry_of_the_log(root: Path) -> None:
    emptied(sorted((root / "checkpoint" / "log").glob("*.json"))[-1:])
    assert kinds(found(root)) == {"checkpoint_unreadable"}


def test_kafka_that_gives_no_answer_is_said_and_can_be_left_alone(
    root: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_no_time = partial(open_kafka, timeout_seconds=0.2)
    monkeypatch.setattr("distributary.ingest.inputs.opening.open_kafka", in_no_time)
    nobody = settings(root, source={"kafka": {"bootstrap.servers": "127.0.0.1:1"}})
    with pytest.raises(BrokerUnavailable, match="does not answer"):
        verify(nobody)
    verdict = verify(nobody, offline=True)
    assert (verdict.holds, verdict.unread) == (True, None)


def test_verifying_changes_nothing(root: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in root.rglob("*")}
    found(root)
    assert {path: path.stat().st_mtime_ns for path in root.rglob("*")} == before


@pytest.mark.parametrize("lines", [0, 2], ids=["emptied", "cut off behind a line"])
def test_changes_of_columns_of_which_nobody_tells_any_more(root: Path, lines: int) -> None:
    entry = entries(root, "ledger_changes")[1]
    entry.write_bytes(b"".join(entry.read_bytes().splitlines(keepends=True)[:lines]))
    (lost,) = found(root).differences
    assert (lost.kind, lost.where) == ("log_damaged", "ledger_changes")
    assert lost.detail.startswith("version 1 of its log was emptied")


def test_the_ledger_of_changes_is_named_where_it_cannot_be_read_and_the_rest_is_compared(root: Path) -> None:
    (file,) = (root / "lake" / "ledger_changes").glob("*.parquet")
    file.write_bytes(b"")
    DeltaTable(root / "lake" / GOLF).delete("kafka_offset = 5")
    differences = found(root).differences
    assert ("table_unreadable", "ledger_changes") in {(one.kind, one.where) for one in differences}
    assert "ledger_rows" in {one.kind for one in differences}
    assert "ledger_batches" not in {one.where for one in differences}


def test_a_ledger_of_changes_that_is_gone(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.rmtree(root / "lake" / "ledger_changes")
    assert the("table_missing", found(root)).where == "ledger_changes"
    # So it is where the log names no batch any more that had rows for it.
    monkeypatch.setattr(writing, "KEPT", 1)
    monkeypatch.setattr(writing, "AT_ONCE", 1)
    query = Query(root)
    query.resume()
    for number in range(BATCHES, BATCHES + 2):
        query.batch(number * ROWS, four(number * ROWS))
    now = topics(end=(BATCHES + 2) * ROWS)
    assert not found(root, now).differences, "the run made it anew"
    shutil.rmtree(root / "lake" / "ledger_changes")
    (lost,) = found(root, now).differences
    assert (lost.kind, lost.where) == ("table_missing", "ledger_changes")


def test_a_row_that_replays_took_out_and_brought_back_is_where_its_batch_put_it(root: Path) -> None:
    """As where an expectation was too strict while the tables were made again from bronze."""
    files, whose = PosixFiles(root / "lake"), said_of("games", None)
    at, here = datetime(2026, 11, 29, tzinfo=timezone.utc), {(TOPIC, 0): np.array([0])}
    for number, (replay, outcome) in enumerate(
        [("first", Outcome(refused=here)), ("second", Outcome(added=here))]
    ):
        tell(files, whose, replay, at.isoformat(), outcome.to_json(), number)
    row = {"kafka_topic": TOPIC, "kafka_partition": 0, "kafka_offset": 0, "pipeline": "games", "batch_id": 0}
    told = {**row, "generation": "first", "replay": "second", "at": at, "outcome": "table", "table": GOLF}
    write_deltalake(root / "lake/quarantine_resolved", pa.Table.from_pylist([told], RESOLVED_SCHEMA))
    assert found(root).holds, found(root).differences
    # Once its rows there are let go by their age.
    rows = DeltaTable(root / "lake/quarantine_resolved").to_pyarrow_table()
    keep_moved(files, Whose.of("games"), rows, {"first"})
    DeltaTable(root / "lake/quarantine_resolved").delete()
    assert found(root).holds, found(root).differences
    # Of a record that its batch had dropped, and that was brought back from quarantine, no replay tells as of a row that it added.
    again = Coverage()
    again.add((TOPIC, 0), np.array([0, 3]))
    held, _ = with_replayed(Lake.of(settings(root)), Held(Coverage(), Coverage(), Counter()), again)
    assert [held.added.count((TOPIC, 0), offset) for offset in (0, 1, 3)] == [1, 0, 1]
