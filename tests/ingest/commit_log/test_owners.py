"""Whose a table is: two pipelines over one are refused by name, and a handover goes from one to the next."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
from tests.ingest.asked import AskedFiles

from distributary.errors import CheckpointMismatch, TablesOfAnotherRun
from distributary.ingest.commit_log.entries import Owner, Process, Standing
from distributary.ingest.commit_log.owners import Owners, Records, Whose
from distributary.ingest.commit_log.reading import CommitLog
from distributary.ingest.commit_log.writing import begin, hand_over
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.posix import PosixFiles

GAMES, OTHER, THIRD = (
    Owner(name, f"/{name}/checkpoint", f"{name}-id") for name in ("games", "other", "third")
)

TABLE = "silver_chess_events"


def asking(files: Files, me: Owner, *dead: str) -> Owners:
    return Owners(Records(files), me, dead=dead)


def owner(files: Files, table: str = TABLE) -> Owner | None:
    return Records(files).of(table)


def test_a_table_is_the_first_ones_who_asks_for_it(files: Files) -> None:
    assert owner(files) is None
    for _ in range(2):
        asking(files, GAMES).claim([TABLE])
    assert owner(files) == GAMES
    with pytest.raises(
        TablesOfAnotherRun,
        match=rf"{TABLE} is that of pipeline 'games' \(log /games/checkpoint.*run 'games' with a new checkpoint and `start: from_tables`",
    ):
        asking(files, OTHER).claim([TABLE])


def test_who_is_refused_one_table_has_none_of_those_that_he_asked_for_with_it(files: Files) -> None:
    """Otherwise the pipeline that he got in the way of would end once it has its first record for one of them."""
    asking(files, GAMES).claim([TABLE])
    with pytest.raises(TablesOfAnotherRun):
        asking(files, OTHER).claim(["before", TABLE, "behind"])
    assert (owner(files, "before"), owner(files, "behind")) == (None, None)
    asking(files, GAMES).claim(["behind"])


def test_pipelines_over_one_root_have_tables_of_their_own(files: Files) -> None:
    asking(files, GAMES).claim(["one", "three"])
    asking(files, OTHER).claim(["two"])
    assert Records(files).all() == {"one": GAMES, "two": OTHER, "three": GAMES}
    assert Records(files).pipelines() == {"one": "games", "two": "other", "three": "games"}


def test_a_pipeline_that_got_another_name_has_all_its_tables_by_that(files: Files) -> None:
    asking(files, GAMES).claim(["one", "two"])
    asking(files, OTHER).claim(["theirs"])
    renamed = Owner("matches", GAMES.log, GAMES.generation)
    records = Records(files)
    none: list[str] = []
    # Before it runs by that, its checkpoint tells.
    ids, others = frozenset({GAMES.generation}), frozenset({OTHER.generation})
    mine = Whose("matches", frozenset({"matches", "games"}), ids, others)
    nobody = Whose("matches", frozenset({"matches"}), frozenset(), others | ids)
    assert records.of_pipeline("matches") == (none, nobody)
    assert records.of_pipeline("matches", GAMES.generation) == (["one", "two"], mine)
    asking(files, renamed).adopt(["one"])
    assert records.pipelines() == {"one": "matches", "two": "matches", "theirs": "other"}
    assert records.of_pipeline("matches") == (["one", "two"], mine)
    # Another one has its name of before by now.
    asking(files, Owner("games", "/new/checkpoint", "new-id")).claim(["three"])
    new = frozenset({"new-id"})
    assert records.of_pipeline("matches") == (
        ["one", "two"],
        Whose("matches", frozenset({"matches"}), ids, others | new),
    )
    assert records.of_pipeline("games") == (
        ["three"],
        Whose("games", frozenset({"games"}), new, others | ids),
    )


def test_a_pipeline_that_gets_its_first_name_back_has_all_its_tables_by_that(files: Files) -> None:
    asking(files, GAMES).claim(["one"])
    renamed = asking(files, Owner("matches", GAMES.log, GAMES.generation))
    renamed.adopt(["one"])
    renamed.claim(["two"])
    # Nobody else's record keeps it from that.
    files.put(".distributary/owners/0000000000/theirs.json", b'{"edited": 1}')
    asking(files, GAMES).adopt(["one"])
    owners = Records(files)
    assert {owners.of("one"), owners.of("two")} == {GAMES}


def test_a_table_is_asked_about_once_a_run(tmp_path: Path) -> None:
    asked = AskedFiles(tmp_path)
    mine = asking(asked, GAMES)
    mine.claim([TABLE])
    told = asked.told
    mine.claim([TABLE])
    assert asked.told == told


def test_many_tables_are_not_each_asked_for_by_every_number_that_others_have(tmp_path: Path) -> None:
    """A number is one more for each time that tables went from one owner to the next: a store charges for each question."""

    class Reads(AskedFiles):
        reads = 0

        def read(self, path: str) -> bytes:
            self.reads += 1
            return super().read(path)

    names = [GAMES.pipeline, "matches"]
    for number in range(30):
        asking(PosixFiles(tmp_path), replace(GAMES, pipeline=names[number % 2])).claim([TABLE])
    asked = Reads(tmp_path)
    assert len(Records(asked).numbers()) == 30
    new = [f"new_{number}" for number in range(20)]
    for _ in range(2):
        asking(asked, GAMES).claim(new)
    assert asked.reads == len(new)
    assert Records(asked).tables().keys() == {TABLE, *new}


@pytest.mark.parametrize(
    "copied", [Owner("games", "/elsewhere", "games-id"), Owner("games", GAMES.log, "new-id")], ids=str
)
def test_a_copy_of_a_checkpoint_and_a_new_one_are_others(files: Files, copied: Owner) -> None:
    asking(files, GAMES).claim([TABLE])
    with pytest.raises(TablesOfAnotherRun, match="is that of pipeline 'games'"):
        asking(files, copied).claim([TABLE])


def test_a_checkpoint_that_was_moved_has_its_tables_once_the_user_says_that_nobody_runs_the_other_one(
    files: Files,
) -> None:
    asking(files, GAMES).claim([TABLE])
    moved = Owner("games", "/elsewhere", GAMES.generation)
    with pytest.raises(
        TablesOfAnotherRun, match=r'copy of that one or was moved.*`confirm_dead: \["games-id"\]`'
    ):
        asking(files, moved).claim([TABLE])
    asking(files, moved, GAMES.generation).claim([TABLE])
    assert owner(files) == moved


def test_a_pipeline_may_get_another_name(files: Files) -> None:
    asking(files, GAMES).claim([TABLE])
    renamed = Owner("renamed", GAMES.log, GAMES.generation)
    asking(files, renamed).claim([TABLE])
    assert owner(files) == renamed


def test_tables_from_before_there_were_records_are_adopted_and_those_of_a_copy_are_not(files: Files) -> None:
    asking(files, GAMES).adopt(["one", "two"])
    assert Records(files).all() == {"one": GAMES, "two": GAMES}
    asking(files, GAMES).adopt(["one", "two", "three"])
    with pytest.raises(TablesOfAnotherRun, match="copy"):
        asking(files, Owner("games", "/elsewhere", GAMES.generation)).adopt(["one", "two"])


def log_of(files: Files, owner: Owner) -> CommitLog:
    return CommitLog(files.below(f"logs/{owner.pipeline}"))


def test_a_table_goes_with_its_owners_log_however_often_that_is_handed_over(files: Files) -> None:
    def reach(owner: Owner) -> CommitLog:
        return log_of(files, owner)

    for each in (GAMES, OTHER):
        begin(log_of(files, each), Process("here", 1, "0"), Standing)
    asking(files, GAMES).claim(["one", "two"])
    hand_over(log_of(files, GAMES), OTHER)
    other = Owners(Records(files), OTHER, reach)
    other.claim(["one"])
    hand_over(log_of(files, OTHER), THIRD)
    # What somebody shut out wrote after all comes along.
    asking(files, GAMES).claim(["late"])
    Owners(Records(files), THIRD, reach).take_over()
    assert Records(files).all() == {"one": THIRD, "two": THIRD, "late": THIRD}
    for late in (GAMES, OTHER):
        with pytest.raises(TablesOfAnotherRun, match="pipeline 'third'"):
            Owners(Records(files), late, reach).claim(["one"])


def test_tables_of_the_dead_are_taken_and_those_of_other_names_are_not(files: Files) -> None:
    asking(files, GAMES).claim(["one"])
    asking(files, OTHER).claim(["two"])
    new = Owner("games", "/new", "new-id")
    asking(files, new, GAMES.generation, OTHER.generation).take_over()
    assert Records(files).all() == {"one": new, "two": OTHER}


def test_of_many_who_take_a_table_one_has_it(files: Files) -> None:
    takers = [Owner(f"taker {number}", "", str(number)) for number in range(8)]

    def has_it(taker: Owner) -> bool:
        try:
            asking(files, taker).claim([TABLE])
        except TablesOfAnotherRun:
            return False
        return True

    with ThreadPoolExecutor(len(takers)) as pool:
        won = [taker for taker, has in zip(takers, pool.map(has_it, takers), strict=True) if has]
    assert won == [owner(files)]


def test_a_record_that_a_loss_of_power_emptied_counts_as_none(files: Files) -> None:
    asking(files, GAMES).claim([TABLE])
    for number, emptied in enumerate([OTHER, THIRD], start=1):
        files.put(f".distributary/owners/{number:010d}/{TABLE}.json", b"")
        assert owner(files) == GAMES, emptied
    asking(files, GAMES).claim([TABLE])
    files.put(f".distributary/owners/0000000000/{TABLE}.json", b"")
    asking(files, OTHER).claim([TABLE])
    assert owner(files) == OTHER


def test_a_table_of_a_log_whose_record_was_emptied_is_its_owners_again_with_the_next_start(
    files: Files,
) -> None:
    """Power may fail amid the start that adopts tables: until there were rows for it any other pipeline could have it, rows and all."""
    for table in ("before", TABLE):
        files.put(f".distributary/owners/0000000000/{table}.json", b"")
    asking(files, GAMES).adopt([TABLE, "new"])
    assert (owner(files), owner(files, "new"), owner(files, "before")) == (GAMES, GAMES, None)
    with pytest.raises(TablesOfAnotherRun):
        asking(files, OTHER).claim([TABLE])


def test_a_record_that_cannot_be_read_keeps_no_log_from_its_start(files: Files) -> None:
    """Its table may get no rows any more; where it does, it is told."""
    asking(files, GAMES).claim(["a", TABLE])
    files.put(f".distributary/owners/0000000000/{TABLE}.json", b'{"format":4}')
    again = asking(files, GAMES)
    again.adopt(["a", TABLE])
    assert again.mine() == ["a"]


def test_a_record_that_was_cut_off_counts_as_none_where_a_loss_of_power_can_do_that(files: Files) -> None:
    path = f".distributary/owners/0000000000/{TABLE}.json"
    asking(files, GAMES).claim([TABLE])
    files.put(path, files.read(path)[:40])
    if files.remote:
        with pytest.raises(CheckpointMismatch, match="was cut off or edited"):
            asking(files, OTHER).claim([TABLE])
        return
    asking(files, OTHER).claim([TABLE])
    assert owner(files) == OTHER


@pytest.mark.parametrize(
    ("data", "said"), [(b"{}", "was cut off or edited"), (b'{"format":5}', "has format 5, .* a newer")]
)
def test_a_record_that_cannot_be_read_is_told_by_its_path(files: Files, data: bytes, said: str) -> None:
    files.put(f".distributary/owners/0000000000/{TABLE}.json", data)
    with pytest.raises(CheckpointMismatch, match=rf"owners/0000000000/{TABLE}.json {said}"):
        asking(files, GAMES).claim([TABLE])
