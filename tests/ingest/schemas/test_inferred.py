from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.ingest.schemas.far_away import FarAway
from typing_extensions import Buffer

from distributary.errors import BadSchema, SchemaNotFound, SetupError
from distributary.ingest.schemas.inferred import SchemaLocation
from distributary.ingest.storage.opening import files_at
from distributary.ingest.storage.posix import PosixFiles
from distributary.registry.base import Guid, Schema


def struct(*names: str) -> str:
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    return json.dumps({"type": "struct", "fields": fields})


@pytest.fixture
def location(tmp_path: Path) -> SchemaLocation:
    return SchemaLocation(files_at(tmp_path / "schemas" / "games"), "games")


def test_an_empty_location_has_no_versions(location: SchemaLocation) -> None:
    assert location.latest() is None
    with pytest.raises(SchemaNotFound, match="distributary infer"):
        location.versions("games")
    with pytest.raises(SchemaNotFound, match="no version 1"):
        location.by_ref(1)


def test_versions_count_from_one_and_are_their_own_ids(location: SchemaLocation) -> None:
    assert [location.register("games", struct(*names)) for names in ("a", "ab", "abc")] == [1, 2, 3]
    assert [(one.version, one.id) for one in location.versions("games")] == [(1, 1), (2, 2), (3, 3)]
    latest = location.latest()
    assert latest is not None
    assert (latest.id, latest.type) == (3, "STRUCT")
    assert json.loads(latest.text) == json.loads(struct(*"abc"))


def test_what_the_newest_version_says_already_makes_no_new_one(location: SchemaLocation) -> None:
    location.register("games", struct("a"))
    assert location.register("games", json.dumps(json.loads(struct("a")), indent=3)) == 1
    location.register("games", struct("b"))
    assert location.register("games", struct("a")) == 3


def test_a_version_is_spark_s_own_json_and_can_be_written_by_hand(location: SchemaLocation) -> None:
    Path(location.folder).mkdir(parents=True)
    Path(location.folder, "4.json").write_text(struct("x"), encoding="utf-8")
    assert location.register("games", struct("x", "y")) == 5
    assert json.loads(Path(location.folder, "5.json").read_text(encoding="utf-8")) == json.loads(
        struct("x", "y")
    )


def test_of_many_who_write_at_once_everyone_gets_a_version_with_its_schema(location: SchemaLocation) -> None:
    texts = [struct(f"own_{i}") for i in range(8)]
    with ThreadPoolExecutor(8) as pool:
        versions = list(pool.map(lambda text: location.register("games", text), texts))
    assert sorted(versions) == list(range(1, 9))
    for version, text in zip(versions, texts, strict=True):
        assert json.loads(location.by_ref(version).text) == json.loads(text)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"type":"struct"}', '"struct"', "[" * 100_000])
def test_what_is_no_struct_type_is_refused_both_ways(location: SchemaLocation, text: str) -> None:
    with pytest.raises(BadSchema):
        location.register("games", text)
    Path(location.folder).mkdir(parents=True)
    Path(location.folder, "1.json").write_text(text, encoding="utf-8")
    with pytest.raises(BadSchema, match=r"1\.json"):
        location.by_ref(1)


def test_each_of_several_versions_is_answered_by_itself(location: SchemaLocation) -> None:
    location.register("games", struct("a"))
    answers = location.by_refs([1, 2, Guid("guid")])
    assert isinstance(answers[1], Schema)
    assert isinstance(answers[2], SchemaNotFound)
    assert isinstance(answers[Guid("guid")], SchemaNotFound)


def test_all_versions_are_asked_for_at_once(tmp_path: Path) -> None:
    """A start asks for each there ever was: one by one, that takes minutes in a store after a year."""
    files = FarAway(tmp_path / "schemas")
    for version in range(1, 33):
        files.put_new(f"{version}.json", struct(f"f{version}").encode())
    files.only_together(8)
    answers = SchemaLocation(files, "games").by_refs(range(1, 33))
    assert [(ref, getattr(answer, "id", None)) for ref, answer in answers.items()] == [
        (version, version) for version in range(1, 33)
    ]
    assert files.reads == 32


def test_another_subject_has_no_versions_here(location: SchemaLocation) -> None:
    location.register("games", struct("a"))
    with pytest.raises(SchemaNotFound):
        location.versions("players")
    with pytest.raises(BadSchema):
        location.register("players", struct("a"))


def test_a_store_without_the_promise_of_numbers_is_refused_to_whoever_may_write(tmp_path: Path) -> None:
    class Careless(PosixFiles):
        """As stores are that know no conditions, behind a network."""

        remote = True

        def put_new(self, path: str, data: Buffer, *, durable: bool = True) -> bool:
            self.put(path, data)
            return True

    SchemaLocation(PosixFiles(tmp_path / "folder"), "games").check_store()
    assert not (tmp_path / "folder").exists()
    with pytest.raises(SetupError, match="lets a second writer"):
        SchemaLocation(Careless(tmp_path / "store"), "games").check_store()
