"""Objects whose keys no client here can ask for, beside others in a store."""

from __future__ import annotations

from collections.abc import Iterator
from http.client import HTTPConnection

import pytest
from tests.ingest.landing.landed import looking, paths
from tests.ingest.storage.stores import Store

from distributary.ingest.storage.clients import UnreadableName, past_bad_names, sent
from distributary.ingest.storage.contract import Files, Info


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
    assert "It hides up to 1000 objects whose keys come before its own" in str(told[0])
    with pytest.raises(UnreadableName):
        list(files.below("landing").walk())
    look = looking(files)
    look.look(0)
    assert sorted(paths(look)) == sorted(there)


@pytest.mark.parametrize("key", ["c.csv%0D", "c%0A/x", "day=1/c.csv%0D", "day=1/%09/x", "c%7F", "c%23%0D"])
def test_a_control_character_in_a_key_hides_only_what_is_listed_before_it(s3_store: Store, key: str) -> None:
    """As the last one of a line is, in the keys that a script reads from a file that was made on Windows."""
    s3_store.require_odd_keys()
    files = s3_store.files()
    before, behind = {"a", "c"}, {"d", "day=1/d", "day=1/e/f", "day=2/a", "é"}
    for path in before | behind:
        files.put(f"landing/{path}", path.encode())
    put_raw(s3_store, files, f"landing/{key}")
    told = list[OSError]()
    found = [one.path for one in files.below("landing").walk(passing=told.append)]
    assert behind <= {*found} <= before | behind
    assert len({*found}) == len(found)
    assert "It hides up to 1000 objects whose keys come before its own" in str(told[0])
    look = looking(files)
    look.look(0)
    assert sorted(paths(look)) == sorted(found)


def test_pages_before_that_of_a_bad_key_are_read_and_so_are_those_behind_it(s3_store: Store) -> None:
    files, many = s3_store.files(), s3_store.names_listed
    names = {f"{number:06}" for number in range(many)}
    for name in names:
        files.put(f"landing/{name}", b"x")
    put_raw(s3_store, files, f"landing/{many - 10:06}%0D")
    told = list[OSError]()
    found = [one.path for one in files.below("landing").walk(passing=told.append)]
    assert len({*found}) == len(found) >= many - 1000
    assert {f"{number:06}" for number in range(many - 9, many)} <= {*found}
    assert len(told) == 1


def test_what_begins_where_a_listing_goes_on_is_read_too(s3_store: Store) -> None:
    files = s3_store.files()
    for name in ("c ", "0"):
        files.put(f"landing/{name}", b"x")
    for key in ("c%0D", "/x"):
        put_raw(s3_store, files, f"landing/{key}")
    assert {one.path for one in files.below("landing").walk(passing=lambda _: None)} == {"0", "c "}


def test_each_of_several_bad_keys_is_told(s3_store: Store, caplog: pytest.LogCaptureFixture) -> None:
    s3_store.require_odd_keys()
    files = s3_store.files()
    for name in ("day=1", "day=2"):
        files.put(f"landing/{name}/z", name.encode())
        put_raw(s3_store, files, f"landing/{name}/%0D")
    looking(files).look(0)
    assert [f"{name}/" in caplog.text for name in ("day=1", "day=2")] == [True, True]
    (told,) = (
        one.getMessage() for one in caplog.records if "2 files or folders cannot be read" in one.getMessage()
    )
    assert r"day=2/\r" in told
    assert "\r" not in told


def test_many_bad_keys_are_not_leapt_over_one_by_one(s3_store: Store) -> None:
    """As of a script that took all its keys with the ends of their lines: each costs two requests at each look."""
    files = s3_store.files()
    files.put("landing/0", b"x")
    files.put("landing/below/a", b"x")
    for number in range(200):
        put_raw(s3_store, files, f"landing/b{number:03}%0D")
    told = list[OSError]()
    before = sent()
    found = [one.path for one in files.below("landing").walk(passing=told.append)]
    assert sent() - before < 250
    assert "nobody looks for what comes behind them" in str(told[-1])
    assert found == []


def test_what_cannot_be_listed_beside_a_control_character_is_told_on_a_line(s3_store: Store) -> None:
    s3_store.require_odd_keys()
    files = s3_store.files()
    files.put("lake/a/x", b"x")
    put_raw(s3_store, files, "lake/c%0D")
    with pytest.raises(UnreadableName) as ended:
        files.folders("lake")
    assert r'lake/c\r"' in str(ended.value)
    assert "take it away" in str(ended.value)
    assert str(ended.value).isprintable()


def test_a_store_that_looks_through_all_for_what_comes_behind_a_bad_key_hides_its_folder() -> None:
    """As Azure does, of which no client asks for what comes behind a name."""

    def behind(_: str) -> Iterator[Info]:
        raise UnreadableName("it is none", "day=1/c\r")

    told = list[OSError]()
    assert list(past_bad_names("day=1/", behind, told.append)) == []
    assert [str(one) for one in told] == ["it is none. It hides all of its folder"]
