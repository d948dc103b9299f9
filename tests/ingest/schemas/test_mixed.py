"""One pipeline, schemas of two kinds: a registry's, and the versions of an inferred one."""

from __future__ import annotations

import json
import threading
from pathlib import Path

import pyarrow as pa
import pytest
from tests.ingest.pipelines import checkpoint
from tests.ingest.schemas.far_away import FarAway

from distributary.codecs.base import INFERRED, Growing, load_codec
from distributary.errors import RegistryUnavailable, SchemaNotFound
from distributary.ingest.pins import newest_inferred
from distributary.ingest.progress import Silent
from distributary.ingest.schemas.inferred import SchemaLocation
from distributary.ingest.schemas.known import SchemaBook
from distributary.ingest.schemas.mixed import MixedSchemas
from distributary.ingest.schemas.pinned import PinsStore
from distributary.ingest.schemas.registry_wait import RegistryWait
from distributary.ingest.storage.opening import files_at
from distributary.registry.base import Schema
from distributary.registry.memory import MemoryRegistry

OWN = "inferred:games"
MOVE = json.dumps({"type": "record", "name": "Move", "fields": [{"name": "n", "type": "long"}]})


def struct(*names: str) -> str:
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in names]
    return json.dumps({"type": "struct", "fields": fields})


def mixed(root: Path, registry: MemoryRegistry) -> MixedSchemas:
    return MixedSchemas(registry, SchemaLocation(files_at(root / "schemas"), OWN))


def book(root: Path, schemas: MixedSchemas) -> SchemaBook:
    wait = RegistryWait(Silent(), threading.Event())
    made = SchemaBook(load_codec("auto"), schemas, PinsStore(checkpoint(root)), wait, 300.0)
    made.open(["moves"], OWN)
    return made


@pytest.fixture
def registry() -> MemoryRegistry:
    held = MemoryRegistry()
    held.register("moves", MOVE, "AVRO")
    return held


def test_the_first_version_is_what_hints_give(tmp_path: Path, registry: MemoryRegistry) -> None:
    location = SchemaLocation(files_at(tmp_path / "schemas"), OWN)
    answer = MixedSchemas(registry, location, struct("a")).by_refs([INFERRED])[INFERRED]
    assert isinstance(answer, Schema)
    assert json.loads(answer.text) == json.loads(struct("a"))
    later = MixedSchemas(registry, location, struct("b")).by_refs([INFERRED])[INFERRED]
    assert later == answer


def test_inferred_versions_have_numbers_that_no_registry_gives(
    tmp_path: Path, registry: MemoryRegistry
) -> None:
    schemas = mixed(tmp_path, registry)
    assert [schemas.register(OWN, struct(*names), "STRUCT") for names in ("a", "ab", "ab")] == [-1, -2, -2]
    assert [version.id for version in schemas.versions(OWN)] == [-1, -2]
    assert [version.id for version in schemas.versions("moves")] == [1]
    answers = schemas.by_refs([1, -1, 99, -99, INFERRED])
    assert {ref: getattr(answer, "type", None) for ref, answer in answers.items()} == {
        1: "AVRO", -1: "STRUCT", 99: None, -99: None, INFERRED: "STRUCT",
    }  # fmt: skip
    assert schemas.by_ref(INFERRED).id == -2
    assert json.loads(schemas.by_ref(-1).text) == json.loads(struct("a"))
    with pytest.raises(SchemaNotFound):
        schemas.by_ref(-99)


def test_all_inferred_versions_are_asked_for_at_once(tmp_path: Path, registry: MemoryRegistry) -> None:
    files = FarAway(tmp_path / "schemas")
    schemas = MixedSchemas(registry, SchemaLocation(files, OWN))
    numbers = [schemas.register(OWN, struct(f"f{version}"), "STRUCT") for version in range(16)]
    files.only_together(8)
    answers = schemas.by_refs([1, *numbers])
    assert [getattr(answers[ref], "id", None) for ref in (1, *numbers)] == [1, *numbers]
    assert files.reads == 16


def test_the_inferred_schema_needs_no_registry(tmp_path: Path, registry: MemoryRegistry) -> None:
    schemas = mixed(tmp_path, registry)
    registry.down = True
    assert schemas.by_ref(INFERRED).inferred
    with pytest.raises(RegistryUnavailable):
        schemas.by_ref(1)


def test_the_first_record_without_a_schema_brings_one_that_grows(
    tmp_path: Path, registry: MemoryRegistry
) -> None:
    known = book(tmp_path, mixed(tmp_path, registry))
    assert [pinned.key for pinned in known.records] == [(1, ())]
    learned = known.learn([(INFERRED, ())])
    assert [pinned.key for pinned in learned.records] == [(-1, ())]
    assert newest_inferred(known.records) is None
    known.pin(learned.records)
    known.pin(known.grown({(-1, ()): [struct("level")]}, 1000))
    newest = newest_inferred(known.records)
    assert newest is not None
    assert known.records[newest].key == (-2, ())
    assert known.layout((-2, ())).names == ["level"]
    # A restart knows the same, and every version of either kind.
    assert book(tmp_path, mixed(tmp_path, registry)).records == known.records


def test_where_nothing_may_be_inferred_nothing_grows(tmp_path: Path, registry: MemoryRegistry) -> None:
    known = book(tmp_path, mixed(tmp_path, registry))
    assert known.grown({(-1, ()): [struct("level")]}, 1000) == []
    known.pin(known.learn([(INFERRED, ())]).records)
    assert known.grown({(-1, ()): [struct("a", "b")]}, 1) == []


def test_what_several_workers_propose_grows_a_schema_no_further_than_one_may(
    tmp_path: Path, registry: MemoryRegistry
) -> None:
    """However many decode.max_fields allows: a format has a bound of its own, which no worker alone goes beyond."""
    known = book(tmp_path, mixed(tmp_path, registry))
    known.pin(known.learn([(INFERRED, ())]).records)
    proposals = [struct(*(f"{worker}{number}" for number in range(3000))) for worker in "ab"]
    known.pin(known.grown({(-1, ()): proposals}, 10_000))
    assert len(known.layout((-2, ())).names) == 3000


def test_a_field_that_does_not_fit_has_no_known_field_tried_again(
    tmp_path: Path, registry: MemoryRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each try reads the whole schema, and one such record in every batch would keep the driver busy."""
    known, tried = book(tmp_path, mixed(tmp_path, registry)), list[int]()
    known.pin(known.learn([(INFERRED, ())]).records)
    fields = [f"f{number}" for number in range(100)]
    known.pin(known.grown({(-1, ()): [struct(*fields)]}, 1000))

    def fits(entity: str | None, before: pa.Schema, after: pa.Schema) -> bool:
        tried.append(len(after))
        return "bad" not in after.names

    known.pin(known.grown({(-2, ()): [struct(*fields, "bad", name) for name in "abcde"]}, 1000, fits))
    assert known.layout((-3, ())).names == [*fields, *"abcde"]
    assert len(tried) <= 3 * 5 + 1
    # Nor is any new field where there is room for none.
    within, held = SchemaBook._within, list[int]()

    def counting(of: SchemaBook, growing: Growing, schema: Schema, most: int) -> bool:
        held.append(most)
        return within(of, growing, schema, most)

    monkeypatch.setattr(SchemaBook, "_within", counting)
    more = [struct(*fields, *"abcde", "bad", *(f"{name}{number}" for number in range(50))) for name in "xyz"]
    assert known.grown({(-3, ()): more}, 105, fits) == []
    assert len(held) <= 3 * 2 + 1
