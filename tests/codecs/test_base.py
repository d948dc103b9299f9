"""How a codec is found by its name; what each one keeps is in test_codec_contract.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pyarrow as pa
import pytest

from distributary.codecs.base import (
    Capabilities,
    Codec,
    Decoded,
    RecordPath,
    RecordReader,
    growing_reader,
    load_codec,
    picking,
    resolving,
    surveying,
)
from distributary.codecs.types.spark_struct import struct_json
from distributary.codecs.wire.header import Frames
from distributary.errors import ConfigError, DecoderUnavailable, UnknownCodec
from distributary.registry.base import Schema

LONG = Schema(1, "AVRO", '"long"')

SMOKE = """
from distributary import Codec

class SmokeCodec(Codec):
    puffs = 3

    def split(self, values, header_ids): ...

    def reader(self, schema, path): ...

class NoCodec: ...
"""


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UnknownCodec, match=r"'smoke'.*protobuf"):
        load_codec("smoke")


def test_other_packages_bring_codecs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "smoke_signals.py").write_text(SMOKE)
    about = tmp_path / "smoke_signals-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: smoke-signals\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[distributary.codecs]\nsmoke = smoke_signals:SmokeCodec\nfog = smoke_signals:NoCodec\n"
        "mist = smoke_signals:Nothing\nhaze = no_such_module:Haze\nbare = distributary.codecs.base:Codec\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    assert getattr(load_codec("smoke"), "puffs") == 3  # noqa: B009
    assert type(load_codec("smoke")).__module__ == "smoke_signals"
    with pytest.raises(
        UnknownCodec, match=r"NoCodec' is no codec; make its class a subclass of distributary\.Codec"
    ):
        load_codec("fog")
    for name, why in (("mist", "AttributeError"), ("haze", "ModuleNotFoundError"), ("bare", "TypeError")):
        with pytest.raises(
            UnknownCodec, match=rf"the codec '{name}' \(.*\) cannot be made: {why}\. Its entry"
        ):
            load_codec(name)
    monkeypatch.delitem(sys.modules, "smoke_signals")


def test_a_codec_without_what_is_asked_of_it_is_refused_in_a_sentence() -> None:
    avro, json = load_codec("avro"), load_codec("json")
    with pytest.raises(ConfigError, match="is not found without its schema"):
        picking(avro)
    with pytest.raises(ConfigError, match="are not surveyed"):
        surveying(avro)
    with pytest.raises(ConfigError, match="no rules for reading records as another schema has them"):
        resolving(json)
    with pytest.raises(ConfigError, match="records of long have a registered schema"):
        growing_reader(avro, LONG)
    assert picking(json)(pa.array([b'{"a":1}'], pa.binary()), ["a"]).to_pylist() == ["1"]
    assert surveying(json)(Schema(1, "STRUCT", struct_json(pa.schema([])))).fields == 0
    assert resolving(avro)(LONG, LONG, 0).schema == pa.schema([("value", pa.int64())])


def test_a_format_brings_two_methods_and_all_else_is_said_already() -> None:
    class Reader(RecordReader):
        name, schema = "smoke.Puff", pa.schema([("puffs", pa.int64())])

        def decode(self, payloads: pa.BinaryArray) -> Decoded:
            raise NotImplementedError

    class Smoke(Codec):
        def split(self, values: pa.BinaryArray, header_ids: pa.BinaryArray | None) -> Frames:
            raise NotImplementedError

        def reader(self, schema: Schema, path: RecordPath) -> RecordReader:
            return Reader()

    codec = Smoke()
    assert (codec.registered, codec.default_path, codec.takes_any_format) == (True, (), False)
    assert codec.capabilities == Capabilities()
    assert codec.knowing({1: "AVRO"}) is codec.codec_for(LONG) is codec
    assert [field.name for field in codec.description(LONG, ()).fields] == ["puffs"]
    with pytest.raises(DecoderUnavailable, match=r"smoke\.Puff: Spark has no function"):
        codec.reader(LONG, ()).column(None)  # type: ignore[arg-type]
