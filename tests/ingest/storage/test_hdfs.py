"""What HDFS alone has: a top of its own, users with rights, and a name node that answers with Java's exceptions."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.ingest.storage.stores import Store, hdfs

from distributary.errors import SetupError
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.hdfs import HdfsFiles
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
from distributary.ingest.storage.probe import require_put_if_absent
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
