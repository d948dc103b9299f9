"""What every implementation of the seam promises, asked of real stores: a folder, S3, Azure, HDFS."""

from __future__ import annotations

import gc
import pickle
import uuid
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.contest import contest
from tests.ingest.storage import racer
from tests.ingest.storage.relay import Loss
from tests.ingest.storage.stores import Store

from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.probe import require_put_if_absent

# Names that a store, a URL or a signature could spell otherwise.
NAMES = (
    "plain",
    "with a space",
    "100%",
    "%41",
    "a+b",
    "ünï-日本-🦊",
    "e\u0301",
    "quote's [x]{y}~^|!$&(),;=@",
    "hash#and?question",
    "UPPER",
    "upper",
    ".hidden",
    "x" * 255,
)


def names(files: Files, folder: str = "", after: str = "") -> list[str]:
    told = list(files.names(folder, after))
    assert [info.name for info in files.list(folder, after)] == told
    assert files.has_files(folder) == bool(told if not after else list(files.names(folder)))
    return told


def own(text: str = "") -> bytes:
    return f"{text} {uuid.uuid4().hex}".encode()


def test_what_was_put_is_read_and_put_again_takes_its_place(files: Files) -> None:
    files.put("folder/file", b"one")
    assert files.read("folder/file") == b"one"
    files.put("folder/file", b"two, longer")
    assert files.read("folder/file") == b"two, longer"
    files.put("folder/nothing", b"")
    assert files.read("folder/nothing") == b""


@pytest.mark.parametrize(
    ("content", "first", "last"),
    [(b"PAR1 and PAR2", b"PAR1", b"PAR2"), (b"PAR1", b"PAR1", b"PAR1"), (b"P", b"P", b"P"), (b"", b"", b"")],
)
def test_both_ends_of_a_file_can_be_read(files: Files, content: bytes, first: bytes, last: bytes) -> None:
    files.put("a", content)
    assert files.ends("a", 4) == (first, last)
    with pytest.raises(FileNotFoundError):
        files.ends("b", 4)


def test_arrow_reads_parts_of_a_file(files: Files) -> None:
    rows = pa.table({"a": range(1000), "b": [f"{number}" * 500 for number in range(1000)]})
    # Some 1.4 MB: smaller ones come whole from a store.
    pq.write_table(rows, written := pa.BufferOutputStream(), row_group_size=100, compression="none")
    files.put("a.parquet", written.getvalue())
    size = written.getvalue().size
    for eager in (False, True):
        opened = pq.ParquetFile(files.reader("a.parquet", size), pre_buffer=eager)
        assert opened.read_row_group(3, columns=["b"]).equals(rows.select(["b"]).slice(300, 100))
    with pytest.raises(FileNotFoundError):
        pq.ParquetFile(files.reader("b.parquet", size))


@pytest.mark.parametrize("view", [bytes, bytearray, memoryview, pa.py_buffer])
def test_any_buffer_can_be_put(files: Files, view: type) -> None:
    files.put("put", view(b"some bytes"))
    assert files.put_new("new", view(b"some bytes"))
    with files.writer("written") as file:
        assert file.write(view(b"some bytes")) == 10
    assert {files.read(path) for path in ("put", "new", "written")} == {b"some bytes"}


def test_the_first_to_put_a_new_file_wins_and_it_stays_his(files: Files) -> None:
    one, two = own(), own()
    assert files.put_new("log/1.json", one)
    assert not files.put_new("log/1.json", two)
    assert files.read("log/1.json") == one


def test_who_asks_again_whether_he_was_first_is_told_so(files: Files) -> None:
    one = own()
    assert files.put_new("log/1.json", one)
    assert files.put_new("log/1.json", one)
    assert not files.put_new("log/1.json", one + b" and more")


def test_one_that_need_not_last_through_a_loss_of_power_is_as_exclusive(files: Files) -> None:
    files.put("log/0.json", b"")
    one = own()
    assert files.put_new("log/1.json", one, durable=False)
    assert not files.put_new("log/1.json", own(), durable=False)
    assert files.read("log/1.json") == one


def test_of_eighteen_writers_in_three_processes_exactly_one_wins_each_name(
    store: Store, files: Files
) -> None:
    race_for(files, store.names_raced)


def race_for(files: Files, number: int) -> None:
    wanted = [f"race/{name:04d}" for name in range(number)]
    won = contest(racer.race, [(files, f"racer{racing}", wanted, 6) for racing in range(3)])
    assert sorted(name for name, _ in won) == wanted
    assert all(files.read(name) == racer.body(writer) for name, writer in won)
    assert names(files, "race") == [name.removeprefix("race/") for name in wanted], (
        "and nothing else is there"
    )


@pytest.mark.parametrize("how", ["cut", "500", "503"])
@pytest.mark.parametrize("times", [1, 2])
def test_a_lost_answer_is_no_rival(store: Store, how: Loss, times: int) -> None:
    if not store.port:
        pytest.skip("its answers are not HTTP's")
    with store.relayed() as (relay, files):
        one = own()
        relay.lose(*[how] * times)
        assert files.put_new("log/1.json", one)
        assert not relay.losses
        assert files.read("log/1.json") == one
        assert not files.put_new("log/1.json", own())


@pytest.mark.parametrize("how", ["cut", "500", "503"])
def test_a_rival_is_one_even_where_the_answer_about_him_is_lost(store: Store, how: Loss) -> None:
    if not store.port:
        pytest.skip("its answers are not HTTP's")
    with store.relayed() as (relay, files):
        rival = own("rival")
        relay.before = lambda: files.put("log/1.json", rival)
        relay.lose(how)
        assert not files.put_new("log/1.json", own())
        assert files.read("log/1.json") == rival


def test_a_conflict_over_nothing_is_tried_again(store: Store) -> None:
    if not store.port:
        pytest.skip("its answers are not HTTP's")
    with store.relayed() as (relay, files):
        one = own()
        relay.conflicts = 3
        assert files.put_new("log/1.json", one)
        assert files.read("log/1.json") == one
        relay.conflicts = 100
        with pytest.raises(FileExistsError):
            files.put_new("log/2.json", own())
        assert files.info("log/2.json") is None


def test_what_is_not_there_is_said_so(files: Files) -> None:
    files.put("folder/file", b"")
    for path in ("nothing", "folder/nothing", "folder", "folder/file/below"):
        with pytest.raises(OSError, match=r"nothing|folder"):
            files.read(path)
        assert files.info(path) is None
    with pytest.raises(FileNotFoundError):
        files.read("folder/nothing")
    assert names(files, "nothing") == names(files, "folder/file") == []
    assert list(files.folders("nothing")) == list(files.folders("folder/file")) == []


def test_what_is_told_of_a_file_changes_with_it(files: Files) -> None:
    files.put("file", b"12345")
    one = files.info("file")
    assert one is not None
    assert (one.path, one.name, one.size) == ("file", "file", 5)
    assert files.info("file") == one
    listed = next(files.list())
    assert (listed.path, listed.size, listed.tag) == (one.path, one.size, one.tag)
    assert listed.modified // 1000 == one.modified // 1000
    files.put("file", b"123456")
    two = files.info("file")
    assert two is not None
    assert two.tag != one.tag
    assert two.modified >= one.modified > 1_700_000_000_000


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_stays_what_it_is(files: Files, name: str) -> None:
    path = f"folder/{name}"
    files.put(path, b"1")
    assert files.read(path) == b"1"
    assert names(files, "folder") == [name]
    info = files.info(path)
    assert info is not None and info.path == path
    files.delete([path])
    with files.writer(path) as file:
        file.write(b"2")
    assert files.read(path) == b"2"


@pytest.mark.parametrize("name", [name for name in NAMES if len(name) < 200], ids=ascii)
def test_a_folder_has_any_name_too(files: Files, name: str) -> None:
    files.put(f"{name}/{name}/file", b"1")
    assert list(files.folders()) == list(files.folders(name)) == [name]
    assert names(files, f"{name}/{name}") == ["file"]


@pytest.mark.parametrize("path", ["/file", "../file", "a/../file", "a//file", "a/", "./file"])
def test_a_path_that_could_lead_elsewhere_is_refused(files: Files, path: str) -> None:
    for call in (files.read, files.info, files.writer, lambda path: files.put(path, b"")):
        with pytest.raises(ValueError, match="no path in a place"):
            call(path)
    with pytest.raises(ValueError, match="no path in a place"):
        files.put_new(path, b"")
    with pytest.raises(ValueError, match="no path in a place"):
        files.delete([path])


def test_a_listing_has_the_files_right_in_a_folder_in_order(files: Files) -> None:
    for path in (
        "f/b",
        "f/a",
        "f/B",
        "f/10",
        "f/9",
        "f/é",
        "f/below/c",
        "f/below/er/d",
        "fellow/e",
        "f-/g",
        "h",
    ):
        files.put(path, b"1")
    assert names(files, "f") == ["10", "9", "B", "a", "b", "é"]
    assert names(files, "f", after="B") == ["a", "b", "é"]
    assert names(files, "f", after="9x") == ["B", "a", "b", "é"]
    assert names(files, "f", after="é") == []
    assert names(files) == ["h"]
    assert [info.path for info in files.list("f/below")] == ["f/below/c"]
    assert list(files.folders("f")) == ["below"]
    assert list(files.folders()) == ["f", "f-", "fellow"]


def test_a_long_listing_is_whole(store: Store, files: Files) -> None:
    wanted = [f"{number:010d}.json" for number in range(store.names_listed)]
    files.put(f"log/{wanted[0]}", b"")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: files.put_new(f"log/{name}", own(), durable=False), wanted))
    assert names(files, "log") == wanted
    middle = len(wanted) // 2
    assert names(files, "log", after=wanted[middle]) == wanted[middle + 1 :]
    files.delete(f"log/{name}" for name in wanted[:-1])
    assert names(files, "log") == wanted[-1:]


def test_deleting_what_is_not_there_deletes_the_rest(files: Files) -> None:
    for name in ("a", "b", "c"):
        files.put(f"folder/{name}", b"1")
    files.delete(["folder/a", "folder/gone", "nowhere/at/all", "folder/a/below", "folder/c"])
    assert names(files, "folder") == ["b"]
    files.delete([])
    files.delete(["folder/gone"])


def test_a_deleted_name_is_new_again(files: Files) -> None:
    assert files.put_new("file", own())
    files.delete(["file"])
    two = own()
    assert files.put_new("file", two)
    assert files.read("file") == two


def test_a_written_file_is_there_once_it_is_closed(files: Files) -> None:
    with files.writer("folder/file") as file:
        file.write(b"one ")
        assert names(files, "folder") == []
        assert files.info("folder/file") is None
        file.write(b"two")
        assert file.tell() == 7
    assert file.closed
    assert files.read("folder/file") == b"one two"
    assert names(files, "folder") == ["file"]
    file.close()
    with pytest.raises(ValueError, match="closed"):
        file.write(b"three")


def test_a_large_file_is_written_in_parts(files: Files) -> None:
    part = bytes(range(256)) * 4096
    with files.writer("file") as file:
        for _ in range(20):
            file.write(part)
    assert files.read("file") == part * 20


@pytest.mark.parametrize("size", [3, 20 * 2**20], ids=["small", "large"])
def test_a_writer_left_by_an_exception_leaves_nothing(files: Files, size: int) -> None:
    files.put("folder/other", b"")
    with pytest.raises(RuntimeError, match="half way"), files.writer("folder/file") as file:
        file.write(b"x" * size)
        raise RuntimeError("half way")
    assert names(files, "folder") == ["other"]
    with pytest.raises(FileNotFoundError):
        files.read("folder/file")


def test_a_writer_that_is_forgotten_leaves_nothing(files: Files) -> None:
    file = files.writer("folder/file")
    file.write(b"half")
    del file
    assert names(files, "folder") == []
    file = files.writer("folder/file")
    file.write(b"half")
    file.abandon()
    assert names(files, "folder") == []


def test_parquet_is_written_through_it(files: Files) -> None:
    rows = pa.table({"a": range(1000)})
    with files.writer("folder/rows.parquet") as file, pq.ParquetWriter(file, rows.schema) as writer:
        writer.write_table(rows)
    assert pq.read_table(pa.BufferReader(files.read("folder/rows.parquet"))) == rows


def test_it_pickles_as_where_it_is_and_how_to_get_there(files: Files) -> None:
    files.put("file", b"1")
    other: Files = pickle.loads(pickle.dumps(files))  # noqa: S301
    assert other.read("file") == b"1"
    assert (other.url, other.options) == (files.url, files.options)


def test_delta_rs_finds_the_same_place(files: Files) -> None:
    write_deltalake(f"{files.url}/table", pa.table({"a": [1]}), storage_options=dict(files.options))
    log = names(files, "table/_delta_log")
    assert log == [f"{0:020d}.json"]
    first = files.read(f"table/_delta_log/{log[0]}")
    commit = next(line for line in first.splitlines() if b"commitInfo" in line)
    assert files.put_new(f"table/_delta_log/{1:020d}.json", commit + b"\n")
    assert DeltaTable(f"{files.url}/table", storage_options=dict(files.options)).version() == 1


def test_a_store_with_put_if_absent_passes_the_probe_and_keeps_nothing_of_it(files: Files) -> None:
    require_put_if_absent(files)
    assert names(files, "_probe") == []


def test_leftovers_of_killed_writers_are_neither_seen_nor_kept(files: Files) -> None:
    file = files.writer("folder/file")
    file.write(b"half")
    assert names(files, "folder") == []
    files.sweep("folder")
    assert names(files, "folder") == []
    file.abandon()


def test_a_folder_is_a_place_of_its_own_that_needs_no_connection_of_its_own(files: Files) -> None:
    table = files.below("table")
    table.put("_delta_log/0.json", b"1")
    assert files.read("table/_delta_log/0.json") == b"1"
    assert (table.url, table.options, str(table)) == (f"{files.url}/table", files.options, table.url)
    assert [info.path for info in table.list("_delta_log")] == ["_delta_log/0.json"]
    assert [info.path for info in files.list("table/_delta_log", after="0")] == ["table/_delta_log/0.json"]
    assert list(table.folders()) == ["_delta_log"]
    info = table.below("_delta_log").info("0.json")
    assert info is not None and info.path == "0.json"
    table.delete(["_delta_log/0.json"])
    assert files.info("table/_delta_log/0.json") is None
    assert getattr(table, "_client", None) is getattr(files, "_client", None)
    assert table == files.below("table") == pickle.loads(pickle.dumps(table)) != files  # noqa: S301
    assert len({table, files.below("table"), files}) == 2
    with pytest.raises(ValueError, match="no path in a place"):
        files.below("../other")


def test_a_folder_is_cleared_of_all_that_is_in_it(files: Files) -> None:
    for path in ("f/file", "f/below/file", "f/below/er/.hidden", "fellow/file"):
        files.put(path, b"1")
    assert list(files.clear("f")) == list(files.clear("nothing")) == []
    assert (names(files, "f"), list(files.folders("f"))) == ([], [])
    files.remove_folder("f")
    assert list(files.folders()) == ["fellow"]
    assert list(files.below("fellow").clear()) == []
    assert names(files, "fellow") == []


def test_what_somebody_still_writes_is_not_swept_for_its_age(files: Files) -> None:
    with files.writer("folder/file") as file:
        file.write(b"half")
        assert files.sweep("folder", older_than_seconds=3600.0) == 0
    assert files.read("folder/file") == b"half"


def test_only_an_empty_folder_goes_by_itself(files: Files) -> None:
    files.put("folder/below/file", b"1")
    files.remove_folder("folder")
    files.remove_folder("folder/below")
    assert files.read("folder/below/file") == b"1"
    files.delete(["folder/below/file"])
    for folder in ("folder/below", "folder", "nothing"):
        files.remove_folder(folder)
    assert list(files.folders()) == []


@pytest.mark.parametrize("size", [1_000, 20 * 2**20], ids=["small", "large"])
def test_a_file_whose_name_is_told_later_is_whole_once_it_is_closed(files: Files, size: int) -> None:
    with files.writer("folder/file", named_later=True) as file:
        file.write(b"x" * size)
        assert file.tell() == size
    info = files.info("folder/file")
    assert info is not None and info.size == size
    with pytest.raises(RuntimeError, match="half way"), files.writer("other/file", named_later=True) as file:
        file.write(b"x" * size)
        raise RuntimeError("half way")
    files.writer("other/forgotten", named_later=True).write(b"half")
    gc.collect()
    assert names(files, "other") == []


def test_parquet_is_written_into_what_arrow_likes_best(files: Files) -> None:
    rows = pa.table({"a": range(1000)})
    with files.writer("folder/rows.parquet", named_later=True) as file:
        with pq.ParquetWriter(file.sink, rows.schema) as writer:
            writer.write_table(rows)
        size = file.tell()
    info = files.info("folder/rows.parquet")
    assert info is not None and info.size == size
    assert pq.read_table(pa.BufferReader(files.read("folder/rows.parquet"))) == rows


def test_what_is_here_can_be_asked_to_survive_a_loss_of_power(files: Files) -> None:
    for path in ("one", "folder/two", "folder/deeper/three"):
        files.put(path, b"rows", named_later=True)
    files.sync(["one", "folder/two", "folder/deeper/three"])
    files.sync_folders(["folder", ""])
    files.sync([])
    if not files.remote:
        with pytest.raises(FileNotFoundError):
            files.sync(["folder/none"])
