"""Objects whose keys no client here can ask for, beside others in a store."""

from __future__ import annotations

from http.client import HTTPConnection

import pytest
from tests.ingest.landing.landed import looking, paths
from tests.ingest.storage.stores import Store

from distributary.ingest.storage.clients import UnreadableName
from distributary.ingest.storage.contract import Files


def put_raw(store: Store, files: Files, key: str) -> None:
    """As a program puts it that has two slashes in a URL."""
    bucket, _, prefix = files.url.removeprefix("s3://").partition("/")
    connection = HTTPConnection("127.0.0.1", store.port)
    connection.request("PUT", f"/{bucket}/{prefix}/{key}" if prefix else f"/{bucket}/{key}", body=b"x")
    assert connection.getresponse().status == 200


@pytest.mark.parametrize("key", ["landing//x", "landing/day=1//x", "landing/day=1/./x"])
def test_an_object_that_nobody_can_ask_for_keeps_no_other_from_being_read(s3_store: Store, key: str) -> None:
    files = s3_store.files()
    there = {"0", "a", "day=0/b", "day=1/0", "day=1/c", "day=1/hour=2/d", "day=2/e"}
    for path in there:
        files.put(f"landing/{path}", path.encode())
    put_raw(s3_store, files, key)
    told = list[OSError]()
    assert {one.path for one in files.below("landing").walk(passing=told.append)} == there
    assert [type(one) for one in told] == [UnreadableName]
    assert "It hides files right beside it whose names begin with a space or one of" in str(told[0])
    with pytest.raises(UnreadableName):
        list(files.below("landing").walk())
    look = looking(files)
    look.look(0)
    assert sorted(paths(look)) == sorted(there)
