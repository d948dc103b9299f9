from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.merge.test_upsert import row
from tests.ingest.merge.upserted import GENERATION, Upserted
from tests.ingest.upkeep.kept_up import DAY, at_version, merged, newest, upserted, values

from distributary.errors import CommitImpossible
from distributary.ingest.log_paths import entry_path
from distributary.ingest.merge import live_files, vectors
from distributary.ingest.merge.attempts import Attempts
from distributary.ingest.parquet.data_file import file_name, generation_mark, merged_name
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.storage.posix import PosixFiles, temporary_files
from distributary.ingest.tables.handle import opened, options
from distributary.ingest.tables.mending import mend
from distributary.ingest.upkeep.compaction import compact
from distributary.ingest.upkeep.leftovers import Bound, delete, leftovers
from distributary.ingest.upkeep.undecided import Undecided

MARK = generation_mark(GENERATION)
NOBODY = Undecided()


@pytest.fixture
def table(tmp_path: Path) -> Upserted:
    return upserted(files_at(tmp_path))


def now(place: Files) -> int:
    """When the newest version of a table came, by its place's clock."""
    info = place.info(entry_path(newest(place)))
    assert info is not None
    return info.modified


def bound(place: Files, days: float = 7.0, later: float = 0.0) -> Bound:
    """That of a table so many days after its newest version."""
    found = Bound.of(opened(place).metadata().configuration, days, now(place) + int(later * DAY))
    assert found is not None
    return found


def gone(place: Files, at: Bound, undecided: Undecided = NOBODY) -> set[str]:
    """The names of what is deleted."""
    found = leftovers(place, at, undecided)
    delete(place, found)
    return {info.name for info in found.files}


def needed(place: Files) -> set[str]:
    """What the newest version names."""
    found = set[str]()
    for name, add in live_files.read(place, newest(place)):
        found |= {name, vectors.file_of(add["deletionVector"]) or name} if "deletionVector" in add else {name}
    return found


def test_what_no_version_needs_for_a_week_goes_and_vectors_in_force_stay(root: Files) -> None:
    table = upserted(root)
    place = table.place
    assert gone(place, bound(place, later=6.9)) == set()
    before = set(place.names())
    assert any(name.startswith("deletion_vector") for name in needed(place))
    assert gone(place, bound(place, later=7.1)) == before - needed(place) != set()
    assert set(place.names()) == needed(place)
    assert values(table) == merged()
    compact(place)
    assert gone(place, bound(place, later=6.9)) == set()
    gone(place, bound(place, later=7.1))
    assert set(place.names()) == needed(place)
    assert len(needed(place)) == 1
    assert values(table) == merged()
    table.merge([row(0, 9, "later")])
    assert values(table) == {**merged(), 0: "later"}


def test_a_merge_that_knows_an_older_version_looks_anew_where_its_files_are_gone(
    table: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, actions, looks = table.place, Attempts.actions, list[int]()

    def late(self: Attempts, *given: Any) -> Any:
        looks.append(len(looks))
        if len(looks) == 1:
            compact(place)
            gone(place, bound(place, later=8), Undecided({MARK: table.batch - 1}))
        return actions(self, *given)

    monkeypatch.setattr(Attempts, "actions", late)
    table.merge([row(0, 9, "later"), row(99, 1, "new")])
    assert values(table) == {**merged(), 0: "later", 99: "new"}
    assert len(looks) == 2


def test_a_merge_of_which_a_file_is_lost_fails_at_once(table: Upserted) -> None:
    table.place.delete(needed(table.place))
    with pytest.raises(CommitImpossible, match="a file of it is gone"):
        table.merge([row(0, 9, "later")])


@pytest.mark.parametrize("summed_up", [False, True])
def test_what_a_batch_replaced_that_may_come_to_nothing_stays(table: Upserted, summed_up: bool) -> None:
    """The power took the files of its newest entry, which the next start undoes."""
    place, before, version = table.place, needed(table.place), newest(table.place)
    there = at_version(place, version)
    table.merge([row(key, 9, "z") for key in range(30)])
    if summed_up:
        opened(place).create_checkpoint()
    for name in needed(place) - before:
        place.put(name, b"")
    gone(place, bound(place, later=8), Undecided({MARK: table.batch - 1}))
    assert before <= set(place.names())
    assert mend(place, lambda _, number: number < table.batch) == [version + 1]
    assert at_version(place, newest(place)) == there


@pytest.mark.parametrize("summed_up", [False, True])
def test_what_went_before_such_a_batch_goes_whatever_the_log_sums_up(
    table: Upserted, summed_up: bool
) -> None:
    """Upkeep has the log get a checkpoint, and the newest batch is nearly always undecided then."""
    place, opening = table.place, table.place.below("_delta_log")
    before = set(place.names()) - needed(place)
    table.merge([row(key, 9, "z") for key in range(30)])
    if summed_up:
        opened(place).create_checkpoint()
        table.merge([row(7, 10, "y")])
    undecided = Undecided({MARK: table.batch - (2 if summed_up else 1)})
    there = {version: at_version(place, version) for version in range(3, newest(place) + 1)}
    if summed_up:
        # Nobody can tell the order of what the checkpoint alone remembers.
        entry = opening.read(f"{1:020d}.json")
        opening.delete([f"{1:020d}.json"])
        assert gone(place, bound(place, later=8), undecided) == set()
        opening.put(f"{1:020d}.json", entry)
    assert gone(place, bound(place, later=8), undecided) == before != set()
    assert {version: at_version(place, version) for version in there} == there


def test_of_a_table_that_pipelines_share_files_stay_that_nobody_tells_of(table: Upserted) -> None:
    """A pipeline that has had nothing but quarantine owns no table, and nobody finds its log."""
    place = table.place
    place.put(name := file_name("fedcba98" * 4, 7), b"rows")
    at = bound(place, later=8)
    found = leftovers(place, at, Undecided({MARK: table.batch}), is_shared=True)
    assert name not in {info.name for info in found.files}
    assert (found.held, found.why) == (1, "no table under the root tells whose they are")
    assert name in gone(place, at, Undecided({MARK: table.batch}))


def test_what_a_checkpoint_alone_tells_of_is_kept_as_long(table: Upserted) -> None:
    place = table.place
    compact(place)
    opened(place).create_checkpoint()
    place.delete(entry_path(version) for version in range(newest(place)))
    assert gone(place, bound(place, later=6.9)) == set()
    gone(place, bound(place, later=7.1))
    assert set(place.names()) == needed(place)


def test_a_table_may_ask_for_longer_and_for_no_less_than_is_wished(table: Upserted) -> None:
    place = table.place
    assert bound(place).since == now(place) - 7 * DAY
    opened(place).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 30 days"})
    at = bound(place, later=29.9)
    assert (at.since, gone(place, at)) == (at.now - 30 * DAY, set())
    opened(place).alter.set_table_properties({"delta.deletedFileRetentionDuration": "1 days"})
    at = bound(place)
    assert at.since == at.now - 7 * DAY
    # No time is one, too, and what is wished for counts.
    assert Bound.of({"delta.deletedFileRetentionDuration": "interval 0 hours"}, 7, 0) == Bound(0, -7 * DAY)
    assert Bound.of({"delta.deletedFileRetentionDuration": "for ever"}, 7, 0) is None


def test_entries_tell_what_a_checkpoint_has_forgotten(table: Upserted) -> None:
    place = table.place
    compact(place)
    opened(place).create_checkpoint()
    path = f"_delta_log/{newest(place):020d}.checkpoint.parquet"
    content = pq.read_table(pa.BufferReader(place.read(path)))
    kept, into = content.filter(pc.is_null(content["remove"])), pa.BufferOutputStream()
    assert kept.num_rows < content.num_rows
    pq.write_table(kept, into)
    place.put(path, into.getvalue())
    at = now(place)
    assert gone(place, Bound(at, at - DAY)) == set()
    assert gone(place, Bound(at + 2 * DAY, at + DAY)) != set()


def assert_all_versions_stay(place: Files, days: float) -> None:
    """For so long, and not for longer."""
    # Written long before they were taken away.
    for name in place.names():
        os.utime(Path(place.url) / name, (0, 0))
    there = {version: at_version(place, version) for version in range(1, newest(place) + 1)}
    assert gone(place, bound(place, later=days - 0.1)) == set()
    assert {version: at_version(place, version) for version in there} == there
    assert gone(place, bound(place, later=days + 0.1)) != set()


def test_a_table_that_asks_for_longer_by_now_keeps_what_checkpoints_have_forgotten(table: Upserted) -> None:
    place = table.place
    compact(place)
    opened(place).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 0 days"})
    opened(place).create_checkpoint()
    assert not list(
        live_files.in_checkpoint(place, live_files.checkpoint_of(place, newest(place))[1][0], "remove")
    )
    opened(place).alter.set_table_properties({"delta.deletedFileRetentionDuration": "interval 30 days"})
    assert_all_versions_stay(place, days=30)


@pytest.mark.parametrize("by_now", ["interval 1 hours", "interval 7 days"])
def test_a_table_that_asked_for_less_for_a_while_keeps_what_checkpoints_forgot_then(
    table: Upserted, by_now: str
) -> None:
    place = table.place
    compact(place)
    for asked in ("interval 0 days", by_now):
        opened(place).alter.set_table_properties({"delta.deletedFileRetentionDuration": asked})
        opened(place).create_checkpoint()
    assert_all_versions_stay(place, days=7)


def test_leftovers_of_killed_attempts_go_and_files_of_others_stay(table: Upserted) -> None:
    place = table.place
    ours = [
        file_name(GENERATION, 1),
        file_name(uuid.uuid4().hex, 40),
        merged_name(GENERATION, 2),
        vectors.vector_file(GENERATION, 2, []).name,
        f"part-00000-{uuid.uuid4()}-c000.zstd.parquet",
        f"part-00017-{uuid.uuid4()}.c000.snappy.parquet",
        f"deletion_vector_{uuid.uuid4()}.bin",
    ]
    sums = f".{ours[-2]}.crc"
    others = [
        "export.parquet",
        "notes.txt",
        "part-1.parquet",
        "deletion_vector_1.bin",
        ".hidden",
        "_SUCCESS",
        f"_{ours[0]}",
        f"{ours[0]}.copy",
        ".notes.txt.crc",
        f".{next(name for name in needed(place) if name.endswith('.parquet'))}.crc",
    ]
    below = ["_delta_log/x.parquet", f"_change_data/{ours[0]}", f"day=1/{ours[0]}", f".below/{ours[0]}"]
    for name in [*ours, sums, *others, *below]:
        place.put(name, b"x")
    unnamed = gone(place, bound(place, later=7.1))
    assert {*ours, sums} <= unnamed
    assert not unnamed & {*others, *below}
    assert all(place.info(name) is not None for name in [*others, *below])


def test_what_may_still_come_in_stays_however_old_it_is(table: Upserted) -> None:
    place = table.place
    late = [
        file_name(GENERATION, 8),
        merged_name(GENERATION, 8),
        vectors.vector_file(GENERATION, 8, []).name,
        file_name(GENERATION, 9),
    ]
    settled, unreached = file_name(GENERATION, 7), file_name("fedc" * 8, 0)
    for name in [*late, settled, unreached]:
        place.put(name, b"x")
    undecided = Undecided({MARK: 7}, {"fedcfedc": "nobody knows"})
    found = leftovers(place, bound(place, later=1000), undecided)
    names = {info.name for info in found.files}
    assert settled in names
    assert not names & {*late, unreached}
    assert (found.held, found.why) == (1, "nobody knows")


def test_what_no_version_named_stays_for_an_hour_whatever_is_wished(table: Upserted) -> None:
    place, name = table.place, f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
    place.put(name, b"x")
    unnamed = gone(place, bound(place, days=0, later=0.5 / 24))
    assert name not in unnamed
    # What versions before named has had its time.
    assert unnamed
    assert gone(place, bound(place, days=0, later=1.1 / 24)) == {name}
    assert values(table) == merged()


def test_a_file_from_when_a_clock_was_ahead_is_young(table: Upserted, tmp_path: Path) -> None:
    place, name = table.place, file_name(GENERATION, 1)
    place.put(name, b"x")
    os.utime(tmp_path / "players" / name, (2**33, 2**33))
    assert name not in gone(place, bound(place, later=100))


def test_what_comes_in_between_the_listing_and_the_look_at_the_log_stays(
    table: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, listed = table.place, PosixFiles.list

    def late(self: PosixFiles, folder: str = "", after: str = "") -> object:
        found = list(listed(self, folder, after))
        if self.url == place.url and not folder:
            compact(place)
        return iter(found)

    at = bound(place, later=7.1)
    with monkeypatch.context() as patch:
        patch.setattr(PosixFiles, "list", late)
        gone(place, at)
    assert needed(place) <= set(place.names())
    assert values(table) == merged()


def test_who_is_killed_amid_deleting_leaves_the_rest(
    table: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    place, deletes = table.place, PosixFiles.delete
    compact(place)
    found = leftovers(place, bound(place, later=7.1), NOBODY)
    monkeypatch.setattr("distributary.ingest.upkeep.leftovers._DELETED_AT_ONCE", 1)
    calls = list[object]()

    def killed(self: PosixFiles, paths: list[str]) -> None:
        calls.append(paths)
        if len(calls) > 2:
            raise KeyboardInterrupt
        deletes(self, paths)

    with monkeypatch.context() as patch:
        patch.setattr(PosixFiles, "delete", killed)
        with pytest.raises(KeyboardInterrupt):
            delete(place, found)
    assert values(table) == merged()
    assert len(gone(place, bound(place, later=7.1))) == len(found.files) - 2
    assert set(place.names()) == needed(place)


def test_nothing_is_deleted_where_a_disk_refuses_to_sync(
    table: Upserted, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = table.place
    compact(place)
    before = set(place.names())

    def refused(*_: object) -> None:
        raise OSError("it did not take it")

    monkeypatch.setattr(PosixFiles, "sync_folders", refused)
    with pytest.raises(OSError, match="did not take it"):
        gone(place, bound(place, later=7.1))
    assert set(place.names()) == before


STEPS = st.lists(
    st.one_of(
        st.just("compact"),
        st.just("checkpoint"),
        st.lists(st.integers(0, 12), min_size=1, max_size=8),
    ),
    min_size=1,
    max_size=7,
)


@given(STEPS, st.floats(0, 1))
def test_each_version_within_the_time_stays_readable_and_nothing_else_does(
    steps: list[str | list[int]], share: float
) -> None:
    with temporary_files("distributary-upkeep-") as root:
        table = upserted(root, keys=9)
        for number, step in enumerate(steps, 10):
            if isinstance(step, list):
                table.merge([row(key, number, str(number)) for key in set(step)], files=2)
            elif step == "compact":
                compact(table.place)
            else:
                opened(table.place).create_checkpoint()
        place = table.place
        last = newest(place)
        rows = [at_version(place, version) for version in range(1, last + 1)]
        entries = [place.info(entry_path(version)) for version in range(last + 1)]
        at = [info.modified for info in entries if info is not None]
        # Each entry's file is written some milliseconds after what its removes say.
        since = at[1 + int(share * (last - 1))]
        gone(place, Bound(since + DAY, since))
        first = max(version for version in range(1, last + 1) if at[version] <= since)
        assert [at_version(place, version) for version in range(first, last + 1)] == rows[first - 1 :]
        gone(place, Bound(at[last] + DAY, at[last] + DAY // 2))
        assert set(place.names()) == needed(place)
        assert at_version(place, last) == rows[-1]


def test_files_in_folders_of_partitions_are_listed_wherever_the_table_is(root: Files) -> None:
    place = root.below("parted")
    for number in range(2):
        rows = pa.table({"land": ["a/b=% ", "日本", None], "x": [number] * 3})
        write_deltalake(place.url, rows, mode="append", partition_by=["land"], storage_options=options(place))
    assert compact(place).compacted == 6
    found = leftovers(place, bound(place, later=8), NOBODY, partitions=["land"])
    assert len(found.files) == 6
    delete(place, found)
    assert not leftovers(place, bound(place, later=8), NOBODY, partitions=["land"]).files
    kept = opened(place).to_pyarrow_table().sort_by([("land", "ascending"), ("x", "ascending")])
    assert kept.to_pydict() == {"land": ["a/b=% "] * 2 + ["日本"] * 2 + [None] * 2, "x": [0, 1] * 3}


def test_a_folder_of_a_partition_goes_with_its_last_file_and_no_other_does(tmp_path: Path) -> None:
    root = tmp_path / "parted"
    rows = pa.table({"who": ["ann@x", "bob@x", "cy@x"], "n": [1, 2, 3], "x": [0] * 3})
    write_deltalake(root, rows, partition_by=["who", "n"])
    (root / "mine").mkdir()
    (root / "who=cy%40x" / "n=3" / "notes.txt").write_text("mine")
    DeltaTable(root).delete("n <> 2")
    place = files_at(root)
    young = leftovers(place, bound(place), NOBODY, partitions=["who", "n"])
    delete(place, young)
    assert len(list(root.glob("who=*/n=*/*.parquet"))) == 3
    delete(place, leftovers(place, bound(place, later=8), NOBODY, partitions=["who", "n"]))
    assert sorted(
        str(path.relative_to(root)) for path in root.rglob("*") if "_delta_log" not in path.parts
    ) == [
        "mine",
        "who=bob%40x",
        "who=bob%40x/n=2",
        next(str(path.relative_to(root)) for path in root.glob("who=bob*/n=2/*")),
        "who=cy%40x",
        "who=cy%40x/n=3",
        "who=cy%40x/n=3/notes.txt",
    ]
    # One that a clean-up before left empty goes, too.
    (root / "who=dee%40x" / "n=4").mkdir(parents=True)
    delete(place, leftovers(place, bound(place, later=8), NOBODY, partitions=["who", "n"]))
    assert not list(root.glob("who=dee*"))
