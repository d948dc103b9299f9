from __future__ import annotations

from distributary.ingest.upkeep.compaction import Size
from distributary.ingest.upkeep.maintain import TableUpkeep, Upkeep
from distributary.views.maintain import lines

DONE = TableUpkeep("chess", Size(1200, 5 * 2**20), Size(1, 3 * 2**20), 1200, 1, Size(1, 1536))
SAME = TableUpkeep("go", Size(1, 100), Size(1, 100))
LEFT = TableUpkeep("golf", Size(2, 0), Size(2, 0), left=("not compacted: a\nreason\x1b[0m",))
FAILED = TableUpkeep("quest", failed="the store refused")


def told(*tables: TableUpkeep, dry_run: bool = False) -> list[str]:
    return list(lines(Upkeep("games", dry_run, 7.0, tables)))


def test_a_line_tells_files_before_and_after_and_the_last_one_the_sums() -> None:
    assert told(DONE, SAME) == [
        "chess: 1,200 files (5.0 MiB) before, 1 file (3.0 MiB) now; 1,200 files compacted into 1; 1 file (1.5 KiB) deleted",
        "go: 1 file (100 B); nothing to do",
        "games: 1,200 files compacted into 1, 1 file (1.5 KiB) deleted in 2 tables",
    ]


def test_what_was_left_or_failed_has_a_line_of_its_own_that_steers_no_terminal() -> None:
    assert told(LEFT, FAILED) == [
        "golf: 2 files (0 B); nothing done",
        "golf: not compacted: a reason\N{REPLACEMENT CHARACTER}[0m",
        "quest: failed: the store refused",
        "games: 0 files compacted into 0, 0 files (0 B) deleted in 2 tables",
    ]


def test_a_dry_run_tells_what_would_be() -> None:
    one = TableUpkeep("chess", Size(3, 2**41), Size(3, 2**41), 3, 1, Size(2, 2**31))
    assert told(one, dry_run=True) == [
        "chess: 3 files (2.0 TiB); 3 files would be compacted into 1; 2 files (2.0 GiB) would be deleted",
        "games: 3 files would be compacted into 1, 2 files (2.0 GiB) would be deleted in 1 table",
    ]
