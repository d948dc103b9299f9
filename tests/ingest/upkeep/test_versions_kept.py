"""What goes of a table behind a batch that is not decided yet is the same wherever its log was summed up."""

from __future__ import annotations

import time
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.ingest.merge.test_upsert import row
from tests.ingest.merge.upserted import cleaned_up
from tests.ingest.upkeep.kept_up import DAY, at_version, merged, newest, upserted, values
from tests.ingest.upkeep.test_leftovers import MARK, bound

from distributary.ingest.merge import live_files
from distributary.ingest.merge.entry import removal
from distributary.ingest.merge.live_files import Action
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.storage.posix import temporary_files
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import put_entry
from distributary.ingest.upkeep import versions_kept
from distributary.ingest.upkeep.compaction import compact
from distributary.ingest.upkeep.leftovers import Bound, delete, leftovers
from distributary.ingest.upkeep.undecided import Undecided, made_by
from distributary.ingest.upkeep.versions_kept import TakenAway

STEPS = st.lists(
    st.sampled_from(["compact", "sum up"]) | st.lists(st.integers(0, 8), min_size=1, max_size=4),
    min_size=2,
    max_size=8,
)

Kind = tuple[str, int] | None


def gone(steps: list[str | list[int]], undecided: int, *, sums: bool) -> Counter[tuple[Kind, str]]:
    """What goes eight days later, by the batches that made it, where so many of the newest are undecided; every version since the one before is whole."""
    with temporary_files("distributary-upkeep-") as root:
        table = upserted(root, keys=9)
        versions = [newest(table.place)]
        for number, step in enumerate(steps, 10):
            if isinstance(step, list):
                versions.append(newest(table.place))
                table.merge([row(key, number, str(number)) for key in set(step)], files=2)
            elif step == "compact":
                compact(table.place)
            elif sums:
                opened(table.place).create_checkpoint()
        place = table.place
        since = versions[-undecided] if undecided < len(versions) else versions[0]
        there = {version: at_version(place, version) for version in range(since, newest(place) + 1)}
        found = leftovers(place, bound(place, later=8), Undecided({MARK: table.batch - undecided}))
        delete(place, found)
        assert {version: at_version(place, version) for version in there} == there
        return Counter((made_by(info.name), info.name.rpartition(".")[2]) for info in found.files)


@given(STEPS, st.integers(1, 3))
@settings(max_examples=examples(15), deadline=None)
def test_where_a_log_is_summed_up_keeps_nothing_from_going_and_takes_nothing_that_may_be_in_force_again(
    steps: list[str | list[int]], undecided: int
) -> None:
    assert gone(steps, undecided, sums=True) == gone(steps, undecided, sums=False)


def test_what_was_taken_away_is_known_from_one_upkeep_to_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that entries are read once, and a checkpoint may forget what others, who call their files as they like, had named."""
    table, reads, read = upserted(files_at(tmp_path)), list[str](), versions_kept._taken_away

    def counted(place: Files, path: str) -> list[Action]:
        reads.append(path)
        return read(place, path)

    monkeypatch.setattr(versions_kept, "_taken_away", counted)
    place, theirs = table.place, "export.parquet"
    ((name, add), *_) = live_files.read(place, newest(place))
    place.put(theirs, place.read(name))
    now = int(time.time() * 1000)
    put_entry(place, newest(place) + 1, [{"remove": removal(add, now)}, {"add": {**add, "path": theirs}}])
    compact(place)
    opened(place).create_checkpoint()

    def kept_up(taken: TakenAway, days: float) -> TakenAway:
        at = Bound(now + int(days * DAY), now + int((days - 7) * DAY))
        delete(place, leftovers(place, at, Undecided(), taken=taken))
        return TakenAway.told(taken.content())

    taken = kept_up(TakenAway(), 1)
    assert len(reads) == newest(place) + 1
    taken = kept_up(taken, 2)
    assert len(reads) == newest(place) + 1
    assert place.info(theirs) is not None
    opened(place).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 seconds"})
    cleaned_up(table)
    kept_up(TakenAway(), 7.1)
    assert place.info(theirs) is not None
    assert not kept_up(taken, 7.1).at.keys() & {name for name, _ in live_files.read(place, newest(place))}
    assert place.info(theirs) is None
    assert values(table) == merged()


def test_a_table_that_was_made_anew_is_read_from_its_beginning(tmp_path: Path) -> None:
    table = upserted(files_at(tmp_path))
    opened(table.place).create_checkpoint()
    taken, now = TakenAway(), int(time.time() * 1000)
    leftovers(table.place, Bound(now, now - DAY), Undecided(), taken=taken)
    assert taken.through == newest(table.place)
    again = TakenAway(taken.through, "another", {"gone.parquet": now}, taken.since)
    leftovers(table.place, Bound(now, now - DAY), Undecided(), taken=again)
    assert (again.tag, again.at) == (taken.tag, taken.at)
    assert TakenAway.told(b"{") == TakenAway()
