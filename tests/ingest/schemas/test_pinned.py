"""Pinned schemas, kept across restarts."""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import pytest

from distributary.errors import CheckpointMismatch
from distributary.ingest.checkpoint.folder import PINS, Checkpoint
from distributary.ingest.pins import RecordKey
from distributary.ingest.schemas import pinned
from distributary.ingest.schemas.pinned import PinsStore
from distributary.ingest.storage.posix import PosixFiles
from distributary.registry.base import Guid, Reference, Schema

PROTOBUF = Schema(
    7,
    "PROTOBUF",
    'syntax = "proto3";\nmessage Event { string name = 1; }\n',
    (Reference("z.proto", "z-value", 2),),
    {"z.proto": 'syntax = "proto3";', "a.proto": 'import "z.proto";'},
    Guid("0e5d2b7a-2a3f-4a5e-9f43-53a1cf39e6f1"),
    ("ENCRYPT",),
)
AVRO = Schema(8, "AVRO", '{"type": "string", "name": "x"}')


@pytest.fixture
def checkpoint(tmp_path: Path) -> Checkpoint:
    return Checkpoint.at(tmp_path)


def test_a_new_checkpoint_has_no_pins(checkpoint: Checkpoint) -> None:
    assert PinsStore(checkpoint).read() == []


def test_pins_outlive_the_process_in_full(checkpoint: Checkpoint) -> None:
    store = PinsStore(checkpoint)
    expected: dict[RecordKey, Schema] = {
        (7, (0,)): PROTOBUF,
        (7, (1, 2)): PROTOBUF,
        (8, ()): AVRO,
        (Guid("7"), ()): replace(AVRO, guid=Guid("7")),
    }
    for key, schema in expected.items():
        store.write(key, schema)
    found = dict(PinsStore(checkpoint).read())
    assert found == expected == dict(store.read())
    assert list(found[7, (0,)].imports) == ["z.proto", "a.proto"], "dependencies come first"


def test_pins_are_read_side_by_side(checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    """A query reads all of them as it begins, and years of schemas in a store are minutes one after the other."""
    store, both = PinsStore(checkpoint), threading.Barrier(2, timeout=30)
    for schema in (AVRO, replace(AVRO, id=9)):
        store.write((schema.id, ()), schema)
    reads = PosixFiles.read

    def read(files: PosixFiles, path: str) -> bytes:
        both.wait()
        return reads(files, path)

    monkeypatch.setattr(PosixFiles, "read", read)
    assert [key for key, _ in PinsStore(checkpoint).read()] == [(8, ()), (9, ())]


def test_pinning_twice_changes_nothing(checkpoint: Checkpoint) -> None:
    PinsStore(checkpoint).write((8, ()), AVRO)
    before = {file.name: file.stat().st_mtime_ns for file in (Path(str(checkpoint)) / PINS).iterdir()}
    again = PinsStore(checkpoint)
    again.write((8, ()), AVRO)
    again.write((8, ()), replace(AVRO, text='{"name":"x","type":"string"}'))
    assert {file.name: file.stat().st_mtime_ns for file in (Path(str(checkpoint)) / PINS).iterdir()} == before


@pytest.mark.parametrize("path", [(0,), (1,)])
def test_another_schema_by_the_same_id_is_refused(checkpoint: Checkpoint, path: tuple[int, ...]) -> None:
    PinsStore(checkpoint).write((7, (0,)), PROTOBUF)
    other = replace(PROTOBUF, text='syntax = "proto3"; message Other { int32 secret_name = 1; }')
    with pytest.raises(CheckpointMismatch, match="another schema for 7") as caught:
        PinsStore(checkpoint).write((7, path), other)
    assert "secret_name" not in str(caught.value)
    assert dict(PinsStore(checkpoint).read()) == {(7, (0,)): PROTOBUF}


def test_a_rival_who_was_first_is_compared_with(checkpoint: Checkpoint) -> None:
    late = PinsStore(checkpoint)
    assert late.read() == []
    PinsStore(checkpoint).write((8, ()), AVRO)
    late.write((8, ()), AVRO)
    latest = PinsStore(checkpoint)
    late_again = PinsStore(checkpoint)
    assert late_again.read() == [((8, ()), AVRO)]
    latest.write((9, ()), AVRO)
    with pytest.raises(CheckpointMismatch):
        late_again.write((9, ()), PROTOBUF)


@pytest.mark.parametrize("ref", ["../../outside", "A" * 4000, "\0", "", "x/y", "CON", "é"])
def test_a_reference_from_data_never_names_a_file(checkpoint: Checkpoint, ref: str) -> None:
    PinsStore(checkpoint).write((Guid(ref), (0,)), AVRO)
    (file,) = (Path(str(checkpoint)) / PINS).iterdir()
    assert file.name.isascii() and len(file.name) < 120
    assert PinsStore(checkpoint).read() == [((ref, (0,)), AVRO)]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"format":9}', "\xff"])
def test_an_edited_pin_is_named(checkpoint: Checkpoint, text: str) -> None:
    PinsStore(checkpoint).write((8, ()), AVRO)
    (Path(str(checkpoint)) / PINS / "id-8.json").write_text(text, encoding="latin-1")
    with pytest.raises(CheckpointMismatch, match=r"id-8\.json"):
        PinsStore(checkpoint).read()


def test_a_codec_may_know_that_other_words_mean_the_same(checkpoint: Checkpoint) -> None:
    reworded = replace(PROTOBUF, text="in base64, say")
    PinsStore(checkpoint).write((7, (0,)), PROTOBUF)
    PinsStore(checkpoint, same=lambda key, pinned, offered: True).write((7, (0,)), reworded)
    assert dict(PinsStore(checkpoint).read()) == {(7, (0,)): PROTOBUF}
    with pytest.raises(CheckpointMismatch):
        PinsStore(checkpoint, same=lambda key, pinned, offered: False).write((7, (0,)), reworded)


def test_a_schema_is_held_against_those_of_its_own_reference_alone(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand versions are each pinned once more as a query begins."""
    store, asked = PinsStore(checkpoint), list[Schema]()

    def same(one: Schema, other: Schema) -> bool:
        asked.append(other)
        return True

    monkeypatch.setattr(pinned, "same_schema", same)
    for turn in range(2):
        for number in range(50):
            store.write((number, ()), replace(AVRO, id=number))
        assert len(asked) == 50 * turn


def test_versions_of_an_inferred_schema_that_are_looked_for_elsewhere_are_told_of_with_what_to_do(
    checkpoint: Checkpoint,
) -> None:
    """As where the pipeline got another name, by which the folder of them is called."""
    texts = [
        f'{{"type": "struct", "fields": [{{"name": "{name}", "type": "long", "nullable": true, "metadata": {{}}}}]}}'
        for name in ("a", "b")
    ]
    PinsStore(checkpoint).write((1, ()), Schema(1, "STRUCT", texts[0]))
    with pytest.raises(
        CheckpointMismatch, match=r"version 1 of the inferred schema .*decode\.schema_location"
    ):
        PinsStore(checkpoint).write((1, ()), Schema(1, "STRUCT", texts[1]))
