"""A new checkpoint over an earlier log of which one table was put back from a copy, or all were, or one cannot be opened: that is named, and nothing is missing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.ingest.batch.test_one_put_back import LIFE, batch, lived
from tests.ingest.batch.test_standing_still import goes_on, query
from tests.ingest.batch.test_unreadable import Harm, emptied_beginning, input_output_error, newer_protocol
from tests.ingest.batches import generation
from tests.ingest.handover.test_heritage import WORLD, begin_at, heritage, owned, taken_over
from tests.ingest.kafka_records import TOPIC
from tests.ingest.pipelines import settings
from tests.ingest.queries import GOLF, QUEST

from distributary.errors import CommitImpossible, PipelineError
from distributary.ingest.handover.earlier import Earlier
from distributary.ingest.resolve import resolve


def test_a_table_that_lacks_batches_is_named_before_anything_is_taken(tmp_path: Path) -> None:
    lived(tmp_path, LIFE, copied_behind=1)()
    before = owned(tmp_path)
    for _ in range(2):
        with pytest.raises(
            CommitImpossible,
            match=rf"{GOLF} has batch 1 as its newest one, and batch 3 was .*\n.*`checkpoint: {tmp_path}/checkpoint`",
        ):
            taken_over(tmp_path, "second", "from_tables")
    assert (owned(tmp_path), (tmp_path / "second" / "generation.json").exists()) == (before, False)
    # Who reads all once more misses nothing.
    assert heritage(tmp_path).start("again", "games", (), WORLD).mode == "again"
    assert resolve(settings(tmp_path), GOLF, "skip").table == GOLF
    assert taken_over(tmp_path, "second", "from_tables")[1] == {TOPIC: {0: 8}}


def test_a_table_that_lacks_the_newest_batch_alone_gets_it_again(tmp_path: Path) -> None:
    put_back = lived(tmp_path, LIFE, copied_behind=3)
    files = list((tmp_path / "lake" / GOLF).glob("*.parquet"))
    shutil.copytree(tmp_path / "lake" / GOLF, tmp_path / "aside")
    put_back()
    new, owners = begin_at(tmp_path, "second", "from_tables")
    with pytest.raises(CommitImpossible, match=rf"is gone.*\n.*`checkpoint: {tmp_path}/checkpoint`"):
        heritage(tmp_path).complete(new, owners)
    # Nobody but a run of that checkpoint reads its records again; with its files there are all that it takes.
    for file in files:
        shutil.copy(tmp_path / "aside" / file.name, file)
    assert heritage(tmp_path).complete(new, owners) == {TOPIC: {0: 8}}
    assert DeltaTable(tmp_path / "lake" / GOLF).to_pyarrow_table().num_rows == 4


def test_a_run_that_goes_on_meanwhile_lacks_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tables were asked before its log, or the other way round."""
    run = goes_on(query(tmp_path))
    for _ in range(2):
        batch(run)
    found = heritage(tmp_path)
    looked, require = list[object](), found._looking.require_whole

    def amid(one: Earlier) -> None:
        batch(run)
        looked.append(one)
        require(one)

    monkeypatch.setattr(found._looking, "require_whole", amid)
    start = found.start("from_tables", "games", (), WORLD)
    assert (len(looked), start.after and start.after.generation) == (1, generation(tmp_path).id)


@pytest.mark.parametrize("harm", [emptied_beginning, newer_protocol, input_output_error])
def test_a_table_that_nobody_can_open_is_named_with_what_to_do(tmp_path: Path, harm: Harm) -> None:
    batch(goes_on(query(tmp_path)))
    put_right: Callable[[], object] = harm(tmp_path / "lake" / GOLF)
    with pytest.raises(
        PipelineError, match=rf"(?s){GOLF}.*\n.*{tmp_path}/checkpoint.*`policies.stuck_table: park`"
    ):
        taken_over(tmp_path, "second", "from_tables")
    put_right()
    assert taken_over(tmp_path, "second", "from_tables")[1] == {TOPIC: {0: 2}}


@pytest.mark.parametrize("harm", [emptied_beginning, newer_protocol, input_output_error])
def test_of_a_log_that_is_gone_the_table_that_nobody_can_read_is_named(tmp_path: Path, harm: Harm) -> None:
    batch(goes_on(query(tmp_path)))
    dead = generation(tmp_path).id
    shutil.rmtree(tmp_path / "checkpoint")
    put_right = harm(tmp_path / "lake" / QUEST)
    with pytest.raises(PipelineError, match=f"{QUEST}.*(take it|done to it taken) back"):
        heritage(tmp_path).start("from_tables", "games", [dead], WORLD)
    put_right()
    assert heritage(tmp_path).start("from_tables", "games", [dead], WORLD).offsets == {TOPIC: {0: 2}}
