"""What only obstore's stores can be: opened with what cannot work, refused, unreachable."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from typing import Any

import obstore
import pytest
from obstore.store import S3Store
from tests.ingest.storage.stores import Store

from distributary.errors import ConfigError
from distributary.ingest.storage import object_store
from distributary.ingest.storage.object_store import ObjectFiles, sentence
from distributary.ingest.storage.options import ForObstore, StorageOptions
from distributary.ingest.storage.place import Place

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


def panicking(bucket: str, **_: object) -> S3Store:
    """A client's option among the store's, which obstore minds where it is given a URL."""
    config: Any = {"allow_http": "true"}
    return S3Store.from_url(f"s3://{bucket}", config=config)


def test_a_panic_of_the_crate_s_is_an_error_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BaseException, match="prefix") as caught:
        panicking("lake")
    assert not isinstance(caught.value, Exception)
    monkeypatch.setattr(object_store, "_CLASSES", {"s3": panicking})
    with pytest.raises(ConfigError, match=r"storage: s3://lake/tables cannot be opened: .*prefix"):
        ObjectFiles(PLACE, StorageOptions())


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
    with pytest.raises(OSError, match="s3://lake/tables/file: ") as caught:
        ObjectFiles(PLACE, options).put_new("file", b"1")
    assert "hush" not in str(caught.value)
    assert "\n" not in str(caught.value)


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


def test_what_stands_behind_a_url_is_not_told() -> None:
    error = obstore.exceptions.GenericError(
        "failed at https://account.blob.core.windows.net/lake?sv=1&sig=hush: 403\n\nDebug source: hush"
    )
    assert "hush" not in sentence(error)
    assert sentence(error).startswith("failed at https://account.blob.core.windows.net/lake?...")
