from __future__ import annotations

import json
from pathlib import Path

import pytest

from distributary.errors import BadSchema, CheckpointMismatch, NewerFormat, SchemaNotFound
from distributary.ingest.landing.written_with import WrittenWith, guid_of
from distributary.ingest.storage.posix import PosixFiles
from distributary.registry.base import Guid

A, B, C = (json.dumps({"type": "fixed", "name": name, "size": 3}) for name in "ABC")


@pytest.fixture
def place(tmp_path: Path) -> PosixFiles:
    return PosixFiles(tmp_path)


def opened(place: PosixFiles, *ahead: str) -> WrittenWith:
    return WrittenWith(place, "landing-value", ahead)


def test_a_schema_is_kept_once_and_found_by_whoever_reads_it(place: PosixFiles) -> None:
    one, other = opened(place), opened(place)
    assert one.named(A) == other.named(A) == guid_of(A)
    assert other.named(B) != one.named(A)
    assert one.named(C) == guid_of(C), "whoever was first meanwhile is learnt"
    late = opened(place)
    assert [late.by_ref(version.id).id for version in late.versions("landing-value")] == [1, 2, 3]
    assert json.loads(late.by_ref(guid_of(B)).text) == json.loads(B)
    assert late.by_ref(guid_of(B)).guid == guid_of(B)
    assert len(list(place.names("schemas"))) == 3


def test_what_no_file_has_is_not_found(place: PosixFiles) -> None:
    schemas = opened(place)
    for ref in (7, Guid("00000000-0000-0000-0000-000000000000"), guid_of(A)):
        assert isinstance(schemas.by_refs([ref])[ref], SchemaNotFound)
    with pytest.raises(SchemaNotFound, match="has a schema of landing-value"):
        schemas.versions("landing-value")
    schemas.named(A)
    with pytest.raises(SchemaNotFound):
        schemas.versions("landing-key")
    with pytest.raises(BadSchema, match="nobody registers them"):
        schemas.register("landing-value", A, "AVRO")


def test_schemas_that_are_ahead_are_the_next_versions_and_are_not_kept(place: PosixFiles) -> None:
    opened(place).named(A)
    ahead = opened(place, A, B)
    assert [version.id for version in ahead.versions("landing-value")] == [guid_of(A), guid_of(B)]
    assert len(list(place.names("schemas"))) == 1


def test_a_newer_format_is_refused_by_name_and_damage_is_told(place: PosixFiles) -> None:
    path = f"schemas/{1:020d}.json"
    for content in (b"{", b"[]", b'{"format": 1}'):
        place.put(path, content)
        with pytest.raises(CheckpointMismatch, match=r"0+1\.json was cut off or edited"):
            opened(place).named(A)
    place.put(path, b'{"format": 2}')
    with pytest.raises(NewerFormat, match="has format 2"):
        opened(place).named(A)


def test_a_worker_that_meets_a_schema_again_reads_no_others(
    place: PosixFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each task of each batch is a new one, and a folder may come to have thousands of schemas."""
    texts = [json.dumps({"type": "fixed", "name": f"F{number}", "size": 3}) for number in range(20)]
    for text in texts:
        opened(place).named(text)
    asked, read = list[str](), PosixFiles.read

    def counted(self: PosixFiles, path: str) -> bytes:
        asked.append(path)
        return read(self, path)

    monkeypatch.setattr(PosixFiles, "read", counted)
    assert opened(place).named(texts[7]) == guid_of(texts[7])
    assert len(asked) == 2
    place.delete([f"schemas/{20:020d}.json"])
    assert opened(place).named(texts[19]) == guid_of(texts[19]), "what is said and is not so is made so"
    assert len(opened(place).versions("landing-value")) == 20
