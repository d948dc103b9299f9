"""The power fails at any call of a run and takes whatever was not synced: the next start goes on, and each record is in its table once."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from tests.ingest.batch.test_runner import stopped
from tests.ingest.batch.test_standing_still import query, records
from tests.ingest.kafka_records import TOPIC, Sent
from tests.ingest.power import Disk, PowerFailed, seeds
from tests.ingest.queries import GOLF, QUEST, Query

from distributary import files
from distributary.errors import CommitImpossible, PolicyStopped
from distributary.ingest.batch.finish import Finisher
from distributary.ingest.columns.safe_names import BATCHES_TABLE, QUARANTINE_TABLE, RESOLVED_TABLE
from distributary.ingest.quarantine.resolved import RESOLVED_SCHEMA
from distributary.ingest.storage.posix import PosixFiles
from distributary.ingest.tables import change
from distributary.ingest.tables.change import create

# A file that was being written when the power failed is closed by whoever comes by.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

# The calls of a start and as many batches, at least.
CALLS, BATCHES, RECORDS = 450, 3, 5


def sent(begin: int) -> list[Sent]:
    """A batch: two records a table, which bring a column in every other one, and one for the quarantine."""
    version = 1 + begin // RECORDS % 2
    return [*records(begin, begin + RECORDS - 1, version), Sent(b"\x7f", begin + RECORDS - 1)]


def run(root: Path, count: int, rng: random.Random) -> Query:
    """A start, which finishes what was decided, and so many batches; now and then somebody compacts a table meanwhile."""
    of = query(root)
    try:
        last, _ = of.log.last()
        of.resume([] if last is None else sent(last.offsets[TOPIC][0][0]))
        batches(root, of, count, rng)
    finally:
        of.runner.finisher._native.settle()
    return of


def batches(root: Path, of: Query, count: int, rng: random.Random) -> None:
    for _ in range(count):
        if rng.random() < 0.2 and any((root / "lake" / GOLF).glob("_delta_log/*.json")):
            DeltaTable(root / "lake" / GOLF).optimize.compact()
        begin = of.log.so_far.ends[TOPIC][0]
        of.batch(begin, sent(begin))


def offsets(root: Path, table: str) -> list[int]:
    rows = DeltaTable(root / "lake" / table).to_pyarrow_table(columns=["kafka_offset"])
    return sorted(rows["kafka_offset"].to_pylist())


def assert_each_once(root: Path, end: int) -> None:
    wanted: dict[str, list[int]] = {GOLF: [], QUEST: [], QUARANTINE_TABLE: []}
    for offset in range(end):
        broken = offset % RECORDS == RECORDS - 1
        wanted[QUARANTINE_TABLE if broken else (GOLF, QUEST)[offset % 2]].append(offset)
    assert {table: offsets(root, table) for table in wanted} == wanted
    season = DeltaTable(root / "lake" / GOLF).to_pyarrow_table(columns=["kafka_offset", "season"]).to_pylist()
    assert all((row["season"] is not None) == bool(row["kafka_offset"] // RECORDS % 2) for row in season)
    ledger = DeltaTable(root / "lake" / BATCHES_TABLE).to_pyarrow_table(columns=["batch_id", "rows_read"])
    assert sum(ledger["rows_read"].to_pylist()) == end
    assert len(set(ledger["batch_id"].to_pylist())) == ledger.num_rows == end // RECORDS


def lived(root: Path, fails_at: Sequence[int], rng: random.Random) -> None:
    """A life in which the power fails at these calls, each of another start."""
    (root / "lake").mkdir()
    (root / "checkpoint").mkdir()
    for call in fails_at:
        disk = Disk((root / "lake", root / "checkpoint"), call)
        try:
            with disk.watched():
                run(root, BATCHES, rng)
        except PowerFailed:
            disk.fail(rng)
    of = run(root, 2, rng)
    assert_each_once(root, of.log.so_far.ends[TOPIC][0])
    assert_each_once(root, run(root, 0, rng).log.so_far.ends[TOPIC][0])


def round_of(root: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(change, "_CREATED_WITH", {"delta.checkpointInterval": rng.choice(("2", "3", "25"))})
    monkeypatch.setattr(files, "MANY", rng.choice((3, 10, 1000)))
    lived(root, [rng.randrange(1, CALLS) for _ in range(rng.choice((1, 1, 2, 3)))], rng)


@pytest.mark.parametrize("seed", seeds(8, 200))
def test_a_loss_of_power_loses_and_doubles_no_record(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    round_of(tmp_path, seed, monkeypatch)


def test_a_run_makes_as_many_calls_as_those_at_which_the_power_fails(tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    (tmp_path / "checkpoint").mkdir()
    disk = Disk((tmp_path / "lake", tmp_path / "checkpoint"))
    with disk.watched():
        run(tmp_path, BATCHES, random.Random(0))
    assert CALLS <= disk.calls <= 1.2 * CALLS


def newest(root: Path, table: str) -> Path:
    return max((root / "lake" / table / "_delta_log").glob("*.json"))


def begun(root: Path, batches: int = 2) -> Query:
    (root / "lake").mkdir()
    return run(root, batches, random.Random(0))


@pytest.mark.parametrize(
    "tables", [(GOLF,), (BATCHES_TABLE,), (GOLF, QUEST, QUARANTINE_TABLE, BATCHES_TABLE)]
)
@pytest.mark.parametrize("gone", [False, True], ids=["emptied", "gone"])
def test_entries_of_the_newest_batch_that_are_lost_are_put_again_by_the_next_start(
    tmp_path: Path, tables: tuple[str, ...], gone: bool
) -> None:
    begun(tmp_path)
    for table in tables:
        if gone:
            newest(tmp_path, table).unlink()
        else:
            newest(tmp_path, table).write_bytes(b"")
    (again,) = run(tmp_path, 0, random.Random(0)).done
    assert again.resumed
    assert_each_once(tmp_path, 2 * RECORDS)
    assert run(tmp_path, 0, random.Random(0)).done == []


def test_data_files_of_a_batch_that_are_lost_with_its_entries_are_written_again(tmp_path: Path) -> None:
    begun(tmp_path)
    for line in newest(tmp_path, GOLF).read_text().splitlines():
        if "add" in (action := json.loads(line)):
            (tmp_path / "lake" / GOLF / action["add"]["path"]).write_bytes(b"")
    (again,) = run(tmp_path, 0, random.Random(0)).done
    assert again.resumed
    assert_each_once(tmp_path, 2 * RECORDS)


def test_a_file_of_the_ledger_that_is_lost_though_it_was_synced_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    of = begun(tmp_path, 1)
    before = set((tmp_path / "lake" / BATCHES_TABLE).glob("*.parquet"))
    with monkeypatch.context() as patch, pytest.raises(PolicyStopped):
        patch.setattr(Finisher, "finish", stopped)
        of.batch(RECORDS, sent(RECORDS))
    (file,) = set((tmp_path / "lake" / BATCHES_TABLE).glob("*.parquet")) - before
    file.write_bytes(b"")
    with pytest.raises(CommitImpossible, match=r"has 0 bytes, not .* let `distributary resolve` decide"):
        run(tmp_path, 0, random.Random(0))


def test_a_table_that_was_dropped_since_is_not_filled_again(tmp_path: Path) -> None:
    begun(tmp_path)
    shutil.rmtree(tmp_path / "lake" / GOLF)
    assert run(tmp_path, 0, random.Random(0)).done == []
    assert not (tmp_path / "lake" / GOLF).exists()


def test_nothing_is_looked_for_again_in_tables_that_have_it(tmp_path: Path) -> None:
    begun(tmp_path)
    assert run(tmp_path, 0, random.Random(0)).done == []


@pytest.mark.parametrize("unsynced", ["task", "ledger", "commits", "tables", "owners"])
def test_the_disk_of_these_tests_takes_what_nobody_syncs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unsynced: str
) -> None:
    """Each of the places that sync is needed: without it some loss of power is found out by these tests."""
    kinds: dict[str, Callable[[str], bool]] = {
        "task": lambda path: path.endswith(".parquet") and not path.startswith("ledger"),
        "ledger": lambda path: path.endswith(".parquet") and path.startswith("ledger"),
        "commits": lambda path: "_delta_log" in path and not path.endswith("0.json"),
        "tables": lambda path: path.endswith(f"{0:020d}.json"),
        "owners": lambda path: "owners" in path,
    }
    left_out = kinds[unsynced]
    sync = PosixFiles.sync

    def most(of: PosixFiles, paths: Iterable[str]) -> None:
        sync(of, [path for path in paths if not left_out(path)])

    monkeypatch.setattr(PosixFiles, "sync", most)
    monkeypatch.setattr(files, "MANY", 1000)
    disk = Disk((tmp_path / "lake", tmp_path / "checkpoint"))
    (tmp_path / "lake").mkdir()
    (tmp_path / "checkpoint").mkdir()
    with disk.watched():
        run(tmp_path, 1, random.Random(0))
    assert any(
        left_out(str(path.relative_to(tmp_path / "lake"))) for path in disk.unsafe() if "lake" in path.parts
    )


def test_what_a_finished_batch_is_of_is_all_safe(tmp_path: Path) -> None:
    disk = Disk((tmp_path / "lake", tmp_path / "checkpoint"))
    (tmp_path / "lake").mkdir()
    (tmp_path / "checkpoint").mkdir()
    with disk.watched():
        run(tmp_path, 2, random.Random(0))
    # What was set aside is read once.
    assert {path for path in disk.unsafe() if "aside" not in path.parts} == set()


def test_what_tells_of_replays_can_be_read_again_though_the_power_failed_amid_one(tmp_path: Path) -> None:
    begun(tmp_path)
    told = tmp_path / "lake" / RESOLVED_TABLE
    assert create(told, RESOLVED_SCHEMA, {}) is not None
    write_deltalake(told, pa.Table.from_pylist([{"batch_id": 3}], RESOLVED_SCHEMA), mode="append")
    path = newest(tmp_path, RESOLVED_TABLE)
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(DeltaError):
        DeltaTable(told)
    run(tmp_path, 1, random.Random(0))
    assert DeltaTable(told).to_pyarrow_table().num_rows == 0, "the replay comes again"
