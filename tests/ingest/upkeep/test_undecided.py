from __future__ import annotations

import uuid
from pathlib import Path

import pytest
from tests.ingest.commit_log.logs import begun, decided

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.folder import Checkpoint
from distributary.ingest.checkpoint.generation import World, born
from distributary.ingest.commit_log.entries import Owner
from distributary.ingest.commit_log.writing import Writer
from distributary.ingest.merge.vectors import vector_file
from distributary.ingest.parquet.data_file import file_name, generation_mark, merged_name
from distributary.ingest.tables.transaction import app_of_replays, app_of_resets
from distributary.ingest.upkeep.replayed import REPLAYS
from distributary.ingest.upkeep.undecided import Undecided, made_by, undecided

WORLD = World("cluster", {}, {})


def living(folder: Path) -> tuple[Checkpoint, Writer, Owner]:
    """A checkpoint of whose batches the first is settled and the second is not, and whose its tables are."""
    here = Checkpoint.at(folder)
    here.make()
    generation = born(here, folder.name, WORLD)
    writer = begun(here.files)
    writer.settle(decided(writer).number)
    decided(writer)
    return here, writer, Owner(folder.name, str(here), generation.id)


def names(generation: str, number: int) -> list[str]:
    """A file of each kind that is made for a number."""
    return [
        file_name(generation, number),
        merged_name(generation, number),
        vector_file(generation, number, []).name,
    ]


def asked(own: Checkpoint, *owners: Owner) -> Undecided:
    return undecided(own, owners, Checkpoint.at)


def test_a_name_tells_who_made_a_file_and_for_which_number() -> None:
    generation = uuid.uuid4().hex
    for number in (0, 7, 12_345_678_901):
        assert {made_by(name) for name in names(generation, number)} == {
            (generation_mark(generation), number)
        }
    for name in ("part-00000-x.parquet", "deletion_vector_x.bin", "_SUCCESS"):
        assert made_by(name) is None


def test_files_behind_what_is_settled_may_come_in(tmp_path: Path) -> None:
    here, writer, owner = living(tmp_path / "games")
    found = asked(here, owner)
    settled = writer.so_far.settled
    assert settled == 1
    held = {number for number in range(6) if all(map(found.holds, names(owner.generation, number)))}
    assert held == {2, 3, 4, 5}
    assert not any(map(found.holds, names(owner.generation, settled)))
    assert not any(map(found.holds, [*names(uuid.uuid4().hex, 9), "part-00000.parquet"]))


def test_a_log_is_read_though_no_table_is_its_owners_yet(tmp_path: Path) -> None:
    here, _, owner = living(tmp_path / "games")
    assert asked(here).settled == {generation_mark(owner.generation): 1}


def test_a_checkpoint_without_an_entry_holds_all_that_is_its(tmp_path: Path) -> None:
    here = Checkpoint.at(tmp_path / "games")
    here.make()
    assert asked(here) == Undecided()
    generation = born(here, "games", WORLD)
    assert all(map(asked(here).holds, names(generation.id, 0)))


def test_logs_of_others_under_the_root_are_read_too(tmp_path: Path) -> None:
    here, _, mine = living(tmp_path / "games")
    _, writer, other = living(tmp_path / "others")
    writer.settle(decided(writer).number)
    decided(writer)
    found = asked(here, mine, other)
    assert found.settled == {generation_mark(mine.generation): 1, generation_mark(other.generation): 3}


@pytest.mark.parametrize("what", ["gone", "another", "edited"])
def test_of_a_log_that_nobody_reaches_all_files_stay(tmp_path: Path, what: str) -> None:
    here, _, mine = living(tmp_path / "games")
    there, _, other = living(tmp_path / "others")
    if what == "gone":
        other = Owner("others", str(tmp_path / "elsewhere"), other.generation)
    elif what == "another":
        other = Owner("others", str(there), uuid.uuid4().hex)
    else:
        there.files.put("log/0000000002.json", b"{")
    found = asked(here, mine, other)
    assert all(found.holds(name) for number in range(3) for name in names(other.generation, number))
    why = found.why_unreached(file_name(other.generation, 0))
    assert why is not None
    assert why.startswith(f"the log of pipeline 'others' (log {other.log}")
    assert found.why_unreached(file_name(mine.generation, 9)) is None


def test_tables_that_are_parked_are_counted(tmp_path: Path) -> None:
    here, writer, mine = living(tmp_path / "games")
    last = writer.so_far.last
    assert last is not None
    writer.park({"golf": (1, last), "quest": (last,)}, "why")
    assert asked(here, mine).parked == {"golf": 2, "quest": 1}


def test_a_broken_checkpoint_of_ones_own_is_told(tmp_path: Path) -> None:
    here, _, mine = living(tmp_path / "games")
    here.files.put("generation.json", b"{")
    with pytest.raises(CheckpointMismatch, match=r"generation\.json"):
        asked(here, mine)


def test_files_of_a_replay_that_is_not_done_may_come_in(tmp_path: Path) -> None:
    here, _, owner = living(tmp_path / "games")
    begun_one, done, never = (uuid.uuid4().hex for _ in range(3))
    for replay, told in ((begun_one, ("begun",)), (done, ("begun", "done")), (never, ("changes/one",))):
        for name in told:
            here.files.put(f"{REPLAYS}/{replay}/{name}.json", b"{}")
    found = asked(here, owner)
    assert [found.holds(file_name(one, 0)) for one in (begun_one, done, never)] == [True, False, False]


def test_the_number_of_a_replay_is_none_of_a_batch() -> None:
    """It is far above all of those, and what a table let go for it was held for ever."""
    generation = "ab" * 16
    found = Undecided({generation_mark(generation): 7})
    assert found.is_of({"appId": f"{generation}/events", "version": 8})
    assert not found.is_of({"appId": f"{generation}/events", "version": 7})
    for app in (app_of_replays(generation), app_of_resets(generation)):
        assert not found.is_of({"appId": app, "version": 1_800_000_000_000})
