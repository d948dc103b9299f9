"""What the cache on disk adds to a registry: going on without it, and noticing that it is another one."""

from __future__ import annotations

import logging
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.ingest.schemas.far_away import FarAway

from distributary.errors import RegistryChanged, RegistryUnavailable, SchemaNotFound
from distributary.registry.base import Reference, SchemaRegistry
from distributary.registry.disk.cache import DiskCache, Notice
from distributary.registry.memory import MemoryRegistry

if TYPE_CHECKING:
    from tests.registry.conftest import AnswerServer, Connect

A, B = '{"type":"record","name":"A","fields":[]}', '{"type":"record","name":"B","fields":[]}'


@pytest.fixture
def told() -> list[Notice]:
    return []


@pytest.fixture
def origin() -> MemoryRegistry:
    return MemoryRegistry()


Start = Callable[..., DiskCache]


@pytest.fixture
def start(tmp_path: Path, told: list[Notice]) -> Start:
    """A cache as a process that has just started has it; always over the same folder."""

    def make(inner: SchemaRegistry, ask_again_seconds: float = 0.0) -> DiskCache:
        return DiskCache(inner, tmp_path, "http://registry", told.append, ask_again_seconds)

    return make


def kinds(told: list[Notice]) -> list[str]:
    return [notice.kind for notice in told]


def test_a_process_starts_while_the_registry_is_down_and_says_so_once(
    origin: MemoryRegistry, start: Start, told: list[Notice]
) -> None:
    inner = origin.register("inner", A, "AVRO")
    outer = origin.register("outer", B, "AVRO", [Reference("A", "inner", 1)])
    up = start(origin)
    known, versions = up.by_refs([inner, outer]), up.versions("outer")
    origin.down = True
    down = start(origin)
    assert down.by_refs([inner, outer]) == known
    assert down.versions("outer") == versions
    assert dict(down.by_ref(outer).imports) == {"A": A}
    assert down.offline
    assert kinds(told) == ["offline"]
    assert "down" in told[0].text
    assert "kept in" in told[0].text


def test_what_is_kept_is_read_at_once(origin: MemoryRegistry, tmp_path: Path) -> None:
    """In a store, as each start asks for every version of every subject: one by one, thousands take minutes."""
    ids = [origin.register(f"s{number}", A.replace('"A"', f'"A{number}"'), "AVRO") for number in range(16)]
    known = DiskCache(origin, FarAway(tmp_path), "http://registry").by_refs(ids)
    kept = FarAway(tmp_path)
    later = DiskCache(origin, kept, "http://registry", ask_again_seconds=60.0)
    later.by_refs(ids)
    origin.down = True
    later.by_refs(ids)
    kept.only_together(8)
    assert later.by_refs(ids) == known
    assert kept.reads == len(ids)


def test_when_it_answers_again_that_is_said_and_new_versions_are_seen(
    origin: MemoryRegistry, start: Start, told: list[Notice]
) -> None:
    origin.register("s", A, "AVRO")
    cache = start(origin)
    cache.versions("s")
    origin.down = True
    cache.versions("s")
    origin.down = False
    origin.register("s", B, "AVRO")
    assert [version.version for version in cache.versions("s")] == [1, 2]
    assert not cache.offline
    assert kinds(told) == ["offline", "online"]


def test_what_is_not_kept_cannot_be_had_while_it_is_down(origin: MemoryRegistry, start: Start) -> None:
    known = origin.register("s", A, "AVRO")
    cache = start(origin)
    cache.by_ref(known)
    origin.down = True
    for question in (
        lambda: cache.by_refs([known, 99]),
        lambda: cache.versions("s"),
        lambda: cache.register("s", B, "AVRO"),
    ):
        with pytest.raises(RegistryUnavailable):
            question()


def test_a_registry_that_is_down_is_not_asked_at_every_call(origin: MemoryRegistry, start: Start) -> None:
    known = origin.register("s", A, "AVRO")
    start(origin).by_ref(known)
    origin.down = True
    cache = start(origin, ask_again_seconds=3600.0)
    cache.by_ref(known)
    origin.down = False
    asked = len(origin.asked)
    assert cache.by_ref(known).text == A
    assert len(origin.asked) == asked
    assert cache.offline


def emptied(*texts: str) -> MemoryRegistry:
    """Another registry at the same address, whose ids start at 1 again."""
    registry = MemoryRegistry()
    for text in texts:
        registry.register("t", text, "AVRO")
    return registry


def test_an_id_that_means_another_schema_now_is_never_decoded_with(
    origin: MemoryRegistry, start: Start
) -> None:
    known = origin.register("s", A, "AVRO")
    start(origin).by_ref(known)
    cache = start(emptied(B))
    for _ in range(2):
        with pytest.raises(
            RegistryChanged, match=r"http://registry now gives another schema for 1 .*emptied"
        ):
            cache.by_ref(known)


def test_an_emptied_registry_is_noticed_whatever_it_is_asked_for(
    origin: MemoryRegistry, start: Start
) -> None:
    start(origin).by_ref(origin.register("s", A, "AVRO"))
    cache = start(emptied(B, A))
    for _ in range(2):
        with pytest.raises(RegistryChanged):
            cache.versions("t")
    with pytest.raises(RegistryChanged):
        start(emptied(B, A)).by_ref(2)


def test_a_registry_that_was_emptied_while_it_was_away_is_noticed_when_it_answers_again(
    origin: MemoryRegistry, tmp_path: Path, start: Start
) -> None:
    cache = start(origin)
    cache.by_ref(origin.register("s", A, "AVRO"))
    cache.versions("s")
    origin.down = True
    cache.versions("s")
    fresh = emptied(B)
    fresh.register("s", A, "AVRO")
    origin.__dict__.update(fresh.__dict__)
    with pytest.raises(RegistryChanged):
        cache.versions("s")


def test_deleting_the_folder_is_the_way_on_with_an_emptied_registry(
    origin: MemoryRegistry, tmp_path: Path, start: Start
) -> None:
    start(origin).by_ref(origin.register("s", A, "AVRO"))
    for folder in tmp_path.iterdir():
        shutil.rmtree(folder)
    assert start(emptied(B)).by_ref(1).text == B


def test_a_text_that_is_only_rewritten_is_no_change(origin: MemoryRegistry, start: Start) -> None:
    start(origin).by_ref(origin.register("s", A, "AVRO"))
    rewritten = '{ "name": "A",  "type": "record", "fields": [] }'
    assert start(emptied(rewritten)).by_ref(1).text == rewritten


def test_what_the_registry_forgot_is_still_given_and_said_once(
    origin: MemoryRegistry, start: Start, told: list[Notice]
) -> None:
    known = origin.register("s", A, "AVRO")
    start(origin).by_ref(known)
    cache = start(MemoryRegistry())
    assert cache.by_ref(known).text == cache.by_ref(known).text == A
    assert kinds(told) == ["forgotten"]


def test_a_subject_that_is_gone_is_gone_offline_too(origin: MemoryRegistry, start: Start) -> None:
    origin.register("s", A, "AVRO")
    cache = start(origin)
    cache.versions("s")
    origin.delete("s", 1)
    with pytest.raises(SchemaNotFound):
        cache.versions("s")
    origin.down = True
    with pytest.raises(RegistryUnavailable):
        cache.versions("s")


def test_deleted_versions_are_told_apart_offline_too(origin: MemoryRegistry, start: Start) -> None:
    for text in (A, B):
        origin.register("s", text, "AVRO")
    origin.delete("s", 1)
    cache = start(origin)
    everything, living = cache.versions("s", deleted=True), cache.versions("s")
    origin.down = True
    assert cache.versions("s", deleted=True) == everything
    assert (
        [version.version for version in cache.versions("s")] == [version.version for version in living] == [2]
    )


def test_a_disk_that_takes_no_more_is_said_and_stops_nothing(
    origin: MemoryRegistry, start: Start, told: list[Notice]
) -> None:
    known = origin.register("s", A, "AVRO")
    cache = start(origin)
    shutil.rmtree(cache.folder)
    Path(cache.folder).touch()  # where a folder should be, so that nothing can be written
    assert cache.by_ref(known).text == A
    assert cache.versions("s")[0].id == known
    assert kinds(told) == ["not_kept", "not_kept"]


def test_a_folder_that_was_removed_is_made_again(
    origin: MemoryRegistry, start: Start, told: list[Notice]
) -> None:
    known = origin.register("s", A, "AVRO")
    cache = start(origin)
    shutil.rmtree(cache.folder)
    assert cache.by_ref(known).text == A
    origin.down = True
    assert start(origin).by_ref(known).text == A
    assert "not_kept" not in kinds(told)


def test_notices_are_logged_unless_told_otherwise(
    origin: MemoryRegistry, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    cache = DiskCache(origin, tmp_path, "r")
    cache.by_ref(origin.register("s", A, "AVRO"))
    origin.down = True
    with caplog.at_level(logging.WARNING, "distributary.registry"):
        cache.by_ref(1)
    assert "going on with the schemas" in caplog.text


def test_a_clients_memory_is_not_taken_for_an_answer_of_the_registry(
    server: AnswerServer, connect: Connect, start: Start, told: list[Notice]
) -> None:
    """The client below keeps schemas itself: what it gives from memory says nothing of the registry."""
    server.on("/schemas/ids/7", server.json({"schema": A}))
    server.on("/subjects/s/versions", server.json([1]), server.raw(b"", 503), server.json([1]))
    server.version("s", 1, 7, schema=A)
    cache = start(connect(server.url, latest_cache_seconds=0.0))
    cache.by_ref(7)
    cache.versions("s")
    cache.versions("s")
    assert kinds(told) == ["offline"]
    cache.by_ref(7)
    assert kinds(told) == ["offline"]
    cache.versions("s")
    assert kinds(told) == ["offline", "online"]
