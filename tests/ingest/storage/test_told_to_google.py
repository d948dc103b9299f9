"""What Google Cloud Storage is asked, by the seam and by delta-rs. A stand-in answers: that Google answers so is not shown here."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from deltalake import DeltaTable, write_deltalake
from tests.ingest.storage.google_xml import Google, google, service_account_key
from tests.ingest.storage.relay import Head
from tests.ingest.storage.stores import Store

from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.probe import require_put_if_absent

CONDITION = "x-goog-if-generation-match"

ROWS = pa.table({"level": [1, 2]})


@pytest.fixture
def stand_in(s3_store: Store) -> Iterator[Google]:
    with google(s3_store.port) as running:
        yield running


def place(stand_in: Google, tmp_path: Path, **login: Any) -> Files:
    """A place that no other test has."""
    given = {"endpoint": f"http://127.0.0.1:{stand_in.port}", **login}
    options = StorageOptions.model_validate({"gcs": given, "http": {"retry_seconds": 1}})
    return files_at(f"gs://lake/{tmp_path.name}", options)


@pytest.fixture
def files(stand_in: Google, tmp_path: Path) -> Files:
    return place(stand_in, tmp_path, service_account_key=service_account_key())


def conditions(heads: list[Head]) -> list[tuple[str, str | None]]:
    """The names of what was put, and on which generation."""
    put = [head for head in heads if head.method == "PUT"]
    return [(unquote(head.target).rpartition("/")[2], head.headers.get(CONDITION)) for head in put]


def test_a_new_file_is_put_where_no_generation_of_it_is_there(stand_in: Google, files: Files) -> None:
    files.put("plain", b"1")
    assert files.put_new("new", b"first")
    assert not files.put_new("new", b"second")
    assert files.read("new") == b"first"
    assert conditions(stand_in.heads) == [("plain", None), ("new", "0"), ("new", "0")]


def test_so_is_each_entry_of_a_log_that_delta_rs_writes(stand_in: Google, files: Files) -> None:
    url, options = f"{files.url}/table", dict(files.options)
    write_deltalake(url, ROWS, storage_options=options)
    write_deltalake(url, ROWS, storage_options=options, mode="append")
    assert DeltaTable(url, storage_options=options).to_pyarrow_table().num_rows == 4
    entries = [(name, asked) for name, asked in conditions(stand_in.heads) if name.endswith(".json")]
    assert entries == [(f"{0:020d}.json", "0"), (f"{1:020d}.json", "0")]


def test_a_start_s_probe_is_passed_and_what_is_not_there_is_deleted_without_a_word(
    stand_in: Google, files: Files
) -> None:
    require_put_if_absent(files)
    files.put("there", b"1")
    files.delete(["not", "there", "either"])
    assert [*files.names()] == []


@pytest.mark.parametrize("how", ["file", "key"])
def test_who_asks_is_the_account_whose_key_the_settings_have(
    stand_in: Google, tmp_path: Path, how: str
) -> None:
    (tmp_path / "key.json").write_text(service_account_key(), encoding="utf-8")
    given = {"file": tmp_path / "key.json", "key": service_account_key()}
    files = place(stand_in, tmp_path, **{f"service_account_{how}": given[how]})
    files.put("one", b"1")
    write_deltalake(f"{files.url}/table", ROWS, storage_options=dict(files.options))
    assert stand_in.refused == 0


def test_a_key_that_is_not_the_account_s_is_a_permission_error_that_does_not_tell_it(
    stand_in: Google, tmp_path: Path
) -> None:
    other = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = other.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    key = json.dumps({**json.loads(service_account_key()), "private_key": pem})
    files = place(stand_in, tmp_path, service_account_key=key)
    with pytest.raises(PermissionError, match=f"gs://lake/{tmp_path.name}/one") as refused:
        files.put_new("one", b"1")
    assert stand_in.refused > 0
    assert pem.splitlines()[1] not in str(refused.value)
