"""Versions that belong together, of tables that nobody can open or that only replays filled; tests/ingest/e2e/test_table_versions.py has the rest."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from deltalake import DeltaTable
from tests.ingest.batch.test_one_put_back import batch
from tests.ingest.batch.test_standing_still import goes_on, query
from tests.ingest.batch.test_unreadable import Harm, input_output_error, newer_protocol, other_things
from tests.ingest.pipelines import checkpoint, settings
from tests.ingest.queries import GOLF, QUEST
from tests.ingest.upkeep.kept_up import DAY

from distributary.errors import PipelineError
from distributary.ingest import table_versions
from distributary.ingest.checkpoint.generation import Start, World, app_of, born
from distributary.ingest.columns.safe_names import BATCHES_TABLE, CHANGES_TABLE, QUARANTINE_TABLE
from distributary.ingest.commit_log.entries import Owner
from distributary.ingest.commit_log.owners import Records
from distributary.ingest.derived.there import versions_now
from distributary.ingest.log_paths import entry_path
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.table_versions import _as_of, _Batch, versions_at
from distributary.ingest.tables.log import newest_version
from distributary.ingest.tables.transaction import ERASURE
from distributary.ingest.upkeep.maintain import maintain


def garbled_end(table: Path) -> Callable[[], object]:
    """Its newest entry is none any more."""
    newest = max((table / "_delta_log").glob("*.json"))
    before = newest.read_bytes()
    newest.write_text("at work")
    return lambda: newest.write_bytes(before)


@pytest.mark.parametrize("harm", [input_output_error, garbled_end])
def test_a_table_that_nobody_can_open_is_named_and_the_others_are_answered(
    tmp_path: Path, harm: Harm
) -> None:
    run = goes_on(query(tmp_path))
    batch(run)
    whole = versions_at(settings(tmp_path))
    put_right = harm(tmp_path / "lake" / GOLF)
    found = versions_at(settings(tmp_path))
    assert list(found.unreadable) == [GOLF]
    assert found.tables == tuple(one for one in whole.tables if one.table != GOLF)
    assert found[QUEST] == whole[QUEST]
    with pytest.raises(PipelineError, match=f"batch {found.batch} of table {GOLF} .*restore it from a copy"):
        found[GOLF]
    with pytest.raises(PipelineError, match=f"table {GOLF} "):
        versions_now(files_at(tmp_path / "lake"), found)
    put_right()
    assert versions_at(settings(tmp_path)) == whole


def test_before_the_first_batch_is_said_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match=r"no batch that is whole of pipeline games\. Run it first: "):
        versions_at(settings(tmp_path))
    batch(goes_on(query(tmp_path)))
    number = versions_at(settings(tmp_path)).batch
    with pytest.raises(
        PipelineError, match=rf"the oldest one that its log tells of is {number}\. Look into its rows"
    ):
        versions_at(settings(tmp_path), number + 70)


def test_a_pipeline_that_got_another_name_and_has_not_run_since_is_answered(tmp_path: Path) -> None:
    batch(goes_on(query(tmp_path)))
    whole, renamed = versions_at(settings(tmp_path)), settings(tmp_path).model_copy(update={"name": "plays"})
    assert versions_at(renamed).tables == whole.tables


@pytest.mark.parametrize("harm", [other_things, newer_protocol])
def test_a_version_from_before_a_table_was_harmed_is_answered(tmp_path: Path, harm: Harm) -> None:
    batch(goes_on(query(tmp_path)))
    whole = versions_at(settings(tmp_path))
    harm(tmp_path / "lake" / GOLF)
    assert versions_at(settings(tmp_path)) == whole


@pytest.mark.parametrize("harm", [input_output_error, garbled_end])
def test_a_ledger_that_nobody_can_open_is_named_with_what_to_do(tmp_path: Path, harm: Harm) -> None:
    batch(goes_on(query(tmp_path)))
    put_right = harm(tmp_path / "lake" / BATCHES_TABLE)
    with pytest.raises(PipelineError, match=f"{BATCHES_TABLE} cannot be read .*restore it from a copy"):
        versions_at(settings(tmp_path))
    put_right()


@pytest.mark.parametrize("back", [0, 1])
def test_a_table_that_had_no_row_for_long_can_be_read_behind_its_upkeep(tmp_path: Path, back: int) -> None:
    """Its own commits name files that are gone by then, and its log may tell of them for ever."""
    run = goes_on(query(tmp_path))
    for entities in ("golf", "golf", "both", "quest", "quest"):
        batch(run, entities)
    before = versions_at(settings(tmp_path), run.log.so_far.last)
    rows = DeltaTable(before[GOLF].url).to_pyarrow_table().num_rows
    now = int(time.time() * 1000)
    maintain(settings(tmp_path), clock=lambda _: now + 8 * DAY)
    maintain(settings(tmp_path), clock=lambda _: now + 16 * DAY)
    found = versions_at(settings(tmp_path), before.batch - back)
    with pytest.raises(FileNotFoundError):
        DeltaTable(before[GOLF].url, 3).to_pyarrow_table()
    assert DeltaTable(found[GOLF].url, found[GOLF].version).to_pyarrow_table().num_rows == rows


def version_of(root: Path, commits: list[tuple[str, int]], at: _Batch) -> int | None:
    """The version as of a batch of a table that these commits filled, by their applications and numbers."""
    place = files_at(root).below(GOLF)
    place.put(entry_path(0), b'{"commitInfo": {}}')
    for version, (role, number) in enumerate(commits, 1):
        told = json.dumps({"txn": {"appId": f"g/{role}", "version": number}}).encode() if role else lays()
        place.put(entry_path(version), lays("a") if role == "OPTIMIZE" else told)
    found = _as_of(files_at(root), at, {}, GOLF)
    return None if found is None else found.version


@pytest.mark.parametrize(
    ("commits", "wanted", "before"),
    [
        ([("events", 3), ("replay", 1000)], 2, 1),
        ([("events", 3), ("reset", 999), ("replay", 1000), ("", 0)], 3, 1),
        ([("events", 3), ("replay", 1000), ("events", 5), ("replay", 1001)], 2, 1),
        ([("events", 3), ("replay", 1000), ("OPTIMIZE", 0)], 3, 1),
        ([("events", 3), ("", 0)], 1, 1),
    ],
)
def test_as_of_the_newest_batch_a_table_has_what_replays_and_a_reset_made_of_it_since(
    tmp_path: Path, commits: list[tuple[str, int]], wanted: int, before: int
) -> None:
    """What it had before that upkeep deletes; as of an older one it is what it was by then."""
    assert version_of(tmp_path, commits, _Batch("g", 3, is_newest=True)) == wanted
    assert version_of(tmp_path, commits, _Batch("g", 3)) == before


@pytest.mark.parametrize(
    ("commits", "wanted"),
    [
        ([], None),
        ([("replay", 1000)], 1),
        ([("replay", 1000), ("events", 5)], 1),
        ([("events", 5), ("replay", 1000)], None),
        ([("events", 3), ("replay", 1000), ("events", 5)], 1),
    ],
)
def test_a_table_that_replays_alone_had_filled_by_then_has_a_version(
    tmp_path: Path, commits: list[tuple[str, int]], wanted: int | None
) -> None:
    assert version_of(tmp_path, commits, _Batch("g", 3)) == wanted


def lays(*files: str, rows_change: bool = False, **told: str) -> bytes:
    """An entry that brings these files."""
    actions = [{"commitInfo": told}, *({"add": {"path": one, "dataChange": rows_change}} for one in files)]
    return "\n".join(map(json.dumps, actions)).encode()


@pytest.mark.parametrize("is_newest", [True, False])
@pytest.mark.parametrize(
    ("behind", "wanted"),
    [
        ([lays("a")], 2),
        ([lays(), lays("a"), lays()], 3),
        ([lays("a", rows_change=True, **{ERASURE: "x"}), lays("b")], 3),
        ([lays("a", rows_change=True, **{ERASURE: "x"})], 2),
        ([lays("a"), lays("b", rows_change=True), lays("c")], 2),
        ([lays("a", rows_change=True), lays("b")], 1),
        ([lays("a", rows_change=True), lays("b", rows_change=True, **{ERASURE: "x"}), lays("c")], 4),
    ],
)
def test_of_versions_with_the_same_rows_the_newest_is_given(
    tmp_path: Path, behind: list[bytes], wanted: int, is_newest: bool
) -> None:
    """Without those that were erased, and before what others changed."""
    place = files_at(tmp_path).below(GOLF)
    batch_of_3 = json.dumps({"txn": {"appId": "g/events", "version": 3}}).encode()
    for version, content in enumerate([lays(), batch_of_3, *behind]):
        place.put(entry_path(version), content)
    found = _as_of(files_at(tmp_path), _Batch("g", 3, is_newest), {}, GOLF)
    assert found is not None
    assert found.version == wanted


def test_of_a_table_that_pipelines_share_upkeep_lets_go_what_is_old(tmp_path: Path) -> None:
    """Behind what others have brought, too: its own version names files that go with the old rows."""
    place = files_at(tmp_path).below(QUARANTINE_TABLE)
    mine, others = (json.dumps({"txn": {"appId": app_of(of, QUARANTINE_TABLE), "version": 3}}) for of in "gh")
    behind = (others.encode(), lays("a", rows_change=True), others.encode())
    for version, content in enumerate([lays(), mine.encode(), *behind]):
        place.put(entry_path(version), content)
        found = _as_of(files_at(tmp_path), _Batch("g", 3), {}, QUARANTINE_TABLE)
        assert (found is None or found.version) == {0: True, 1: 1, 2: 1, 3: 3, 4: 3}[version]


@pytest.mark.parametrize("table", [QUARANTINE_TABLE, CHANGES_TABLE, BATCHES_TABLE])
def test_a_table_that_pipelines_share_is_never_given_with_rows_of_a_later_batch(
    tmp_path: Path, table: str
) -> None:
    place = files_at(tmp_path).below(table)
    of = {n: json.dumps({"txn": {"appId": app_of("g", table), "version": n}}).encode() for n in (3, 5)}
    for version, content in enumerate(
        [lays(), of[3], lays("a"), of[5], lays("b"), lays("c", rows_change=True)]
    ):
        place.put(entry_path(version), content)
    found = [_as_of(files_at(tmp_path), _Batch("g", number), {}, table) for number in (3, 5)]
    assert [one and one.version for one in found] == [2, 5]


def told_of(app: str, number: int) -> bytes:
    return json.dumps({"txn": {"appId": app, "version": number}}).encode()


def filled(root: Path, table: str, *entries: bytes, owners: tuple[str, ...] = ()) -> None:
    """A table whose log has these entries, and which these owners had one after the other."""
    place = files_at(root).below(table)
    for version, content in enumerate([lays(), *entries]):
        place.put(entry_path(version), content)
    for number, owner in enumerate(owners):
        Records(files_at(root)).put(table, number, Owner("games", "/log", owner))


@pytest.mark.parametrize("upkeep", [[], [lays("b")]])
def test_as_of_a_batch_of_a_checkpoint_before_nothing_has_rows_of_a_later_one(
    tmp_path: Path, upkeep: list[bytes]
) -> None:
    """As where everything was read once more into tables of other names, and those of before were left where they are."""
    root = tmp_path / "lake"
    filled(root, GOLF, told_of("before/events", 40), told_of("before/events", 41), owners=("before",))
    filled(root, QUEST, told_of("now/events", 0), *upkeep, owners=("now",))
    for table in (QUARANTINE_TABLE, BATCHES_TABLE):
        apps = [(app_of("before", table), 41), (app_of("now", table), 0)]
        filled(root, table, *(told_of(*one) for one in apps), *upkeep)
    found = versions_at(settings(tmp_path), 41)
    assert found.generation == "before"
    assert {one.table: one.version for one in found.tables} == {
        GOLF: 2,
        QUARANTINE_TABLE: 1,
        BATCHES_TABLE: 1,
    }
    now = versions_at(settings(tmp_path))
    assert (now.generation, now.batch) == ("now", 0)
    newest = 2 + len(upkeep)
    assert {one.table: one.version for one in now.tables} == {
        GOLF: 2,
        QUEST: newest - 1,
        QUARANTINE_TABLE: newest,
        BATCHES_TABLE: newest,
    }


def test_nor_rows_of_one_whose_tables_the_newest_took_over(tmp_path: Path) -> None:
    """As by `from_tables`, after everything was read once more into tables of other names: it owns none any more."""
    root = tmp_path / "lake"
    filled(root, GOLF, told_of("before/events", 41), owners=("before",))
    filled(root, QUEST, told_of("between/events", 7), told_of("now/events", 0), owners=("between", "now"))
    for table in (QUARANTINE_TABLE, BATCHES_TABLE):
        apps = [("before", 40), ("before", 41), ("between", 7), ("now", 0)]
        filled(root, table, *(told_of(app_of(of, table), number) for of, number in apps))
    found = versions_at(settings(tmp_path), 40)
    assert {one.table: one.version for one in found.tables} == {QUARANTINE_TABLE: 1, BATCHES_TABLE: 1}
    found = versions_at(settings(tmp_path), 41)
    assert {one.table: one.version for one in found.tables} == {
        GOLF: 1,
        QUARANTINE_TABLE: 2,
        BATCHES_TABLE: 2,
    }


def test_where_the_ledgers_log_is_summed_up_the_checkpoint_says_which_batches_are_meant(
    tmp_path: Path,
) -> None:
    """Beside tables of one before, which had come to a greater number."""
    batch(goes_on(query(tmp_path)))
    wanted = versions_at(settings(tmp_path))
    ledger = files_at(tmp_path / "lake").below(BATCHES_TABLE)
    Records(files_at(tmp_path / "lake")).put("before", 0, Owner("games", "/log", "before"))
    newest = newest_version(ledger)
    assert newest is not None
    ledger.put(entry_path(newest + 1), told_of(app_of("before", BATCHES_TABLE), wanted.batch + 500))
    ledger.put(entry_path(newest + 2), lays())
    DeltaTable(ledger.url).create_checkpoint()
    ledger.delete(entry_path(version) for version in range(newest + 2))
    found = versions_at(settings(tmp_path))
    assert (found.generation, found.batch) == (wanted.generation, wanted.batch)


def test_of_one_that_took_tables_over_and_has_no_whole_batch_the_last_one_before_is_given(
    tmp_path: Path,
) -> None:
    """No record may come for long; and amid its first batch nothing of that is given."""
    batch(goes_on(query(tmp_path)))
    before = versions_at(settings(tmp_path))
    anew = settings(tmp_path).model_copy(update={"checkpoint": settings(tmp_path / "anew").checkpoint})
    own = born(checkpoint(tmp_path / "anew"), "games", World("", {}, {}), Start("from_tables"))
    root = files_at(tmp_path / "lake")
    with pytest.raises(PipelineError, match="no batch that is whole"):
        versions_at(anew.model_copy(update={"name": "others"}))
    for table in Records(root).all():
        Records(root).put(table, 1, Owner("games", "/log", own.id))
    assert versions_at(anew) == versions_at(anew, before.batch) == before
    with pytest.raises(PipelineError, match=f"the oldest one that its log tells of is {before.batch}"):
        versions_at(anew, before.batch + 70)
    # Its first batch is in one table, and then in all.
    for table in (GOLF, QUARANTINE_TABLE):
        version = newest_version(root.below(table))
        assert version is not None
        root.below(table).put(entry_path(version + 1), told_of(app_of(own.id, table), 0))
        root.below(table).put(entry_path(version + 2), lays())
        assert versions_at(anew) == before
    assert versions_now(root, before, own.id)[GOLF] == before[GOLF].version
    newest = newest_version(root.below(BATCHES_TABLE))
    assert newest is not None
    root.below(BATCHES_TABLE).put(entry_path(newest + 1), told_of(app_of(own.id, BATCHES_TABLE), 0))
    now = versions_at(anew)
    assert (now.generation, now.batch, now[GOLF].batch, now[QUEST].batch) == (own.id, 0, 0, None)
    assert now[QUEST].version == before[QUEST].version


def test_of_a_pipeline_that_stands_still_what_others_commit_is_not_all_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of two days there are tens of thousands of entries, each of which a store is asked for; and so with each turn of derived tables."""
    batch(goes_on(query(tmp_path)))
    before, root = versions_at(settings(tmp_path)), files_at(tmp_path / "lake")
    shared, read = (QUARANTINE_TABLE, CHANGES_TABLE, BATCHES_TABLE), Counter[str]()
    newest = {table: (newest_version(root.below(table)) or 0) + 200 for table in shared}
    for table, last in newest.items():
        for number in range(200):
            entry = b"\n".join((lays(), told_of(app_of("others", table), number)))
            root.below(table).put(entry_path(last - 199 + number), entry)
    content = table_versions._content

    def counted(place: Files, version: int) -> bytes:
        read[place.url] += 1
        return content(place, version)

    monkeypatch.setattr(table_versions, "_content", counted)
    found = versions_at(settings(tmp_path))
    assert max(read.values()) <= 100
    assert (found.generation, found.batch) == (before.generation, before.batch)
    assert [found[GOLF], found[QUEST]] == [before[GOLF], before[QUEST]]
    # Which of them had anything of its own.
    assert {one.table: one.version for one in found.tables if one.table in newest} == {
        one.table: newest[one.table] for one in before.tables if one.table in newest
    }
    # As of a batch behind which there are others of its own they are looked for all the same.
    for table in shared:
        app = told_of(app_of(before.generation, table), before.batch + 1)
        root.below(table).put(entry_path(newest[table] + 1), app)
    earlier = versions_at(settings(tmp_path), before.batch)
    assert {one.table: one.version for one in earlier.tables} == {
        one.table: one.version for one in before.tables
    }


def test_nor_rows_of_one_between_that_never_had_a_whole_batch(tmp_path: Path) -> None:
    """As of a checkpoint that was lost amid its first batch, as the one before it: of that some tables have rows, and others none."""
    own = born(checkpoint(tmp_path), "games", World("", {}, {}), Start("from_tables")).id
    # The one before had another name meanwhile.
    root, all_of_them = tmp_path / "lake", ("first", "before", "before", "between", own)
    filled(root, GOLF, told_of("before/events", 41), told_of("between/events", 0), owners=all_of_them)
    filled(root, QUEST, told_of("first/events", 7), owners=all_of_them)
    filled(root, BATCHES_TABLE, *(told_of(app_of(of, BATCHES_TABLE), 41) for of in ("first", "before")))
    found = versions_at(settings(tmp_path))
    assert (found.generation, found.batch, found[GOLF].version, found[QUEST].version) == ("before", 41, 1, 1)
    assert versions_now(files_at(root), found, own)[GOLF] == 1


def test_a_shared_table_has_nothing_of_a_reset_that_the_others_do_not_have(tmp_path: Path) -> None:
    """As of an older batch, and amid a reset, the records that it refuses are in the others still; whatever more pipelines commit."""
    run, root = goes_on(query(tmp_path)), files_at(tmp_path / "lake")
    for _ in range(3):
        batch(run)
    before = versions_at(settings(tmp_path))
    own = {one.table: one for one in before.tables}[CHANGES_TABLE]
    apps = [f"{before.generation}/reset", *(app_of("others", CHANGES_TABLE) for _ in range(60))]
    for version, app in enumerate(apps, own.version + 1):
        root.below(CHANGES_TABLE).put(entry_path(version), told_of(app, version))
    for number, wanted in ((before.batch - 1, own.version), (before.batch, own.version + len(apps))):
        found = {one.table: one.version for one in versions_at(settings(tmp_path), number).tables}
        assert found[CHANGES_TABLE] == wanted


def test_what_was_taken_over_comes_before_tables_that_were_left_where_they_are(tmp_path: Path) -> None:
    """Of these the batches are older, and the shared tables would be given as of them."""
    own = born(checkpoint(tmp_path), "games", World("", {}, {}), Start("from_tables")).id
    root = tmp_path / "lake"
    filled(root, GOLF, told_of("left/events", 41), owners=("left",))
    filled(root, QUEST, told_of("before/events", 7), owners=("before", own))
    for table in (QUARANTINE_TABLE, BATCHES_TABLE):
        filled(root, table, *(told_of(app_of(of, table), 41) for of in ("left", "before")))
    found = versions_at(settings(tmp_path))
    assert (found.generation, {one.table: one.version for one in found.tables}) == (
        "before",
        {GOLF: 1, QUEST: 1, QUARANTINE_TABLE: 2, BATCHES_TABLE: 2},
    )
