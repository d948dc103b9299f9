"""The seam: every built-in codec keeps the contract, and other packages can bring their own."""

from __future__ import annotations

import pickle
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from distributary.codecs.base import BUILT_IN, INFERRED, Codec, Decoded, load_codec
from distributary.codecs.wire_header import TOMBSTONE
from distributary.errors import BadSchema, UnknownCodec
from distributary.registry.base import Schema

# One line a codec: a schema with a text `name` and an integer `n`, the record's path, one good body, one broken one.
SAMPLES = {
    "auto": (
        Schema(
            7,
            "AVRO",
            '{"type": "record", "name": "p.Sample", "fields": '
            '[{"name": "name", "type": "string"}, {"name": "n", "type": "int"}]}',
        ),
        (),
        b"\x02a\x0a",
        b"\x02",
        b"\0\0\0\0\x07",
    ),
    "avro": (
        Schema(
            7,
            "AVRO",
            '{"type": "record", "name": "p.Sample", "fields": '
            '[{"name": "name", "type": "string"}, {"name": "n", "type": "int"}]}',
        ),
        (),
        b"\x02a\x0a",
        b"\x02",
        b"\0\0\0\0\x07",
    ),
    "json": (
        Schema(
            7,
            "STRUCT",
            '{"type": "struct", "fields": [{"name": "name", "type": "string"}, {"name": "n", "type": "integer"}]}',
        ),
        (),
        b'{"name": "a", "n": 5}',
        b'{"name": "a"',
        b"",
    ),
    "jsonschema": (
        Schema(
            7,
            "JSON",
            '{"type": "object", "properties": {"name": {"type": "string"}, "n": {"type": "integer"}}}',
        ),
        (),
        b'{"name": "a", "n": 5}',
        b'{"name": "a"',
        b"\0\0\0\0\x07",
    ),
    "protobuf": (
        Schema(
            7, "PROTOBUF", 'syntax = "proto3"; package p; message Sample { string name = 1; int32 n = 2; }'
        ),
        (0,),
        b"\n\x01a\x10\x05",
        b"\n\xff",
        b"\0\0\0\0\x07\0",
    ),
}


@pytest.fixture(params=sorted(BUILT_IN))
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def codec(name: str) -> Codec:
    return load_codec(name)


def test_a_batch_is_split_and_decoded(codec: Codec, name: str) -> None:
    schema, path, good, broken, header = SAMPLES[name]
    frames = codec.split(pa.array([header + good, None, b"?"], pa.binary()), None)
    # Where records name no schema, whatever is there is a body.
    assert list(frames.kinds) == [(7 if codec.registered else INFERRED, path)]
    assert frames.kind.tolist() == [0, TOMBSTONE, -1 if codec.registered else 0]
    reader = codec.reader(pickle.loads(pickle.dumps(schema)), path)  # noqa: S301
    decoded = reader.decode(pa.array([good, broken, good], pa.binary()))
    assert isinstance(decoded, Decoded)
    assert decoded.rows.to_pylist() == [{"name": "a", "n": 5}] * 2
    assert decoded.rows.schema == reader.schema
    assert decoded.source.tolist() == [0, 2]
    assert [failure.row for failure in decoded.failures] == [1]
    assert all(field.nullable for field in reader.schema)


def test_an_unusable_schema_is_refused(codec: Codec, name: str) -> None:
    with pytest.raises(BadSchema):
        codec.reader(Schema(1, SAMPLES[name][0].type, "no schema at all {"), SAMPLES[name][1])


def test_every_built_in_codec_has_a_sample() -> None:
    assert set(SAMPLES) == set(BUILT_IN)


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownCodec, match=r"'smoke'.*protobuf"):
        load_codec("smoke")


def test_other_packages_bring_codecs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "smoke_signals.py").write_text("class SmokeCodec:\n    puffs = 3\n")
    about = tmp_path / "smoke_signals-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: smoke-signals\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[distributary.codecs]\nsmoke = smoke_signals:SmokeCodec\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert getattr(load_codec("smoke"), "puffs") == 3  # noqa: B009
    assert type(load_codec("smoke")).__module__ == "smoke_signals"
    monkeypatch.delitem(sys.modules, "smoke_signals")
