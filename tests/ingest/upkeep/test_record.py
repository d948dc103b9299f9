from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.ingest.upkeep.kept_up import HEAVY_IN_S3, newest

from distributary.ingest.checkpoint.earlier_runs import untold
from distributary.ingest.columns.safe_names import (
    BATCHES_TABLE,
    CHANGES_TABLE,
    QUARANTINE_TABLE,
    RESOLVED_TABLE,
)
from distributary.ingest.commit_log.owners import Whose
from distributary.ingest.erasure.record import PURGED, Gone, keep
from distributary.ingest.parquet.data_file import generation_mark
from distributary.ingest.quarantine.resolved import DROPPED, RESOLVED_SCHEMA
from distributary.ingest.replay.of_bronze import deleted_open
from distributary.ingest.settings.groups import Keep
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables import ledger
from distributary.ingest.tables.handle import opened, options
from distributary.ingest.tables.state import table_folder
from distributary.ingest.upkeep import record
from distributary.ingest.upkeep.record import Pipeline, RecordUpkeep, keep_record
from distributary.ingest.upkeep.replayed import OUTCOMES
from distributary.ingest.upkeep.resolved import MOVED, TO_TABLE, keep_moved
from distributary.ingest.upkeep.undecided import Undecided
from distributary.producer_sim.verify.comparison import compare
from distributary.producer_sim.verify.lake import Lake

NOW = datetime(2025, 6, 30, 12, tzinfo=timezone.utc)
NOW_MS = int(NOW.timestamp() * 1000)
GENERATION = "a" * 32
MINE = Whose("games", frozenset({"games"}), frozenset({GENERATION}))
TOPIC = "games"

# Two batches a day: rows in a table, one in quarantine, one change.
DAYS = (50, 50, 49, 49, 20, 20, 1, 1)

ROWS = pa.schema(
    [
        ("kafka_topic", pa.string()),
        ("kafka_partition", pa.int32()),
        ("kafka_offset", pa.int64()),
        ("schema_id", pa.int64()),
    ]
)

MONTH = Keep(batches_days=30, changes_days=30, quarantine_days=30)


def mine(waits: Undecided | None = None) -> Pipeline:
    return Pipeline(Whose.of("games"), waits or Undecided())


def append(root: Files, table: str, rows: list[dict[str, Any]], schema: pa.Schema | None = None) -> None:
    place = root.below(table)
    data = pa.Table.from_pylist(rows, schema)
    write_deltalake(place.url, data, mode="append", schema_mode="merge", storage_options=options(place))


def read(root: Files, table: str) -> list[dict[str, Any]]:
    handle = opened(root.below(table))
    rows: list[dict[str, Any]] = handle.to_pyarrow_table(filesystem=table_folder(handle)).to_pylist()
    return sorted(rows, key=lambda row: int(row["batch_id"]))


def row(
    number: int, ended: datetime, generation: str = GENERATION, pipeline: str = "games"
) -> dict[str, Any]:
    found = dict.fromkeys(ledger.BATCHES_SCHEMA.names)
    counts = {"rows_read": 5, "rows_tables": 4, "rows_quarantined": 1, "rows_dropped": 0, "rows_already": 0}
    offsets = {TOPIC: {"0": [5 * number, 5 * number + 5]}}
    return {
        **found,
        **counts,
        "pipeline": pipeline,
        "generation": generation,
        "batch_id": number,
        "started_at": ended,
        "ended_at": ended,
        "seconds": 1.0,
        "attempts": 1,
        "tables": 1,
        "files": 2,
        "bytes": 10,
        "rows_by_reason": '{"malformed": 1}',
        "offsets": json.dumps(offsets),
        "gaps": "{}",
    }


def put(root: Files, number: int, ended: datetime, **more: Any) -> None:
    """A batch, in all tables."""
    place = {"kafka_topic": TOPIC, "kafka_partition": 0}
    rows = [{**place, "kafka_offset": 5 * number + offset} for offset in range(4)]
    append(root, "golf", rows, ROWS)
    refused = dict.fromkeys(ledger.QUARANTINE_SCHEMA.names)
    of = {"generation": more.get("generation", GENERATION), "batch_id": number, "pipeline": "games"}
    refused |= {**place, "kafka_offset": 5 * number + 4, "value": b"?", **of}
    append(root, QUARANTINE_TABLE, [refused], ledger.QUARANTINE_SCHEMA)
    change = {
        **dict.fromkeys(ledger.CHANGES_SCHEMA.names),
        **of,
        "at": ended,
        "table": "golf",
        "column": str(number),
    }
    append(root, CHANGES_TABLE, [change], ledger.CHANGES_SCHEMA)
    append(root, BATCHES_TABLE, [row(number, ended, **more)], ledger.BATCHES_SCHEMA)


def put_all(root: Files) -> Files:
    for number, days in enumerate(DAYS):
        put(root, number, NOW - timedelta(days=days, minutes=60 - number))
    return root


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The batches, in a folder of which each test has a copy: to write them takes far longer."""
    folder = tmp_path_factory.mktemp("made")
    put_all(files_at(folder))
    return folder


@pytest.fixture
def lake(root: Files, made: Path) -> Files:
    if root.remote:
        return put_all(root)
    shutil.copytree(made, root.url)
    return root


# What comes of a commit that fails, or meets another one, is tried in a store, too; for what is decided before it matters nothing where it is.
IN_A_FOLDER = pytest.mark.parametrize("root", ["posix"], indirect=True)


def batches(root: Files) -> list[tuple[int, int]]:
    """The first and the last batch that each row of the ledger stands for."""
    found = read(root, BATCHES_TABLE)
    return [
        (one["batch_id"] if one["first_batch_id"] is None else one["first_batch_id"], one["batch_id"])
        for one in found
    ]


def quarantined(root: Files) -> list[int]:
    return [one["batch_id"] for one in read(root, QUARANTINE_TABLE)]


def assert_whole(root: Files) -> None:
    """Tables, quarantine and ledger agree."""
    verdict = compare(Lake(root=root, template="{entity}", me=MINE))
    assert verdict.differences == ()


def brought_back(
    root: Files,
    numbers: list[int],
    generation: str = GENERATION,
    pipeline: str = "games",
    outcome: str = TO_TABLE,
) -> None:
    """The quarantined records of these batches have rows in a table since."""
    places = [{"kafka_topic": TOPIC, "kafka_partition": 0, "kafka_offset": 5 * one + 4} for one in numbers]
    append(root, "golf", places, ROWS)
    told = {"generation": generation, "pipeline": pipeline, "replay": "r", "at": NOW, "outcome": outcome}
    rows = [
        {**told, **place, "batch_id": one, "table": "golf"}
        for one, place in zip(numbers, places, strict=True)
    ]
    append(root, RESOLVED_TABLE, rows, RESOLVED_SCHEMA)


def test_what_tells_of_quarantined_records_goes_with_them_and_all_adds_up(lake: Files) -> None:
    brought_back(lake, [0, 1, 6])
    assert_whole(lake)
    assert keep_record(lake, mine(), MONTH, NOW_MS, dry_run=True).resolved == 2
    assert_whole(lake)
    done = keep_record(lake, mine(), MONTH, NOW_MS)
    assert (done.quarantined, done.resolved) == (4, 2)
    assert [one["batch_id"] for one in read(lake, RESOLVED_TABLE)] == [6]
    # Their rows in tables are known for what they are, and a row of the batch itself is missed.
    assert_whole(lake)
    brought_back(lake, [2])
    later = NOW_MS + int(timedelta(days=15).total_seconds() * 1000)
    assert keep_record(lake, mine(), MONTH, later).resolved == 1
    assert_whole(lake)
    assert len(list(lake.names(MOVED))) == 1
    assert keep_record(lake, mine(), MONTH, later).resolved == 0
    opened(lake.below("golf")).delete("kafka_offset = 3")
    verdict = compare(Lake(root=lake, template="{entity}", me=MINE))
    assert [one.kind for one in verdict.differences] == ["ledger_rows"]


def deleted_by_hand(root: Files, numbers: list[int]) -> None:
    """The quarantined records of these batches are gone from there."""
    places = [[TOPIC, 0, 5 * one + 4, None, GENERATION, one] for one in numbers]
    names = ["kafka_topic", "kafka_partition", "kafka_offset", "kafka_ts", "generation", "batch_id"]
    rows = pa.Table.from_pylist([dict(zip(names, place, strict=True)) for place in places])
    told = {"pipeline": "games", "id": "a", "table": QUARANTINE_TABLE, PURGED: True}
    keep(root, "a-00000", {**told, "gone": Gone.of(rows).to_json()})
    opened(root.below(QUARANTINE_TABLE)).delete(f"batch_id IN ({', '.join(map(str, numbers))})")


@IN_A_FOLDER
def test_what_was_brought_back_is_not_taken_for_what_waited_once_nothing_tells_of_it(lake: Files) -> None:
    """What bronze has of it goes to quarantine where it is refused by now: of what waited there that would be once too often."""
    brought_back(lake, [0])
    brought_back(lake, [1], outcome=DROPPED)
    deleted_by_hand(lake, [0, 1, 2])
    every = {(TOPIC, 0): np.array([4, 9, 14, 19])}
    for _ in range(2):
        assert {of: found.tolist() for of, found in deleted_open(lake, Whose.of("games"), every).items()} == {
            (TOPIC, 0): [14]
        }
        keep_record(lake, mine(), MONTH, NOW_MS)
        assert not read(lake, RESOLVED_TABLE)


@HEAVY_IN_S3
def test_upkeep_that_dies_amid_it_takes_nothing_from_what_is_known(
    lake: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    brought_back(lake, [0, 1])
    with monkeypatch.context() as patch:
        patch.setattr(record, "keep_moved", dying(keep_moved))
        assert keep_record(lake, mine(), MONTH, NOW_MS).failed is not None
    assert_whole(lake)
    assert keep_record(lake, mine(), MONTH, NOW_MS).resolved == 2
    assert_whole(lake)


def dying(step: Callable[..., None]) -> Callable[..., None]:
    def dies(*given: Any) -> None:
        step(*given)
        raise OSError("the process dies here")

    return dies


@IN_A_FOLDER
def test_what_tells_of_records_that_replays_had_refused_goes_with_those(lake: Files) -> None:
    replay = "b" * 32
    brought_back(lake, [0], generation=replay)
    brought_back(lake, [1], generation="c" * 32, pipeline="others")
    told = json.dumps({"pipeline": "games", "replay": replay, "at": (NOW - timedelta(days=40)).isoformat()})
    lake.put_new(f"{OUTCOMES}/{replay}.json", told.encode())
    # By the clock of the place it was told of just now, and by the one of who began it 40 days before.
    late = int((datetime.now(timezone.utc) + timedelta(days=60)).timestamp() * 1000)
    assert keep_record(lake, mine(), MONTH, late).resolved == 1
    assert [one["pipeline"] for one in read(lake, RESOLVED_TABLE)] == ["others"]


@HEAVY_IN_S3
def test_what_is_old_goes_and_all_adds_up(lake: Files) -> None:
    assert_whole(lake)
    wanted = RecordUpkeep(batches=2, changes=4, quarantined=4)
    assert keep_record(lake, mine(), MONTH, NOW_MS, dry_run=True) == wanted
    assert len(batches(lake)) == len(quarantined(lake)) == 8
    assert keep_record(lake, mine(), MONTH, NOW_MS) == wanted
    assert batches(lake) == [(0, 1), (2, 3), (4, 4), (5, 5), (6, 6), (7, 7)]
    assert quarantined(lake) == [4, 5, 6, 7]
    assert [int(one["column"]) for one in read(lake, CHANGES_TABLE)] == [4, 5, 6, 7]
    assert_whole(lake)
    version = newest(lake.below(BATCHES_TABLE))
    assert keep_record(lake, mine(), MONTH, NOW_MS) == RecordUpkeep()
    assert newest(lake.below(BATCHES_TABLE)) == version


@IN_A_FOLDER
def test_the_newest_batches_of_a_generation_stay_whatever_their_age(lake: Files) -> None:
    years = NOW_MS + 3000 * 86_400_000
    keep_record(lake, mine(), MONTH, years)
    assert batches(lake) == [(0, 1), (2, 3), (4, 5), (6, 6), (7, 7)]
    assert quarantined(lake) == [6, 7]
    assert_whole(lake)


@IN_A_FOLDER
def test_a_row_that_is_gone_from_quarantine_too_early_is_missed(lake: Files) -> None:
    keep_record(lake, mine(), MONTH, NOW_MS)
    opened(lake.below(QUARANTINE_TABLE)).delete("batch_id = 4")
    verdict = compare(Lake(root=lake, template="{entity}", me=MINE))
    assert [one.kind for one in verdict.differences] == ["ledger_rows"]


@HEAVY_IN_S3
def test_upkeep_that_dies_between_its_commits_leaves_what_adds_up(
    lake: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: object, **__: object) -> None:
        raise OSError("the store is away")

    with monkeypatch.context() as patch:
        patch.setattr(DeltaTable, "delete", away)
        done = keep_record(lake, mine(), MONTH, NOW_MS)
    assert done.failed == "the store is away"
    assert len(quarantined(lake)) == 8
    assert_whole(lake)
    assert keep_record(lake, mine(), MONTH, NOW_MS).quarantined == 4
    assert_whole(lake)


def test_a_batch_that_comes_meanwhile_stays(lake: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    amid(monkeypatch, lambda: put(lake, 8, NOW))
    assert keep_record(lake, mine(), MONTH, NOW_MS).left == ()
    assert batches(lake) == [(0, 1), (2, 3), (4, 4), (5, 5), (6, 6), (7, 7), (8, 8)]
    assert quarantined(lake) == [4, 5, 6, 7, 8]
    assert_whole(lake)


def test_two_upkeeps_at_once_count_nothing_twice(lake: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    amid(monkeypatch, lambda: keep_record(lake, mine(), MONTH, NOW_MS))
    keep_record(lake, mine(), MONTH, NOW_MS)
    assert batches(lake) == [(0, 1), (2, 3), (4, 4), (5, 5), (6, 6), (7, 7)]
    assert_whole(lake)


def amid(monkeypatch: pytest.MonkeyPatch, rival: Callable[[], object]) -> None:
    """Have somebody do something between the look of an upkeep at the ledger and its commit, once."""
    told = list[int]()

    def late(*given: Any, **named: Any) -> None:
        if not told:
            told.append(1)
            rival()
        write_deltalake(*given, **named)

    monkeypatch.setattr(record, "write_deltalake", late)


@IN_A_FOLDER
def test_what_is_not_settled_stays_and_of_a_log_that_cannot_be_reached_all(lake: Files) -> None:
    mark = generation_mark(GENERATION)
    done = keep_record(lake, mine(Undecided(unreached={mark: "its log is away"})), MONTH, NOW_MS)
    assert done == RecordUpkeep(
        left=(f"batches of generation {GENERATION} stay as they are: its log is away",)
    )
    keep_record(lake, mine(Undecided(settled={mark: 2})), MONTH, NOW_MS)
    assert batches(lake)[:3] == [(0, 1), (2, 2), (3, 3)]
    assert quarantined(lake) == [3, 4, 5, 6, 7]
    assert_whole(lake)


@IN_A_FOLDER
def test_the_record_of_a_pipeline_with_a_parked_table_stays(lake: Files) -> None:
    done = keep_record(lake, mine(Undecided(parked={"golf": 2})), MONTH, NOW_MS)
    assert done.left == ("the record stays as it is while batches wait for golf",)
    assert len(batches(lake)) == 8


@IN_A_FOLDER
def test_records_of_other_pipelines_and_of_other_generations_are_their_own(lake: Files) -> None:
    old = NOW - timedelta(days=60)
    for number in range(8, 12):
        put(lake, number, old + timedelta(minutes=number), generation="b" * 32, pipeline="others")
    done = keep_record(lake, mine(), MONTH, NOW_MS)
    assert (done.batches, done.quarantined) == (2, 4)
    assert [one["batch_id"] for one in read(lake, BATCHES_TABLE) if one["pipeline"] == "others"] == [
        8,
        9,
        10,
        11,
    ]
    assert quarantined(lake)[-4:] == [8, 9, 10, 11]


@IN_A_FOLDER
def test_a_ledger_of_an_earlier_version_waits_for_its_columns(root: Files) -> None:
    fields = [one for one in ledger.BATCHES_SCHEMA if one.name not in ("first_batch_id", "rows_purged")]
    for number in range(4):
        known = {one.name: row(number, NOW - timedelta(days=50))[one.name] for one in fields}
        append(root, BATCHES_TABLE, [known], pa.schema(fields))
    (why,) = keep_record(root, mine(), MONTH, NOW_MS).left
    assert why.endswith("ledger_batches gets columns for it with the next batch")


@IN_A_FOLDER
def test_a_batch_that_is_told_twice_stays_to_be_seen(lake: Files) -> None:
    append(lake, BATCHES_TABLE, [row(0, NOW - timedelta(days=50))], ledger.BATCHES_SCHEMA)
    (why,) = keep_record(lake, mine(), MONTH, NOW_MS).left
    assert "twice" in why


@IN_A_FOLDER
def test_columns_that_others_added_to_the_ledger_stay(lake: Files) -> None:
    more = pa.schema([*ledger.BATCHES_SCHEMA, pa.field("note", pa.string())])
    append(lake, BATCHES_TABLE, [{**row(8, NOW), "note": "mine"}], more)
    assert keep_record(lake, mine(), MONTH, NOW_MS).batches == 2
    assert read(lake, BATCHES_TABLE)[-1]["note"] == "mine"


@IN_A_FOLDER
def test_without_ages_nothing_goes(lake: Files) -> None:
    assert keep_record(lake, mine(), Keep(), NOW_MS).is_nothing
    assert keep_record(lake, mine(), Keep(quarantine_days=30), NOW_MS) == RecordUpkeep(quarantined=4)
    assert [one["rows_purged"] for one in read(lake, BATCHES_TABLE)] == [1] * 4 + [None] * 4
    assert_whole(lake)


def test_there_may_be_no_ledger_yet(tmp_path: Path) -> None:
    assert keep_record(files_at(tmp_path), mine(), MONTH, NOW_MS).is_nothing


@IN_A_FOLDER
def test_what_a_day_stands_for_counts_as_done(lake: Files) -> None:
    """A table whose newest commit is of a batch that the ledger tells of only by its day is not half a batch."""
    keep_record(lake, mine(), MONTH, NOW_MS)
    newest_batches = {"golf": (GENERATION, 0), "chess": (GENERATION, 3), "go": (GENERATION, 9)}
    assert untold(lake, [], newest_batches) == ["go"]


@IN_A_FOLDER
def test_what_replays_refused_goes_from_quarantine_once_they_are_old(lake: Files) -> None:
    """No batch of the ledger tells of it: it came with records that were kept, and were decoded again."""
    now = datetime.now(timezone.utc)
    replays = {"c" * 32: now, "d" * 32: now + timedelta(days=20), "e" * 32: None}
    for replay, at in replays.items():
        refused = dict.fromkeys(ledger.QUARANTINE_SCHEMA.names)
        refused |= {"kafka_topic": TOPIC, "kafka_partition": 0, "kafka_offset": 0, "pipeline": "games"}
        refused |= {"generation": replay, "batch_id": 0}
        append(lake, QUARANTINE_TABLE, [refused], ledger.QUARANTINE_SCHEMA)
        if at is not None:
            told = {"format": 1, "pipeline": "games", "replay": replay, "at": at.isoformat()}
            lake.put_new(f"{OUTCOMES}/{replay}.json", json.dumps(told).encode())

    def there() -> set[str]:
        return {one["generation"] for one in read(lake, QUARANTINE_TABLE)} - {GENERATION}

    month = [int((now + timedelta(days=days)).timestamp() * 1000) for days in (29, 31)]
    keep_record(lake, mine(), MONTH, month[0])
    assert there() == replays.keys()
    # By its own word the second one began later than the store's clock says, and what the third one is nobody tells.
    assert keep_record(lake, mine(), MONTH, month[1], dry_run=True).quarantined == 1
    assert keep_record(lake, Pipeline(Whose.of("others"), Undecided()), MONTH, month[1]).quarantined == 0
    assert keep_record(lake, mine(), MONTH, month[1]).quarantined == 1
    assert there() == {"d" * 32, "e" * 32}
