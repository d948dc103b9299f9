"""A pipeline that reads another one's tables, which are its source."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import yaml
from deltalake import DeltaTable
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit

from distributary.errors import BudgetSpent, CheckpointMismatch
from distributary.ingest.run import run
from distributary.ingest.settings.model import Settings, load
from distributary.producer_sim.demo.background_run import BackgroundRun
from distributary.producer_sim.verify.comparison import verify

pytestmark = [pytest.mark.spark, pytest.mark.stack, pytest.mark.folder]

# Names that the columns of the first pipeline do not have.
OWN = {
    "kafka_topic": "from_table",
    "kafka_partition": "from_partition",
    "kafka_offset": "from_offset",
    "kafka_ts": "added_at",
    "kafka_key": "from_key",
    "schema_id": "columns_id",
}

PLACE = [("kafka_partition", "ascending"), ("kafka_offset", "ascending")]


class Second:
    """A pipeline that reads tables of the first one."""

    def __init__(self, kit: PipelineKit, *games: int, tables: list[Any] | None = None, **more: Any) -> None:
        self.kit, self.inputs = kit, [kit.folder_of(game) for game in games]
        self.file = kit.folder / "gold.yaml"
        document: dict[str, Any] = {
            "name": "gold",
            "source": {"delta": {"paths": [f"./lake/{name}" for name in self.inputs], **more}},
            "route": {"by": "topic", "table": "{entity}_again"},
            "sink": {"root": "./gold", "columns": OWN},
            "trigger": {"available_now": True, "interval_seconds": 0},
            "supervisor": {"failures": {"max": 0}},
            "spark": {"master": "local[2]"},
            **({"tables": tables} if tables else {}),
        }
        self.file.write_text(yaml.safe_dump(document))

    @property
    def settings(self) -> Settings:
        return load(self.file)

    def run(self) -> int:
        """How many records a run took."""
        return run(self.settings, spark=self.kit.spark).summary.rows

    def rows(self, number: int = 0) -> pa.Table:
        return DeltaTable(f"{self.kit.folder}/gold/{self.inputs[number]}_again").to_pyarrow_table()

    def assert_same(self, number: int = 0) -> pa.Table:
        """The rows of an input are here, each once, with their values and types."""
        first, found = self.kit.rows(self.inputs[number]), self.rows(number)
        assert found.select(first.column_names).schema.types == first.schema.types
        assert found.select(first.column_names).sort_by(PLACE).to_pylist() == first.sort_by(PLACE).to_pylist()
        verdict = verify(self.settings)
        assert not verdict.differences, "\n".join(map(str, verdict.differences))
        return found


def test_a_table_is_read_on_from_where_it_was_read_with_the_columns_that_it_gets(kit: PipelineKit) -> None:
    kit.simulate(1)
    kit.run()
    second = Second(kit, 0, 1)
    read = second.run()
    assert read == sum(kit.rows(name).num_rows for name in second.inputs)
    second.assert_same(0)
    second.assert_same(1)
    assert second.run() == 0
    kit.simulate(3)
    kit.run()
    assert second.run() == sum(kit.rows(name).num_rows for name in second.inputs) - read
    second.assert_same(0)
    second.assert_same(1)


def test_each_row_arrives_once_whatever_a_run_fails_at(
    kit: PipelineKit, fail_at: Callable[..., None]
) -> None:
    kit.simulate(1)
    kit.run()
    second = Second(kit, 0)
    for point in ("before_manifest", "after_manifest"):
        fail_at(point)
        with pytest.raises(BudgetSpent):
            second.run()
    fail_at()
    second.run()
    second.assert_same()


# The lighter one is above.
@pytest.mark.heavy
@pytest.mark.parametrize("point", ["before_manifest", "after_manifest", "before_ledger"])
def test_each_row_arrives_once_although_a_run_is_killed(kit: PipelineKit, point: str) -> None:
    kit.simulate(1)
    kit.run()
    second = Second(kit, 0)
    killed = subprocess.run(
        [sys.executable, "-m", "distributary", "run", str(second.file), "--available-now"],
        env=kit.environment(f"{point}=kill"),
        cwd=kit.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    kit.simulate(2)
    kit.run()
    second.run()
    second.assert_same()


def test_a_run_that_goes_on_takes_up_what_comes(kit: PipelineKit) -> None:
    kit.simulate(1)
    kit.run()
    second = Second(kit, 0)
    settings = second.settings.continuously()
    with BackgroundRun(settings, kit.spark) as running:
        running.wait_for(kit.rows(second.inputs[0]).num_rows)
        kit.simulate(1)
        kit.run()
        running.wait_for(kit.rows(second.inputs[0]).num_rows)
    second.assert_same()


def test_rows_that_are_deleted_end_a_run_that_reads_what_is_added(kit: PipelineKit) -> None:
    kit.simulate(1)
    kit.run()
    second = Second(kit, 0)
    second.run()
    game = kit.folder_of(0)
    kit.delta(game).delete("level % 2 = 0")
    with pytest.raises(CheckpointMismatch, match=rf"of .*{game} deletes or replaces rows.*read: changes"):
        second.run()


# Lighter: test_a_table_is_read_on_from_where_it_was_read_with_the_columns_that_it_gets follows a table.
@pytest.mark.heavy
def test_a_table_with_one_row_a_key_is_followed_by_what_became_of_its_rows(kit: PipelineKit) -> None:
    rule = {"match": "*", "mode": "upsert", "keys": ["gamer_id"]}
    kit.configured(tables=[rule])
    kit.simulate(1, games=1, gamers=40)
    kit.run()
    follows = [{**rule, "deletes": {"when": "_change_type = 'delete'"}}]
    second = Second(kit, 0, tables=follows, read="changes")
    second.run()
    for _ in range(2):
        kit.simulate(1, games=1, gamers=60)
        kit.run()
        second.run()
        places = f"{kit.root}/{second.inputs[0]}", f"{kit.folder}/gold/{second.inputs[0]}_again"
        frames = [kit.spark.read.format("delta").load(place) for place in places]
        first, found = (
            sorted(map(tuple, frame.select("gamer_id", "event_id", "kafka_offset").collect()))
            for frame in frames
        )
        assert found == first
    verdict = verify(second.settings)
    assert not verdict.differences, "\n".join(map(str, verdict.differences))


def test_versions_that_the_log_has_no_more_end_a_run_or_are_told_of_in_the_ledger(kit: PipelineKit) -> None:
    kit.simulate(1, games=1)
    kit.run()
    second = Second(kit, 0)
    read = second.run()
    for _ in range(2):
        kit.simulate(1, games=1)
        kit.run()
    table = kit.delta(second.inputs[0])
    table.create_checkpoint()
    for version in range(table.version()):
        (kit.root / second.inputs[0] / "_delta_log" / f"{version:020d}.json").unlink()
    with pytest.raises(CheckpointMismatch, match=rf"Delta has no more of {second.inputs[0]}/0 from offset"):
        second.run()
    document = yaml.safe_load(second.file.read_text())
    document["source"]["on_data_loss"] = "record"
    second.file.write_text(yaml.safe_dump(document))
    outcome = run(second.settings, spark=kit.spark)
    assert [(one.topic, one.before >> 32) for one in outcome.lost] == [(second.inputs[0], table.version())]
    assert second.rows().num_rows == read + outcome.summary.rows
    assert outcome.summary.rows


# Lighter: test_a_topic_that_is_made_anew_has_another_id (tests/ingest/source/test_contract.py) has a table, too; test_refusals.py has a topic refused.
@pytest.mark.heavy
def test_a_table_that_was_made_anew_is_refused(kit: PipelineKit, tmp_path: Path) -> None:
    kit.simulate(1)
    kit.run()
    second = Second(kit, 0)
    second.run()
    place = kit.root / second.inputs[0]
    place.rename(tmp_path / "old")
    DeltaTable.create(str(place), pa.schema([("game_name", pa.string())]))
    with pytest.raises(CheckpointMismatch, match=f"topic '{second.inputs[0]}' was made anew"):
        second.run()
