"""What HDFS alone has: a top of its own, users with rights, and a name node that answers with Java's exceptions."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, cast
from urllib.parse import urlsplit

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.ingest.storage.stores import Store, hdfs

from distributary.errors import SetupError
from distributary.ingest.interruptible import aside
from distributary.ingest.storage import hdfs as hdfs_files
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.hdfs import ClientInTime, HdfsFiles, Unanswered, name_nodes
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
from distributary.ingest.storage.probe import require_put_if_absent
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.log import tables_under
from distributary.passed_on_options import ClientOptions

_TRACE = "\\n\\tat org.apache.hadoop.hdfs.server.namenode.FSNamesystem.checkNameNodeSafeMode(FSNamesystem.java:1612)"


def test_a_name_node_that_takes_connections_and_says_nothing_is_one_that_does_not_answer() -> None:
    """It is waited for, and told of: the client itself would wait for it for ever, and no run would end."""
    options = StorageOptions(hdfs=ClientOptions({"dfs.client.socket-timeout": "200"}))
    with socket.create_server(("127.0.0.1", 0), backlog=20) as silent:
        files = open_files(Place.parse(f"hdfs://127.0.0.1:{silent.getsockname()[1]}/lake"), options)
        asked: list[Callable[[], object]] = [
            lambda: files.info("a"),
            lambda: files.read("a"),
            lambda: files.put("a", b"1"),
            lambda: list(files.list("a")),
        ]
        for ask in asked:
            with pytest.raises(ConnectionError, match=r"no answer came within 0\.2 seconds"):
                ask()


def test_a_table_of_a_name_node_that_says_nothing_is_not_waited_for_for_ever() -> None:
    """delta-rs asks by the same client, without an end."""
    options = StorageOptions(hdfs=ClientOptions({"dfs.client.socket-timeout": "20"}))
    with socket.create_server(("127.0.0.1", 0), backlog=20) as silent:
        files = open_files(Place.parse(f"hdfs://127.0.0.1:{silent.getsockname()[1]}/lake"), options)
        with pytest.raises(ConnectionError, match=r"/lake: no answer came within 0\.2 seconds"):
            opened(files)


def test_however_often_a_silent_name_node_is_asked_few_wait_for_it() -> None:
    """A sign of life is given each two seconds, and an outage may last for days."""
    awake, calls, asked = threading.Event(), Unanswered(most=4), list[int]()

    def ask(number: int) -> int:
        asked.append(number)
        awake.wait()
        return number

    def answer(number: int) -> None:
        with pytest.raises(OSError, match="timed out"):
            calls.answer(lambda: ask(number), 0.01)

    for number in range(20):
        answer(number)
    assert asked == [0, 1, 2, 3]
    waiting = aside(lambda: calls.answer(lambda: ask(20), 30.0))
    awake.set()
    assert waiting.result() == 20
    assert [calls.answer(partial(ask, number), 30.0) for number in range(9)] == [*range(9)]


def test_calls_that_are_never_answered_do_not_keep_others_from_being_asked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    awake, calls = threading.Event(), Unanswered(most=1)
    with suppress(OSError):
        calls.answer(awake.wait, 0.01)
    with pytest.raises(OSError, match="timed out"):
        calls.answer(lambda: True, 0.01)
    monkeypatch.setattr(hdfs_files, "_ASKED_ALL_THE_SAME_SECONDS", -1.0)
    assert calls.answer(lambda: True, 30.0)
    awake.set()


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Hadoop's folder of files that say where all is."""
    monkeypatch.setenv("HADOOP_CONF_DIR", str(tmp_path))
    return tmp_path


def test_of_several_name_nodes_another_one_is_begun_with_where_nobody_answers(conf: Path) -> None:
    """As where the one in charge hangs, and another was put in charge: the client would wait for the former for ever."""
    (conf / "hdfs-site.xml").write_text(
        "<configuration><property><name>dfs.ha.namenodes.lake</name><value>nn1, nn2</value></property></configuration>"
    )
    awake = threading.Event()

    @dataclass
    class Named:
        name: str

        def get_file_info(self, _: str) -> str:
            if self.name in hanging:
                awake.wait()
            return self.name

    def connect(order: Mapping[str, str]) -> Named:
        connected.append(order["dfs.ha.namenodes.lake"])
        return Named(connected[-1].partition(",")[0])

    nodes, connected = name_nodes(Place.parse("hdfs://lake/tables"), {}), list[str]()
    client, hanging = ClientInTime(connect, 0.05, nodes), {"nn1"}
    with pytest.raises(OSError, match="timed out"):
        client.get_file_info("a")
    assert client.get_file_info("a") == "nn2"
    # It is told to delta-rs, too.
    assert client.order == {"dfs.ha.namenodes.lake": "nn2,nn1"}
    hanging = {"nn2"}
    awake.set()
    awake.clear()
    with pytest.raises(OSError, match="timed out"):
        client.get_file_info("a")
    assert client.get_file_info("a") == "nn1"
    # However long both of them hang, there is one client for each.
    assert connected == ["nn1,nn2", "nn2,nn1"]
    awake.set()


def test_where_there_is_one_name_node_nothing_is_said_of_others(conf: Path) -> None:
    lake = Place.parse("hdfs://lake/tables")
    assert name_nodes(lake, {}) == [{}]
    (conf / "hdfs-site.xml").write_text("<configuration>")
    assert name_nodes(lake, {"dfs.ha.namenodes.lake": "nn1"}) == [{}]
    assert name_nodes(lake, {"dfs.ha.namenodes.lake": "nn1,nn2,nn3"})[2] == {
        "dfs.ha.namenodes.lake": "nn3,nn1,nn2"
    }


@dataclass
class Node:
    """A name node, as its client answers, that stands still amid the next rename, or does it and has its answer lost."""

    there: dict[str, bytes] = field(default_factory=dict)
    stands: bool = False
    loses: bool = False
    standing: threading.Event = field(default_factory=threading.Event)
    awake: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)

    def create(self, path: str, _: object) -> Written:
        return Written(self, path)

    def read(self, path: str) -> Content:
        if path not in self.there:
            raise FileNotFoundError(path)
        return Content(self.there[path])

    def rename(self, before: str, after: str, overwrite: bool) -> None:
        assert overwrite
        if self.stands:
            self.stands = False
            self.standing.set()
            self.awake.wait()
        try:
            if before not in self.there:
                raise FileNotFoundError(before)
            self.there[after] = self.there.pop(before)
            if self.loses:
                raise FileNotFoundError(before)
        finally:
            self.done.set()

    def delete(self, path: str) -> bool:
        return self.there.pop(path, None) is not None


@dataclass
class Written:
    node: Node
    path: str
    data: bytes = b""

    def write(self, data: bytes) -> None:
        self.data += data

    def hsync(self) -> None:
        pass

    def close(self) -> None:
        self.node.there[self.path] = self.data


@dataclass
class Content:
    data: bytes

    def read(self) -> bytes:
        return self.data


def files_of(node: Node, seconds: float) -> HdfsFiles:
    files = HdfsFiles(Place.parse("hdfs://127.0.0.1:1/lake"), StorageOptions())
    files._newest = cast("Any", ClientInTime(lambda _: node, seconds, [{}]))
    return files


def test_what_is_put_stays_though_a_rename_that_nobody_answered_comes_late() -> None:
    """As where somebody who was told of a time-out decides otherwise."""
    node = Node(stands=True)
    files = files_of(node, 0.1)
    node.delete, delete = cast("Any", _unanswered), node.delete  # type: ignore[method-assign]
    with pytest.raises(ConnectionError, match="timed out"):
        files.put("resolutions/7.json", b"old")
    with pytest.raises(ConnectionError, match="timed out"):
        files.put("resolutions/7.json", b"new")
    node.delete = delete  # type: ignore[method-assign]
    files.put("resolutions/7.json", b"new")
    node.done.clear()
    node.awake.set()
    assert node.done.wait(30)
    assert files.read("resolutions/7.json") == b"new"


def _unanswered(_: str) -> bool:
    raise OSError("operation timed out")


def test_a_file_whose_answer_was_lost_is_there_and_no_error() -> None:
    node = Node(loses=True)
    files_of(node, 30).put("file", b"one")
    assert node.there == {"/lake/file": b"one"}


def test_a_file_that_went_amid_its_rename_is_an_error() -> None:
    node = Node({"/lake/file": b"older"}, stands=True)
    put = aside(lambda: files_of(node, 30).put("file", b"one"))
    assert node.standing.wait(30)
    node.there = {"/lake/file": b"older"}
    node.awake.set()
    with pytest.raises(FileNotFoundError):
        put.result()


@pytest.mark.parametrize(
    ("said", "kind", "told"),
    [
        (
            "IO error occurred while communicating with HDFS: Connection refused (os error 111)",
            ConnectionError,
            "refused",
        ),
        (
            "IO error occurred while communicating with HDFS: Connection reset by peer (os error 104)",
            ConnectionError,
            "reset",
        ),
        ("operation timed out", ConnectionError, "timed out"),
        (
            f'RPCError("org.apache.hadoop.hdfs.server.namenode.SafeModeException", "Cannot create file.{_TRACE}")',
            ConnectionError,
            "SafeModeException: Cannot create file.",
        ),
        (
            f'RPCError("org.apache.hadoop.security.AccessControlException", "Permission denied.{_TRACE}")',
            PermissionError,
            "AccessControlException: Permission denied.",
        ),
        (
            f'RPCError("org.apache.hadoop.hdfs.protocol.DSQuotaExceededException", "The quota is exceeded.{_TRACE}")',
            OSError,
            "DSQuotaExceededException: The quota is exceeded.",
        ),
        ("No space left on device (os error 28)", OSError, "No space left"),
    ],
)
def test_an_error_tells_whether_nobody_answered_or_somebody_refused(
    said: str, kind: type[OSError], told: str
) -> None:
    files = HdfsFiles(Place.parse("hdfs://127.0.0.1:1/lake"), StorageOptions())
    for error in (OSError(said), RuntimeError(said)):
        with (
            pytest.raises(OSError, match=r"hdfs://127\.0\.0\.1:1/lake/file: ") as caught,
            files._told("file"),
        ):
            raise error
        assert type(caught.value) is kind
        assert told in str(caught.value)
        assert "FSNamesystem" not in str(caught.value)


@pytest.fixture(scope="module")
def in_hdfs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    with hdfs(tmp_path_factory.mktemp("hdfs")) as running:
        yield running


@pytest.mark.heavy
def test_the_top_of_it_is_a_place_for_tables(in_hdfs: Store) -> None:
    top = in_hdfs.files_at(in_hdfs.url.removesuffix("/tests"))
    require_put_if_absent(top)
    write_deltalake(f"{top.url}/events", pa.table({"level": [1]}))
    top.put("file", b"one")
    assert "events" in tables_under(top)
    assert [*top.names()] == ["file"]
    assert top.read("file") == b"one"
    assert [*top.below("events").names("_delta_log")] == [f"{0:020d}.json"]


@pytest.mark.heavy
def test_a_name_node_that_hangs_while_another_one_is_in_charge_is_passed_by(
    in_hdfs: Store, conf: Path
) -> None:
    at = urlsplit(in_hdfs.url).netloc
    with socket.create_server(("127.0.0.1", 0), backlog=20) as silent:
        told = {
            "dfs.nameservices": "lake",
            "dfs.ha.namenodes.lake": "nn1,nn2",
            "dfs.namenode.rpc-address.lake.nn1": f"127.0.0.1:{silent.getsockname()[1]}",
            "dfs.namenode.rpc-address.lake.nn2": at,
        }
        lines = (
            f"<property><name>{name}</name><value>{value}</value></property>" for name, value in told.items()
        )
        (conf / "hdfs-site.xml").write_text(f"<configuration>{''.join(lines)}</configuration>")
        options = StorageOptions(hdfs=ClientOptions({"dfs.client.socket-timeout": "1000"}))
        files = open_files(Place.parse("hdfs://lake/passed-by"), options)
        with pytest.raises(ConnectionError, match="no answer came within 1 seconds"):
            files.put("file", b"one")
        files.put("file", b"one")
        assert files.read("file") == b"one"
        url = f"{files.url}/table"
        write_deltalake(url, pa.table({"level": [1]}), storage_options=dict(files.options))
        assert opened(files.below("table")).version() == 0


@pytest.fixture
def of_somebody_else(in_hdfs: Store, monkeypatch: pytest.MonkeyPatch) -> Files:
    """A place of this user's, as another one has it."""
    mine = in_hdfs.files()
    mine.put("file", b"one")
    monkeypatch.setenv("HADOOP_USER_NAME", "somebody-else")
    return open_files(
        Place.parse(mine.url), StorageOptions(hdfs=ClientOptions({"dfs.client.of": "somebody-else"}))
    )


@pytest.mark.heavy
def test_who_lacks_a_right_is_told_so_and_not_by_java_s_calls(of_somebody_else: Files) -> None:
    with pytest.raises(PermissionError, match="Permission denied: user=somebody-else") as refused:
        of_somebody_else.delete(["file"])
    assert "\\tat " not in str(refused.value) and "\n" not in str(refused.value)
    with pytest.raises(SetupError, match=r"to read, write, list and delete .*; grant that"):
        require_put_if_absent(of_somebody_else)
