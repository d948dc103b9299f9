"""What only obstore's stores can be: opened with what cannot work, refused, unreachable."""

from __future__ import annotations

import os
import pickle
import shutil
import socket
import uuid
from collections.abc import Iterator
from dataclasses import replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import certifi
import obstore
import pytest
from obstore.store import MemoryStore, S3Store
from tests.ingest.storage.stores import Store

from distributary.errors import ConfigError
from distributary.ingest.storage import authorities, clients, object_store
from distributary.ingest.storage.answers.errors import sentence
from distributary.ingest.storage.object_store import ObjectFiles
from distributary.ingest.storage.option_types import ForObstore
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
from distributary.values import MASK

PLACE = Place.parse("s3://lake/tables")


class Unknown(StorageOptions):
    """Options with one that there is not."""

    def for_obstore(self, place: Place) -> ForObstore:
        rendered = super().for_obstore(place)
        return replace(rendered, config={**rendered.config, "no_such_option": "true"})


def test_an_option_that_obstore_does_not_know_is_an_error_of_ours() -> None:
    with pytest.raises(ConfigError, match=r"storage: s3://lake/tables cannot be opened: .*no_such_option"):
        ObjectFiles(PLACE, Unknown())


def test_authorities_that_are_none_are_an_error_of_ours(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    options = StorageOptions.model_validate({"http": {"ca_file": tmp_path / "ca.pem"}})
    with pytest.raises(ConfigError, match=r"storage: s3://lake/tables cannot be opened: .*certificate"):
        ObjectFiles(PLACE, options)


def test_authorities_go_along_to_a_machine_that_has_no_such_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "ca.pem"
    shutil.copy(certifi.where(), file)
    given = StorageOptions.model_validate({"http": {"ca_file": file}})
    sent = pickle.dumps(ObjectFiles(PLACE, given))
    file.unlink()
    monkeypatch.setattr(clients, "_clients", {})
    monkeypatch.setattr(authorities, "_held", {})
    with pytest.raises(ConfigError, match=r"ca\.pem cannot be read"):
        ObjectFiles(PLACE, given)
    arrived = pickle.loads(sent)  # noqa: S301 made above
    assert arrived == ObjectFiles(PLACE, given)
    assert str(arrived) == "s3://lake/tables"


def panicking(bucket: str, **_: object) -> S3Store:
    """A client's option among the store's, which obstore minds where it is given a URL."""
    config: Any = {"allow_http": "true"}
    return S3Store.from_url(f"s3://{bucket}", config=config)


def test_a_panic_of_the_crate_s_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BaseException, match="prefix") as caught:
        panicking("lake")
    assert not isinstance(caught.value, Exception)
    monkeypatch.setattr(object_store, "_CLASSES", {"s3": panicking})
    with pytest.raises(ConfigError, match=r"storage: s3://panics/tables cannot be opened: .*prefix"):
        ObjectFiles(Place.parse("s3://panics/tables"), StorageOptions())


def test_a_store_that_does_not_answer_is_an_oserror_that_says_where() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
    options = StorageOptions.model_validate(
        {
            "s3": {
                "endpoint": f"http://127.0.0.1:{port}",
                "login": {"access_key_id": "me", "secret_access_key": "hush"},
            },
            "http": {"retry_seconds": 0},
        }
    )
    files = ObjectFiles(PLACE, options)
    with pytest.raises(ConnectionError, match="s3://lake/tables/file: ") as caught:
        files.put_new("file", b"1")
    with (
        pytest.raises(ConnectionError, match="s3://lake/tables/streamed: ") as streamed,
        files.writer("streamed") as file,
    ):
        file.write(b"1")
    for told in (str(caught.value), str(streamed.value)):
        assert "hush" not in told
        assert "\n" not in told


class Pages:
    """`obstore.list`, whose pages are counted as they are asked for."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked, self._list = 0, obstore.list
        monkeypatch.setattr(obstore, "list", self)

    def __call__(self, *where: Any, **how: Any) -> Iterator[Any]:
        for page in self._list(*where, **how):
            self.asked += 1
            yield page


@pytest.fixture
def in_memory(monkeypatch: pytest.MonkeyPatch) -> ObjectFiles:
    """A store that lists in pages, as S3 does."""
    held = MemoryStore()
    monkeypatch.setattr(ObjectFiles, "connected", staticmethod(lambda *_: held))
    return ObjectFiles(Place.parse(f"s3://lake/{uuid.uuid4().hex}"), Unasked())


class Unasked(StorageOptions):
    """Options that no other test has, and so no client either."""


def test_what_is_asked_for_behind_a_name_does_not_grow_with_a_tables_log(
    in_memory: ObjectFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = in_memory.below("table")
    for path in ("0a", "0b", *(f"_delta_log/{version:020d}.json" for version in range(3_500)), "fa", "fb"):
        table.put(path, b"")
    pages = Pages(monkeypatch)
    assert list(table.names("", after="0a")) == ["0b", "fa", "fb"]
    assert [info.name for info in table.list("", after="0a")] == ["0b", "fa", "fb"]
    assert pages.asked == 4, "two each: up to where the log begins, and from where it ends"
    assert table.has_files("")
    assert list(table.names("_delta_log", after=f"{3_497:020d}.json")) == [
        f"{version:020d}.json" for version in (3_498, 3_499)
    ]


def test_who_stops_early_asks_for_no_more_names(
    in_memory: ObjectFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(3_500):
        in_memory.put(f"{number:04d}", b"")
    pages = Pages(monkeypatch)
    names = in_memory.names("", after="0007")
    assert [next(names) for _ in range(1_000)] == [f"{number:04d}" for number in range(8, 1_008)]
    assert pages.asked == 1
    assert [*names] == [f"{number:04d}" for number in range(1_008, 3_500)]


@pytest.mark.parametrize("store", ["azure"], indirect=True)
def test_a_wrong_key_is_a_permission_error(store: Store) -> None:
    options = store.options_by(store.port)
    wrong = options.model_copy(update={"azure": options.azure.model_copy(update={"account_key": "d3Jvbmc="})})
    files = ObjectFiles(Place.parse(store.url), wrong)
    for call in (
        lambda: files.put("file", b"1"),
        lambda: files.put_new("file", b"1"),
        lambda: files.read("file"),
    ):
        with pytest.raises(PermissionError, match="az://lake/tests/file"):
            call()


@pytest.mark.parametrize(
    ("url", "told"),
    [
        ("s3://keyless/lake", "looked for in storage.s3.login, in the variables AWS_ACCESS_KEY_ID and"),
        ("gs://keyless/lake", "looked for in storage.gcs, in the variable GOOGLE_APPLICATION_CREDENTIALS"),
    ],
)
def test_where_no_keys_were_found_it_is_said_where_they_are_looked_for(
    url: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "GOOGLE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        where = f"127.0.0.1:{nobody.getsockname()[1]}"
        monkeypatch.setenv("AWS_METADATA_ENDPOINT", f"http://{where}")
        for name in ("HOST", "ROOT", "IP"):
            monkeypatch.setenv(f"GCE_METADATA_{name}", where)
        options = StorageOptions.model_validate(
            {"s3": {"region": "us-east-1"}, "http": {"retry_seconds": 0.1}}
        )
        with pytest.raises(ConnectionError, match=rf"/x: no keys were found: they are {told}"):
            ObjectFiles(Place.parse(url), options).read("x")


def test_keys_that_azure_s_machine_does_not_give_were_not_found_either() -> None:
    said = (
        "Generic MicrosoftAzure error: Error performing token request: Error performing GET "
        "http://169.254.169.254/metadata/identity/oauth2/token?resource=x in 5ms - HTTP error: error sending request"
    )
    told = sentence(obstore.exceptions.GenericError(said), "azure")
    assert told.startswith("no keys were found: they are looked for in storage.azure, ")
    found = "Generic S3 error: Error performing GET http://s3/lake/latest/api/token in 5ms - HTTP error"
    assert sentence(obstore.exceptions.GenericError(found), "s3") == found


def test_what_stands_behind_a_url_is_not_told() -> None:
    error = obstore.exceptions.GenericError(
        "failed at https://account.blob.core.windows.net/lake?sv=1&sig=hush: 403\n\nDebug source: hush"
    )
    assert "hush" not in sentence(error, "azure")
    assert sentence(error, "azure").startswith("failed at https://account.blob.core.windows.net/lake?...")


ANSWERS = {
    "expired": (
        (
            '<?xml version="1.0" encoding="UTF-8"?>\n<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message>'
            "<Token-0>hush/+==</Token-0><RequestId>1</RequestId></Error>"
        ),
        "ExpiredToken: The provided token has expired.",
    ),
    "signed_otherwise": (
        (
            "<Error><Code>SignatureDoesNotMatch</Code><Message>Check your key\n and signing method.</Message><CanonicalRequest>"
            "GET\n/lake\nlist-type=2\nx-amz-security-token:hush/+==\n\nhost</CanonicalRequest></Error>"
        ),
        "SignatureDoesNotMatch: Check your key and signing method.",
    ),
    "azure": (
        (
            '\ufeff<?xml version="1.0" encoding="utf-8"?><Error><Code>AuthenticationFailed</Code><Message>Server failed.\nRequestId:1'
            "</Message><AuthenticationErrorDetail>hush</AuthenticationErrorDetail></Error>"
        ),
        "AuthenticationFailed: Server failed. RequestId:1",
    ),
    "cut_off": ("<Error><Code>InvalidToken</Code><Token-0>hush", "InvalidToken"),
    "of_a_proxy": ("<html>x-amz-security-token: hush</html>", f"<html>x-amz-security-token: {MASK}</html>"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_what_a_store_quotes_of_a_request_is_not_told_and_why_it_refuses_it_is(name: str) -> None:
    answer, told = ANSWERS[name]
    error = obstore.exceptions.GenericError(
        f"Generic S3 error: Server returned non-2xx status code: 400 Bad Request: {answer}\n\nDebug source: hush"
    )
    assert (
        sentence(error, "s3")
        == f"Generic S3 error: Server returned non-2xx status code: 400 Bad Request: {told}"
    )


@pytest.mark.parametrize("key", ["/x", "./x", "../x", ".", ".."])
def test_an_object_that_nobody_can_ask_for_hides_no_folder(s3_store: Store, key: str) -> None:
    """Who puts two slashes into a URL makes one."""
    files = s3_store.files()
    for name in (
        "golf/a",
        "golf/zzzzz",
        "golf2/_delta_log/0.json",
        "0/a",
        "0",
        "quest/a",
        "_aside/a",
        "readme",
    ):
        files.put(name, b"x")
    before = [*files.folders()]
    bucket, _, prefix = files.url.removeprefix("s3://").partition("/")
    connection = HTTPConnection("127.0.0.1", s3_store.port)
    connection.request("PUT", f"/{bucket}/{prefix}/{key}", body=b"x")
    assert connection.getresponse().status == 200
    with pytest.raises(OSError, match="invalid path"):
        list(files.list())
    assert files.folders() == before == ["0", "_aside", "golf", "golf2", "quest"]
