"""A location with versions of one schema an entity."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.ingest.asked import AskedFiles
from tests.ingest.schemas.far_away import FarAway

from distributary.codecs.base import INFERRED
from distributary.errors import BadSchema, SchemaNotFound
from distributary.ingest.schemas.inferred import SchemaLocation
from distributary.ingest.schemas.inferred_per_entity import EntitySchemas, entity_name
from distributary.ingest.schemas.mixed import MixedSchemas
from distributary.ingest.storage.opening import files_at
from distributary.registry.memory import MemoryRegistry

SUBJECT = "inferred:games"


def struct(**types: str) -> str:
    fields = [{"name": n, "type": of, "nullable": True, "metadata": {}} for n, of in types.items()]
    return json.dumps({"type": "struct", "fields": fields})


@pytest.fixture
def location(tmp_path: Path) -> EntitySchemas:
    return EntitySchemas(files_at(tmp_path / "schemas"), SUBJECT)


def test_versions_count_over_all_entities_and_tell_whose_they_are(location: EntitySchemas) -> None:
    first = location.register_each({"go": struct(score="long"), "chess": struct(score="string")})
    assert {name: schema.id for name, schema in first.items()} == {"chess": 1, "go": 2}
    grown = struct(score="long", level="long")
    again = location.register_each({"go": grown, "chess": struct(score="string")})
    assert {name: schema.id for name, schema in again.items()} == {"chess": 1, "go": 3}
    anew = EntitySchemas(files_at(location.folder), SUBJECT)
    assert [version.id for version in anew.versions(SUBJECT)] == [1, 2, 3]
    assert [anew.by_ref(number).entity for number in (1, 2, 3)] == ["chess", "go", "go"]
    assert {name: schema.id for name, schema in anew.newest(["go", "ludo"]).items()} == {"go": 3}
    assert json.loads(Path(location.folder, "go", "3.json").read_text(encoding="utf-8")) == json.loads(grown)
    with pytest.raises(SchemaNotFound):
        anew.by_ref(4)


def test_the_schemas_of_many_entities_are_asked_for_at_once(tmp_path: Path) -> None:
    """A thousand entities that a batch brings, or that grow in it, would hold it up for as long."""
    files = FarAway(tmp_path / "schemas")
    names = [f"game_{number:02}" for number in range(16)]
    for number, name in enumerate(names, 1):
        files.put_new(f"{name}/{number}.json", struct(a="long").encode())
    files.only_together(8)
    location = EntitySchemas(files, SUBJECT)
    assert [schema.id for schema in location.newest(names).values()] == list(range(1, 17))
    same = location.register_each(dict.fromkeys(names, struct(a="long")))
    assert [schema.id for schema in same.values()] == list(range(1, 17))
    assert [schema.entity for schema in location.by_refs(range(1, 17)).values()] == names  # type: ignore[union-attr]


def test_records_without_an_entity_have_versions_beside_the_entities(location: EntitySchemas) -> None:
    location.register_each({"go": struct(a="long")})
    nobody = location.by_ref(INFERRED)
    assert (nobody.id, nobody.entity) == (2, None)
    assert location.register(SUBJECT, struct(b="long")) == 3
    assert location.by_ref(INFERRED).id == 3
    assert location.names() == ["go"]


@pytest.mark.parametrize("entity", ["Go!", "../up", "quarantine", "日本", "a" * 200])
def test_an_entity_whose_name_is_not_its_own_is_found_again(location: EntitySchemas, entity: str) -> None:
    name = entity_name(entity, fold_case=True)
    location.register_each({name: struct(a="long")}, {name: entity})
    anew = EntitySchemas(files_at(location.folder), SUBJECT)
    assert [anew.entity(name) for name in anew.names()] == [entity]
    assert [path.name for path in Path(location.folder, name).iterdir()] == ["1.json"]


def test_of_many_who_write_at_once_no_two_get_one_number(location: EntitySchemas) -> None:
    def write(turn: int) -> set[int]:
        own = EntitySchemas(files_at(location.folder), SUBJECT)
        made = own.register_each({f"game_{place}": struct(**{f"f{turn}": "long"}) for place in range(3)})
        return {schema.id for schema in made.values()}

    with ThreadPoolExecutor(4) as pool:
        numbers = [number for made in pool.map(write, range(4)) for number in made]
    assert sorted(numbers) == list(range(1, 13))


def test_numbers_that_others_have_claimed_stay_theirs_written_or_not(location: EntitySchemas) -> None:
    location.register_each({"go": struct(a="long"), "chess": struct(a="long")})
    claim = json.dumps({"numbers": 5, "by": "somebody"}).encode()
    assert files_at(location.folder).put_new("_numbers/3.json", claim)
    assert location.register_each({"ludo": struct(a="long")})["ludo"].id == 8
    assert [one.id for one in EntitySchemas(files_at(location.folder), SUBJECT).versions(SUBJECT)] == [
        1,
        2,
        8,
    ]


def test_versions_from_before_numbers_were_claimed_keep_theirs(location: EntitySchemas) -> None:
    for name, number in (("go", 4), ("chess", 7)):
        Path(location.folder, name).mkdir(parents=True)
        Path(location.folder, name, f"{number}.json").write_text(struct(a="long"), encoding="utf-8")
    Path(location.folder, "_lock").touch()
    made = location.register_each({"go": struct(a="long"), "chess": struct(a="string")})
    assert {name: schema.id for name, schema in made.items()} == {"go": 4, "chess": 8}


def test_a_claim_that_was_cut_off_is_named(location: EntitySchemas) -> None:
    location.register_each({"go": struct(a="long")})
    Path(location.folder, "_numbers", "1.json").write_text("{", encoding="utf-8")
    with pytest.raises(BadSchema, match=r"_numbers/1\.json was edited or cut off; remove it"):
        location.register_each({"go": struct(a="string")})


def test_a_number_in_two_folders_is_refused_by_name(location: EntitySchemas) -> None:
    location.register_each({"go": struct(a="long"), "chess": struct(a="long")})
    Path(location.folder, "go", "1.json").write_text(struct(b="long"), encoding="utf-8")
    with pytest.raises(BadSchema, match=r"version 1 is in .*chess and .*go"):
        location.versions(SUBJECT)


def test_beside_a_registry_their_numbers_are_below_zero(location: EntitySchemas) -> None:
    mixed = MixedSchemas(MemoryRegistry(), location)
    made = mixed.register_each({"go": struct(a="long")})
    assert (made["go"].id, made["go"].entity) == (-1, "go")
    assert mixed.newest(["go"])["go"] == mixed.by_ref(-1) == made["go"]


def test_each_entity_has_a_subject_for_those_who_plan(location: EntitySchemas) -> None:
    location.register_each({"go": struct(a="long"), "chess": struct(a="long")})
    location.register_each({"go": struct(a="long", b="long")})
    assert location.subjects() == [f"{SUBJECT}/chess", f"{SUBJECT}/go"]
    mixed = MixedSchemas(MemoryRegistry(), location)
    assert [version.id for version in location.versions(f"{SUBJECT}/go")] == [2, 3]
    assert [version.id for version in mixed.versions(f"{SUBJECT}/go")] == [-2, -3]
    with pytest.raises(SchemaNotFound):
        location.versions(f"{SUBJECT}/ludo")


def test_the_versions_of_one_entity_are_found_without_looking_at_all_others(tmp_path: Path) -> None:
    """Who plans asks for those of each: of a thousand entities that would be a million listings."""
    files = AskedFiles(tmp_path / "schemas")
    location = EntitySchemas(files, SUBJECT)
    names = [f"game_{number:02}" for number in range(20)]
    location.register_each(dict.fromkeys(names, struct(a="long")))
    files.told = 0
    found = {name: location.versions(f"{SUBJECT}/{name}") for name in names}
    assert files.told == 20
    assert [[one.id for one in found[name]] for name in names] == [[number] for number in range(1, 21)]
    for nobody in (f"{SUBJECT}/ludo", f"{SUBJECT}/", f"{SUBJECT}/_numbers", f"{SUBJECT}/../schemas/game_01"):
        with pytest.raises(SchemaNotFound):
            location.versions(nobody)
    # Another one may look for them first of all.
    anew = EntitySchemas(files, SUBJECT)
    (version,) = anew.versions(f"{SUBJECT}/game_07")
    assert anew.by_ref(version.id).entity == "game_07"


def test_one_schema_for_all_goes_on_counting_where_there_was_one_an_entity(location: EntitySchemas) -> None:
    location.register_each({"go": struct(a="long"), "chess": struct(a="long")})
    assert SchemaLocation(files_at(location.folder), SUBJECT).register(SUBJECT, struct(b="long")) == 3
    assert location.register_each({"go": struct(a="string")})["go"].id == 4
