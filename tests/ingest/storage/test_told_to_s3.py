"""What S3 is told with each request where the settings say how it encrypts and who pays, by the seam and by delta-rs."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.ingest.storage.relay import Head, Relay, relayed
from tests.ingest.storage.stores import Store

from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place

KEY = "arn:aws:kms:us-east-1:123456789012:key/lake"

ENCRYPTION = "x-amz-server-side-encryption"

BY_KMS = {
    ENCRYPTION: "aws:kms",
    f"{ENCRYPTION}-aws-kms-key-id": KEY,
    f"{ENCRYPTION}-bucket-key-enabled": "true",
}

PAYER = "x-amz-request-payer"

PAYS = {PAYER: "requester"}

ROWS = pa.table({"level": [1, 2]})


@pytest.fixture
def relay(s3_store: Store) -> Iterator[Relay]:
    with relayed(s3_store.port) as relay:
        yield relay


def place(store: Store, relay: Relay, **s3: Any) -> Files:
    """A place of its own behind the relay, reached as these settings of S3 say."""
    given = store.options_by(relay.port).model_dump()["s3"]
    login = {"access_key_id": "anybody", "secret_access_key": "anything"}
    options = {"s3": {**given, "login": login, **s3}, "http": {"retry_seconds": 1}}
    return open_files(Place.parse(f"{store.url}/{uuid.uuid4().hex}"), StorageOptions.model_validate(options))


def by_the_seam(files: Files) -> None:
    files.put("one", b"first")
    assert files.put_new("two", b"second")
    with files.writer("large") as large:
        for _ in range(3):
            large.write(bytes(8 * 2**20))
    assert files.read("one") == b"first"
    assert sorted(info.name for info in files.list()) == ["large", "one", "two"]
    files.delete(["one", "two"])


def by_delta_rs(files: Files) -> None:
    url, options = f"{files.url}/table", dict(files.options)
    write_deltalake(url, ROWS, storage_options=options)
    write_deltalake(url, ROWS, storage_options=options, mode="append")
    table = DeltaTable(url, storage_options=options)
    table.create_checkpoint()
    assert table.to_pyarrow_table().num_rows == 4


BOTH = pytest.mark.parametrize("use", [by_the_seam, by_delta_rs])


def writing(relay: Relay) -> list[Head]:
    """Those that make an object; a part of a large one belongs to what began it."""
    heads = [head for head in relay.heads if head.method == "PUT" or "?uploads" in head.target]
    return [head for head in heads if "partNumber=" not in head.target]


def told(head: Head, *names: str) -> Mapping[str, str]:
    return {name: value for name, value in head.headers.items() if name.startswith(names)}


@BOTH
def test_all_that_is_written_says_how_it_is_encrypted(
    s3_store: Store, relay: Relay, use: Callable[[Files], None]
) -> None:
    use(place(s3_store, relay, encryption={"kind": "aws:kms", "kms_key_id": KEY, "bucket_key": True}))
    found = writing(relay)
    assert len(found) >= 3
    assert [(head.target, told(head, ENCRYPTION)) for head in found] == [
        (head.target, BY_KMS) for head in found
    ]


@BOTH
def test_s3_s_own_keys_are_named_without_one_of_kms(
    s3_store: Store, relay: Relay, use: Callable[[Files], None]
) -> None:
    use(place(s3_store, relay, encryption={"kind": "AES256"}))
    assert {tuple(told(head, ENCRYPTION).items()) for head in writing(relay)} == {((ENCRYPTION, "AES256"),)}


@BOTH
def test_all_that_is_asked_says_who_pays(s3_store: Store, relay: Relay, use: Callable[[Files], None]) -> None:
    use(place(s3_store, relay, requester_pays=True))
    assert {"GET", "PUT"} <= {head.method for head in relay.heads}
    asked = [(head.method, head.target, told(head, PAYER)) for head in relay.heads]
    assert asked == [(method, target, PAYS) for method, target, _ in asked]


@BOTH
def test_nothing_of_it_is_told_where_the_settings_do_not_say_so(
    s3_store: Store, relay: Relay, use: Callable[[Files], None]
) -> None:
    use(place(s3_store, relay))
    assert writing(relay)
    assert [told(head, ENCRYPTION, PAYER) for head in relay.heads] == [{}] * len(relay.heads)
