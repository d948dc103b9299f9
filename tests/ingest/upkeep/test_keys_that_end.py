"""Upkeep of a table in S3 that takes longer than the keys last by which delta-rs opened it: a role's are good for an hour."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.ingest.storage.relay import Relay, no, served
from tests.ingest.storage.stores import Store

from distributary.ingest.storage import aws_credentials, s3_options
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
from distributary.ingest.tables.handle import opened
from distributary.ingest.tables.state import state_of
from distributary.ingest.upkeep.worn import bring_together

_KEY = re.compile(rb"Credential=([^/]+)/")


@dataclass
class Ending(Relay):
    """A relay for which the key that has asked for so many files of rows has ended behind that."""

    last: int = 0
    asked: int = 0
    ended: set[bytes] = field(default_factory=set)

    def _asked(self, request: bytes) -> bytes:
        (key,) = _KEY.findall(request)
        if key in self.ended:
            return no("403 Forbidden")
        if self.last and b".parquet" in request.partition(b"\r\n")[0]:
            self.asked += 1
            self.ended |= {key} if self.asked == self.last else set()
        return super()._asked(request)


@pytest.fixture
def relay(s3_store: Store) -> Iterator[Ending]:
    with served(Ending(s3_store.port)) as relay:
        yield relay


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch, s3_store: Store, relay: Ending) -> Iterator[Files]:
    """A place for which there are other keys each time that they are asked for."""
    given = list[str]()

    def keys() -> SimpleNamespace:
        given.append(f"KEY{len(given)}")
        frozen = SimpleNamespace(access_key=given[-1], secret_key="hush", token=None)  # noqa: S106
        return SimpleNamespace(get_frozen_credentials=lambda: frozen)

    session = SimpleNamespace(get_credentials=keys)
    monkeypatch.setattr(aws_credentials, "boto3", SimpleNamespace(Session=lambda **_: session))
    monkeypatch.setattr(aws_credentials, "_BELIEVED", timedelta(0))
    s3_options._credentials.cache_clear()
    at = {**s3_store.options_by(relay.port).model_dump()["s3"], "login": {"profile": "upkeep"}}
    options = StorageOptions.model_validate({"s3": at, "http": {"retry_seconds": 0}})
    yield open_files(Place.parse(f"{s3_store.url}/{uuid.uuid4().hex}"), options)
    s3_options._credentials.cache_clear()


@pytest.mark.parametrize("last", [1, 4])
def test_files_are_brought_together_by_new_keys_where_those_of_before_end_amid_it(
    place: Files, relay: Ending, last: int
) -> None:
    for number in range(6):
        rows = pa.table({"day": [number % 3], "x": [number]})
        options = dict(place.options)
        write_deltalake(place.url, rows, mode="append", partition_by=["day"], storage_options=options)
    handle, relay.last = opened(place), last
    done = bring_together(place, state_of(handle, place))
    assert (done.after.files, done.left) == (3, "")
    assert relay.ended
    table = DeltaTable(place.url, storage_options=dict(place.options)).to_pyarrow_table()
    assert sorted(table["x"].to_pylist()) == [0, 1, 2, 3, 4, 5]
