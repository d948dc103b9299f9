"""A registry's answers, kept wherever files are: what a pipeline starts with while the registry is down."""

from __future__ import annotations

import pytest

from distributary.errors import SchemaNotFound, SetupError
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
from distributary.registry.disk.cache import DiskCache, Notice
from distributary.registry.disk.folder import SchemaFolder
from distributary.registry.memory import MemoryRegistry


def test_what_was_kept_anywhere_is_given_by_another_process_while_the_registry_is_down(files: Files) -> None:
    registry = MemoryRegistry()
    known = registry.register("games-value", '"string"', "AVRO")
    cache = DiskCache(registry, files, "r")
    given, versions = cache.by_ref(known), cache.versions("games-value")

    registry.down = True
    later = DiskCache(registry, files, "r")
    assert later.by_ref(known) == given
    assert list(later.versions("games-value")) == list(versions)
    assert later.folder.startswith(files.url)
    assert list(SchemaFolder(files, "r").refs()) == [known]
    assert list(SchemaFolder(files, "another registry").refs()) == []


def test_versions_that_are_dropped_are_kept_nowhere(files: Files) -> None:
    registry = MemoryRegistry()
    registry.register("games-value", '"string"', "AVRO")
    cache = DiskCache(registry, files, "r")
    versions = cache.versions("games-value")
    kept = SchemaFolder(files, "r")
    assert kept.versions("games-value") == list(versions)
    kept.drop_versions("games-value")
    assert kept.versions("games-value") is None


def test_a_place_that_cannot_be_reached_is_told_before_anything_is_asked() -> None:
    options = StorageOptions.model_validate(
        {
            "s3": {
                "endpoint": "http://127.0.0.1:9",
                "region": "us-east-1",
                "login": {"access_key_id": "nobody", "secret_access_key": "nothing"},
            },
            "http": {"retry_seconds": 0},
        }
    )
    nowhere = open_files(Place.parse("s3://lake/answers"), options)
    with pytest.raises(
        SetupError, match=r"registry's answers cannot be kept in s3://lake/answers: .*name a folder"
    ):
        DiskCache(MemoryRegistry(), nowhere, "r")


def test_a_place_that_cannot_be_listed_any_more_stops_nothing(
    files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    registry, told = MemoryRegistry(), list[Notice]()
    known = registry.register("games-value", '"string"', "AVRO")
    cache = DiskCache(registry, files, "r", told.append)

    def refused(*_: object) -> object:
        raise OSError("the store is down")

    for call in ("read", "put", "names", "delete"):
        monkeypatch.setattr(type(files), call, refused)
    assert cache.by_ref(known).text == '"string"'
    registry.delete("games-value", 1)
    with pytest.raises(SchemaNotFound):
        cache.versions("games-value")
    assert {notice.kind for notice in told} == {"not_kept"}
