"""Where a new log goes on from the positions of those before it, and from which it does not."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.ingest.handover.test_heritage import WORLD, heritage
from tests.ingest.kafka_records import TOPIC
from tests.ingest.merge.upserted import make
from tests.ingest.pipelines import checkpoint, settings, table_book

from distributary.errors import CheckpointMismatch
from distributary.ingest.beginnings import Rereading, going_on, require_order, require_order_again
from distributary.ingest.checkpoint.generation import born
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log.entries import Owner, Process, Standing
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.commit_log.reading import entry_path
from distributary.ingest.commit_log.writing import begin
from distributary.ingest.settings.upserts import Upsert
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.known import ENTITY_PROPERTY, UPSERT_PROPERTY
from distributary.ingest.tables.ledger import BATCHES_SCHEMA


def test_of_records_that_are_gone_before_they_were_read_a_new_log_reads_the_rest_and_says_so(
    caplog: pytest.LogCaptureFixture,
) -> None:
    begins = going_on({TOPIC: {0: 5, 1: 5}}, {TOPIC: {0: 5, 1: 8, 2: 3}}, {})
    assert begins == Standing(ends={TOPIC: {0: 5, 1: 8, 2: 3}})
    (warning,) = [record.getMessage() for record in caplog.records]
    assert warning.startswith(f"Kafka has no more of {TOPIC}/1 from offset 5 to before 8")


def test_a_log_that_records_what_is_lost_begins_before_it() -> None:
    begins = going_on(
        {TOPIC: {0: 5, 1: 5}}, {TOPIC: {0: 5, 1: 8, 2: 3}}, {TOPIC: {0: 9, 1: 9, 2: 9}}, records=True
    )
    assert begins.ends == {TOPIC: {0: 5, 1: 5, 2: 3}}


@pytest.mark.parametrize(
    ("rule", "route", "refused"),
    [
        ({"keys": ["id"]}, {"by": "topic"}, True),
        ({"keys": ["id"]}, {"by": "field", "field": "game_name"}, True),
        ({"keys": ["id"], "match": "others"}, {"by": "topic"}, False),
        ({"keys": ["id"], "on_repartition": "timestamp"}, {"by": "topic"}, False),
        ({"keys": ["id"], "sequence_by": ["at"]}, {"by": "topic"}, False),
    ],
)
def test_offsets_that_went_back_order_no_rows(
    tmp_path: Path, rule: dict[str, Any], route: dict[str, Any], refused: bool
) -> None:
    """A broker that lost records gives their offsets to others, which a table would take for older ones than it has."""
    given = {"field": None, "table": "{entity}", **route}
    chosen = settings(tmp_path, route=given, tables=[{"match": "*", "mode": "upsert", **rule}])
    told = (chosen.rule_book(), chosen.route, {TOPIC: {0: 100}})
    require_order(*told, {TOPIC: {0: 100}})
    if refused:
        with pytest.raises(CheckpointMismatch, match=r"By tables\[0\] positions say which"):
            require_order(*told, {TOPIC: {0: 90}})
    else:
        require_order(*told, {TOPIC: {0: 90}})


@pytest.mark.parametrize(
    ("end", "route", "damaged", "refused"),
    [
        (5, "{entity}", False, False),
        (4, "{entity}", False, True),
        (4, "new_{entity}", False, False),
        # The user was told of it by then, and has said that nobody runs it.
        (4, "{entity}", True, False),
    ],
)
def test_topics_are_not_read_again_into_a_table_of_which_a_log_read_more_than_there_is(
    tmp_path: Path, end: int, route: str, damaged: bool, refused: bool
) -> None:
    rule = {"match": "*", "mode": "upsert", "keys": ["id"]}
    chosen = settings(tmp_path, route={"table": route}, tables=[rule])
    root, earlier = files_at(tmp_path / "lake"), born(checkpoint(tmp_path), "games", WORLD)
    told = {ENTITY_PROPERTY: "golf", UPSERT_PROPERTY: json.dumps(Upsert(("id",)).to_json())}
    make(root.below("golf"), pa.schema([("id", pa.int64())]), told)
    assert Records(root).put("golf", 0, Owner("games", str(tmp_path / "checkpoint"), earlier.id))
    log = checkpoint(tmp_path).log
    begin(log, Process("here", 1, "0"), lambda: Standing(ends={TOPIC: {0: 5}}))
    if damaged:
        log.files.put(entry_path(0), b"{")
    reading = Rereading(chosen.rule_book(), chosen.route, WORLD.topics)
    with pytest.raises(CheckpointMismatch, match="table golf has") if refused else nullcontext():
        require_order_again(reading, heritage(tmp_path), table_book(tmp_path), lambda: {TOPIC: {0: end}})


def test_a_table_is_asked_of_all_generations_that_had_it(tmp_path: Path) -> None:
    """The first of them read further than the one that has it since somebody said `start: again`; no commit tells of it any more."""
    rule = {"match": "*", "mode": "upsert", "keys": ["id"]}
    chosen = settings(tmp_path, route={"table": "{entity}"}, tables=[rule])
    root = files_at(tmp_path / "lake")
    told = {ENTITY_PROPERTY: "golf", UPSERT_PROPERTY: json.dumps(Upsert(("id",)).to_json())}
    make(root.below("golf"), pa.schema([("id", pa.int64())]), told)
    for number, (generation, end) in enumerate([("old", 5), ("new", 2)]):
        assert Records(root).put("golf", number, Owner("games", str(tmp_path / "gone"), generation))
        offsets = json.dumps({TOPIC: {"0": [0, end]}})
        row = {"pipeline": "games", "generation": generation, "batch_id": 1, "offsets": offsets}
        rows = pa.Table.from_pylist([row], BATCHES_SCHEMA)
        write_deltalake(tmp_path / "lake" / BATCHES_TABLE, rows, mode="append")
    reading = Rereading(chosen.rule_book(), chosen.route, WORLD.topics)
    with pytest.raises(CheckpointMismatch, match="table golf has"):
        require_order_again(reading, heritage(tmp_path), table_book(tmp_path), lambda: {TOPIC: {0: 4}})
