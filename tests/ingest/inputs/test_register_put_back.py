"""A register of files that was put back from a copy which is older than the log or the tables: numbers that count as read are not given to what lands."""

from __future__ import annotations

import json
import shutil
from contextlib import ExitStack, nullcontext
from datetime import datetime, timezone
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import CommitProperties, write_deltalake
from pyspark.sql import SparkSession
from tests.ingest.pipelines import begun, checkpoint

from distributary.errors import CheckpointMismatch
from distributary.ingest.beginnings import after_others, as_read_now
from distributary.ingest.checkpoint.generation import Start, World, born
from distributary.ingest.columns.safe_names import BATCHES_TABLE
from distributary.ingest.commit_log.entries import Owner, Standing
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.infer import look
from distributary.ingest.inputs.before_a_look import require_had_before
from distributary.ingest.inputs.opening import open_source
from distributary.ingest.kafka.offsets import Positions, offsets_to_json
from distributary.ingest.landing import register
from distributary.ingest.landing.numbers import first_offset
from distributary.ingest.run import schemas_of
from distributary.ingest.settings.model import Settings
from distributary.ingest.source.contract import Channels
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables.log import put_entry
from distributary.ingest.tables.transaction import GENERATION, OFFSETS
from distributary.producer_sim.verify.topic_check import check_topics, topics_now

OLDER = pytest.raises(
    CheckpointMismatch, match=r"knows 1 files, and 2 were read by it: it was put back from an older"
)


def positions(number: int) -> Positions:
    return {"landing": {0: first_offset(number)}}


@pytest.fixture
def chosen(tmp_path: Path) -> Settings:
    """A pipeline of files of which two have landed, with the register as it was when the first had; what lands next is older than the second."""
    settings = Settings.model_validate(
        {
            "name": "landed",
            "checkpoint": "./checkpoint",
            "source": {"files": {"path": "./landing"}},
            "route": {"by": "topic", "table": "{entity}"},
            "sink": {"root": "./lake"},
        },
        context={"folder": tmp_path},
    )
    register = tmp_path / "lake/.distributary/landed"
    for number in range(2):
        (tmp_path / "landing").mkdir(exist_ok=True)
        (tmp_path / "landing" / f"{number}.json").write_text(f'{{"n": {number}}}')
        with open_source(settings) as channels:
            assert channels.end_offsets() == positions(number + 1)
        if not number:
            shutil.copytree(register, tmp_path / "copy")
    shutil.rmtree(register)
    (tmp_path / "copy").rename(register)
    return settings


def goes_on(chosen: Settings, channels: Channels, planned: Positions) -> Standing:
    return after_others(chosen.rule_book(), chosen.route, chosen.source, channels, planned)


def world(channels: Channels) -> World:
    return World(channels.cluster_id(), channels.topic_ids(), {})


def test_a_log_that_has_read_more_is_not_gone_on_with(chosen: Settings, tmp_path: Path) -> None:
    with open_source(chosen) as channels:
        generation = born(checkpoint(tmp_path), "landed", world(channels), Start("resume"))
        log = begun(checkpoint(tmp_path), positions(2))
        with OLDER:
            as_read_now(log.so_far, generation, channels, chosen.source)
        assert as_read_now(
            begun(checkpoint(tmp_path, "other"), positions(1)).so_far, generation, channels, chosen.source
        )


def test_nor_are_tables_that_have_more_whose_checkpoint_is_gone(chosen: Settings) -> None:
    with open_source(chosen) as channels:
        with OLDER:
            goes_on(chosen, channels, positions(2))
        assert goes_on(chosen, channels, positions(1)).ends == positions(1)


@pytest.mark.parametrize("has_log", [True, False])
def test_verify_says_so_and_gives_no_number_to_what_landed_since(
    chosen: Settings, tmp_path: Path, has_log: bool
) -> None:
    if has_log:
        with open_source(chosen) as channels:
            born(checkpoint(tmp_path), "landed", world(channels), Start("resume"))
        begun(checkpoint(tmp_path), positions(2))
    told = [str(one) for one in check_topics(topics_now(chosen), (), None)]
    assert [("put back from an older copy" in one) for one in told] == [True] * has_log
    with open_source(chosen) as channels:
        assert channels.ends() == positions(1)


@pytest.mark.parametrize("together", [100, 1])
def test_what_another_run_has_registered_since_is_known(
    chosen: Settings, monkeypatch: pytest.MonkeyPatch, together: int
) -> None:
    """As the last one did, which ended while this one began, or one that is alive while `verify` looks; be it brought together or not."""
    monkeypatch.setattr(register, "_TOGETHER", together)
    with open_source(chosen) as channels:
        with open_source(chosen) as others:
            assert others.end_offsets() == positions(2)
        assert goes_on(chosen, channels, positions(2)).ends == positions(2)


@pytest.mark.spark
@pytest.mark.parametrize("by", ["infer", "run"])
def test_nobody_looks_before_who_goes_on_has_it_held_against_the_log(
    chosen: Settings, tmp_path: Path, spark: SparkSession, by: str
) -> None:
    with open_source(chosen) as channels:
        born(checkpoint(tmp_path), "landed", world(channels), Start("resume"))
    begun(checkpoint(tmp_path), positions(2))
    with ExitStack() as stack, OLDER:
        if by == "infer":
            look(chosen, True, None, lambda _: nullcontext(spark))
        channels = stack.enter_context(open_source(chosen))
        stack.enter_context(schemas_of(chosen, spark, channels))
    with open_source(chosen) as channels:
        assert channels.ends() == positions(1)


def in_ledger(root: Path, generation: str, number: int, others: int = 1) -> None:
    """Have the ledger tell, below what another pipeline and upkeep did since, that a generation has read the files before this number."""
    ledger = root / "lake" / BATCHES_TABLE
    read = json.dumps(offsets_to_json({"landing": {0: (0, first_offset(number))}}))
    row = pa.table({"generation": [generation], "batch_id": [1], "offsets": [read]})
    write_deltalake(ledger, row, commit_properties=CommitProperties({GENERATION: generation, OFFSETS: read}))
    for version, told in enumerate([*[{GENERATION: "another"}] * others, {}], 1):
        assert put_entry(ledger, version, [{"commitInfo": told}])


@pytest.mark.parametrize("others", [1, 100], ids=["few", "many"])
def test_a_checkpoint_and_a_register_that_are_older_than_the_tables_are_not_looked_by(
    chosen: Settings, tmp_path: Path, others: int
) -> None:
    """As a copy has them that was made while a run went on: who is told that the checkpoint is older goes on from the tables."""
    with open_source(chosen) as channels:
        generation = born(checkpoint(tmp_path), "landed", world(channels), Start("resume"))
        begun(checkpoint(tmp_path), positions(1))
        require_had_before(chosen, channels)
        in_ledger(tmp_path, generation.id, 2, others)
        with OLDER:
            require_had_before(chosen, channels)
    (told,) = check_topics(topics_now(chosen), (), None)
    assert "put back from an older copy" in str(told)
    with open_source(chosen) as channels:
        assert channels.ends() == positions(1)


@pytest.mark.parametrize("start", ["from_tables", "resume"])
def test_nor_is_a_register_that_is_older_than_the_tables_whose_checkpoint_is_gone(
    chosen: Settings, tmp_path: Path, start: str
) -> None:
    """Who is told that the tables are another run's goes on from them."""
    in_ledger(tmp_path, "dead", 2)
    owner = Owner("landed", "gone", "dead", "dead")
    assert Records(files_at(tmp_path / "lake")).put("silver_landing", 0, owner)
    begins = chosen.model_copy(update={"start": start})
    with open_source(chosen) as channels:
        with OLDER:
            require_had_before(begins, channels)
        # What reads all again gives numbers anew.
        require_had_before(chosen.model_copy(update={"start": "again"}), channels)


@pytest.mark.parametrize("others", [1, 100], ids=["few", "many"])
def test_one_that_was_made_anew_is_held_against_who_read_by_it_last(
    chosen: Settings, tmp_path: Path, others: int
) -> None:
    """Tables that the reading before moved away, or wrote alone, still tell that one."""
    ledger, records = tmp_path / "lake" / BATCHES_TABLE, Records(files_at(tmp_path / "lake"))
    for day, (generation, number) in enumerate([("before", 9), ("dead", 1)], 1):
        read = json.dumps(offsets_to_json({"landing": {0: (0, first_offset(number))}}))
        at = datetime(2025, 6, day, tzinfo=timezone.utc)
        row = pa.table({"generation": [generation], "batch_id": [1], "started_at": [at], "offsets": [read]})
        told = CommitProperties({GENERATION: generation, OFFSETS: read})
        write_deltalake(ledger, row, mode="append", commit_properties=told)
        assert records.put(f"silver_{generation}", 0, Owner("landed", "gone", generation, generation))
    for version in range(2, 2 + others):
        assert put_entry(ledger, version, [{"commitInfo": {GENERATION: "another"}}])
    with open_source(chosen) as channels:
        require_had_before(chosen.model_copy(update={"start": "from_tables"}), channels)
