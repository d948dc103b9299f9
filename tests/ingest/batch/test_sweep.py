from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from tests.ingest.asked import AskedFiles
from tests.ingest.foreign import foreign_entries
from tests.ingest.queries import GOLF, batches

from distributary.ingest.batch.sweep import sweep, sweep_drafts
from distributary.ingest.parquet.data_file import file_name, owner
from distributary.ingest.storage.posix import PosixFiles

GENERATION, OTHER = "a" * 32, "b" * 32


def left(folder: Path, generation: str, number: int) -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / file_name(generation, number)
    path.write_bytes(b"rows")
    return path


def below(root: Path, *files: Path) -> list[str]:
    return sorted(str(file.relative_to(root)) for file in files)


def test_of_the_numbers_asked_for_only_our_files_that_no_entry_names_go(tmp_path: Path) -> None:
    orphans = [
        left(tmp_path / "t", GENERATION, 3),
        left(tmp_path / "t", GENERATION, 4),
        left(tmp_path / "u", GENERATION, 3),
    ]
    named = left(tmp_path / "t", GENERATION, 3)
    kept = [
        named,
        *(left(tmp_path / "t", GENERATION, number) for number in (2, 5)),
        left(tmp_path / "t", OTHER, 3),
    ]
    named_otherwise = tmp_path / "t" / "part-0.parquet"
    named_otherwise.write_bytes(b"rows")
    assert sorted(sweep(tmp_path, GENERATION, [range(3, 5)], {named.name})) == below(tmp_path, *orphans)
    assert set(tmp_path.glob("*/*.parquet")) == {*kept, named_otherwise}


def test_a_table_whose_log_cannot_be_read_is_swept_like_others(tmp_path: Path) -> None:
    orphan = left(tmp_path / "t", GENERATION, 1)
    (tmp_path / "t" / "_delta_log").mkdir()
    (tmp_path / "t" / "_delta_log" / "00000000000000000000.json").write_text("{")
    assert sweep(tmp_path, GENERATION, [range(1, 2)], ()) == below(tmp_path, orphan)


def test_of_many_replays_what_one_committed_stays_though_another_one_is_called_alike(tmp_path: Path) -> None:
    """Names carry eight digits of an id: of a hundred thousand replays two share them."""
    batches(tmp_path, 1)
    (committed,) = (tmp_path / "lake" / GOLF).glob("*.parquet")
    mark, number = owner(committed.name) or ("", 0)
    orphan = left(committed.parent, mark + "0" * 24, number)
    (tmp_path / "lake" / "u").mkdir()
    other = left(tmp_path / "lake" / "u", mark + "0" * 24, number)
    every = {folder.name for folder in (tmp_path / "lake").iterdir() if folder.name[0] not in "._"}
    gone = sweep(tmp_path / "lake", mark + "0" * 24, [range(number, number + 1)], (), within=every, many=True)
    assert sorted(gone) == below(tmp_path / "lake", orphan, other)
    # Of what nobody can read nobody can tell.
    orphan = left(committed.parent, mark + "0" * 24, number)
    (committed.parent / "_delta_log" / f"{1:020}.json").write_text("{")
    assert sweep(tmp_path / "lake", mark + "0" * 24, [range(number, number + 1)], (), many=True) == []


def test_where_nothing_is_there_nothing_goes(tmp_path: Path) -> None:
    assert sweep(tmp_path / "new", GENERATION, [range(10)], ()) == []


def test_what_a_sweep_asks_for_does_not_grow_with_what_was_decided_before(tmp_path: Path) -> None:
    for number in range(100):
        left(tmp_path / "t", GENERATION, number)
    files = AskedFiles(tmp_path)
    assert len(sweep(files, GENERATION, [range(97, 98)], ())) == 1
    assert (files.infos, files.told) == (0, 2), "its own file, and the one behind it"


def test_entries_that_are_not_ours_keep_nothing_from_being_swept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    orphan = left(tmp_path / "t", GENERATION, 3)
    (tmp_path / "t" / "circle").symlink_to(tmp_path / "t" / "circle")
    foreign_entries(tmp_path, monkeypatch)
    assert sweep(tmp_path, GENERATION, [range(5)], ()) == [str(orphan.relative_to(tmp_path))]
    assert sweep_drafts(tmp_path) == 0
    assert "lost+found is not swept, since it may not be read" in caplog.text


class InHdfs(PosixFiles):
    """As far from here, where files are begun under other names, too."""

    remote = True


@pytest.mark.parametrize("place", [PosixFiles, InHdfs])
@pytest.mark.parametrize(
    "folders",
    [
        ("t", "t/_delta_log"),
        # Records of a stream, registers of files: they stayed for ever, and with them what was in them.
        (".distributary/kinesis/p/s/1/0", ".distributary/landed/p"),
    ],
)
def test_files_that_were_never_finished_go_when_they_are_old(
    tmp_path: Path, folders: tuple[str, ...], place: type[PosixFiles]
) -> None:
    for folder in map(tmp_path.joinpath, folders):
        folder.mkdir(parents=True)
        for name, age in (("a" * 32, 7200.0), ("b" * 32, 0.0)):
            draft = folder / f".{name}.tmp"
            draft.touch()
            os.utime(draft, (time.time() - age,) * 2)
    assert sweep_drafts(place(tmp_path)) == 2
    assert [path.name for path in tmp_path.rglob(".*.tmp")] == [f".{'b' * 32}.tmp"] * 2


def test_where_it_is_known_which_tables_may_have_any_no_other_folder_is_looked_at(tmp_path: Path) -> None:
    orphans = [left(tmp_path / table, GENERATION, 3) for table in ("t", "u")]
    found = sweep(tmp_path, GENERATION, [range(3, 4)], (), within={"t", "gone"})
    assert found == below(tmp_path, orphans[0])
    assert orphans[1].exists()
