from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from distributary.errors import SetupError
from distributary.registry.base import Guid, Reference, Schema, SubjectVersion
from distributary.registry.disk.folder import SchemaFolder
from distributary.registry.disk.schema_file import from_document, sealed, to_document, unsealed

SCHEMA = Schema(
    7, "AVRO", '"ünt"', (Reference("b", "s", 2),), {"c": "1", "b": "2"}, Guid("guid"), ("ENCRYPT",)
)


def test_what_is_kept_is_read_again_whole(tmp_path: Path) -> None:
    SchemaFolder(tmp_path, "r").keep_schema(7, None, SCHEMA)
    found = SchemaFolder(tmp_path, "r").schema(7)
    assert found == SCHEMA
    assert list(found.imports) == ["c", "b"]


@given(
    st.builds(
        Schema,
        st.integers(0, 2**31 - 1),
        st.sampled_from(["AVRO", "PROTOBUF", "JSON"]),
        st.text(),
        st.lists(st.builds(Reference, st.text(), st.text(), st.integers(1)), max_size=3).map(tuple),
        st.dictionaries(st.text(), st.text(), max_size=3),
        st.none() | st.text().map(Guid),
        st.lists(st.text(), max_size=2).map(tuple),
    )
)
def test_any_schema_survives_being_written(schema: Schema) -> None:
    again = from_document(unsealed(sealed(to_document(schema))))
    assert again == schema
    assert list(again.imports) == list(schema.imports)


def test_registries_are_kept_apart(tmp_path: Path) -> None:
    SchemaFolder(tmp_path, "http://one").keep_schema(7, None, SCHEMA)
    assert SchemaFolder(tmp_path, "http://other").schema(7) is None


def test_contexts_ids_and_guids_are_kept_apart(tmp_path: Path) -> None:
    folder = SchemaFolder(tmp_path, "r")
    folder.keep_schema(7, ":.games:a", SCHEMA)
    folder.keep_schema(Guid("7"), None, SCHEMA)
    assert folder.schema(7) is None
    assert folder.schema(7, ":.games:b") is None
    assert folder.schema(7, ":.games:a") == folder.schema(Guid("7")) == SCHEMA


def test_refs_are_listed_lowest_ids_first_and_only_of_the_default_context(tmp_path: Path) -> None:
    folder = SchemaFolder(tmp_path, "r")
    for ref, subject in ((10, None), (9, None), (8, ":.c:s"), (Guid("../x"), None)):
        folder.keep_schema(ref, subject, SCHEMA)
    assert list(folder.refs()) == [9, 10, "../x"]
    assert {path.parent for path in tmp_path.rglob("*.json")} == {Path(folder.url)}


def test_whoever_wants_a_few_refs_reads_no_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a store each is a request, and the registry is held against a few of thousands at every start."""
    folder, read = SchemaFolder(tmp_path, "r"), list[Path]()
    for ref in range(95, 105):
        folder.keep_schema(ref, None, SCHEMA)
    content = Path.read_bytes

    def noted(path: Path) -> bytes:
        read.append(path)
        return content(path)

    monkeypatch.setattr(Path, "read_bytes", noted)
    assert list(islice(folder.refs(), 7)) == list(range(95, 102))
    assert len(read) == 7


def test_versions_are_kept_replaced_and_dropped(tmp_path: Path) -> None:
    folder = SchemaFolder(tmp_path, "r")
    listed = [SubjectVersion("a/ü", 1, 7, deleted=True), SubjectVersion("a/ü", 2, 8)]
    assert folder.versions("a/ü") is None
    folder.keep_versions("a/ü", listed[:1])
    folder.keep_versions("a/ü", listed)
    assert folder.versions("a/ü") == listed
    folder.drop_versions("a/ü")
    folder.drop_versions("a/ü")
    assert folder.versions("a/ü") is None


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: data.replace(b"nt", b"nT"),
        lambda data: data.replace(b'"format": 1', b'"format": 2'),
        lambda data: b"[]",
        lambda data: b"\xff",
        lambda data: b"[" * 100_000,
    ],
)
def test_a_damaged_file_counts_as_not_there(damage: object, tmp_path: Path) -> None:
    folder = SchemaFolder(tmp_path, "r")
    folder.keep_schema(7, None, SCHEMA)
    file = Path(folder.url) / "schema-id-7.json"
    data = file.read_bytes()
    file.write_bytes(damage(data))  # type: ignore[operator]
    assert file.read_bytes() != data
    assert folder.schema(7) is None
    folder.keep_schema(7, None, SCHEMA)
    assert folder.schema(7) == SCHEMA


def test_many_writers_leave_one_whole_file_and_nothing_else(tmp_path: Path) -> None:
    folder = SchemaFolder(tmp_path, "r")

    def write_and_read(_: int) -> Schema | None:
        folder.keep_schema(7, None, SCHEMA)
        return SchemaFolder(tmp_path, "r").schema(7)

    with ThreadPoolExecutor(8) as pool:
        assert set(map(repr, pool.map(write_and_read, range(50)))) == {repr(SCHEMA)}
    assert {path.name for path in Path(folder.url).iterdir()} == {"registry.json", "schema-id-7.json"}


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="name a folder"):
        SchemaFolder(tmp_path / "file", "r")
