"""What goes of a table behind a batch that is not decided yet is the same wherever its log was summed up."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples
from tests.ingest.merge.test_upsert import row
from tests.ingest.upkeep.kept_up import at_version, newest, upserted
from tests.ingest.upkeep.test_leftovers import MARK, bound

from distributary.ingest.storage.posix import temporary_files
from distributary.ingest.tables.handle import opened
from distributary.ingest.upkeep.compaction import compact
from distributary.ingest.upkeep.leftovers import delete, leftovers
from distributary.ingest.upkeep.undecided import Undecided, made_by

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
