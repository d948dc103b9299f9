"""The codec that the docs show how to write: found by its entry point, and held to the contract like the built-in ones."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pyarrow as pa
import pytest

from distributary.codecs import reasons
from distributary.codecs.base import Codec, load_codec
from distributary.codecs.describe import describe
from distributary.codecs.wire_header import TOMBSTONE, bodies
from distributary.errors import BadSchema
from distributary.registry.base import Schema

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "a-format-of-your-own.md"
SCHEMA = Schema(7, "JSON", '{"type": "object", "required": ["game", "score"]}')
HEADER = b"\0\0\0\0\x07"


@pytest.fixture
def codec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Codec:
    blocks = dict(re.findall(r"```(python|toml)\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL))
    (tmp_path / "pipe_codec.py").write_text(blocks["python"], encoding="utf-8")
    about = tmp_path / "pipe_codec-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: pipe-codec\nVersion: 1.0\n")
    entry = blocks["toml"].replace('[project.entry-points."distributary.codecs"]', "[distributary.codecs]")
    (about / "entry_points.txt").write_text(entry.replace('"', ""))
    monkeypatch.syspath_prepend(str(tmp_path))
    found = load_codec("pipe")
    monkeypatch.delitem(sys.modules, "pipe_codec")
    return found


def test_the_codec_of_the_docs_splits_and_decodes(codec: Codec) -> None:
    values = pa.array(
        [HEADER + b"chess|1200", None, HEADER + b"go", HEADER + b"\xff|1", HEADER + b"go|7"], pa.binary()
    )
    frames = codec.split(values, None)
    assert frames.kind.tolist() == [0, TOMBSTONE, 0, 0, 0]
    assert list(frames.kinds) == [(7, ())]
    payloads = bodies(values.drop_null(), codec.split(values.drop_null(), None))
    reader = codec.reader(SCHEMA, ())
    decoded = reader.decode(payloads)
    assert decoded.rows.to_pylist() == [{"game": "chess", "score": "1200"}, {"game": "go", "score": "7"}]
    assert decoded.source.tolist() == [0, 3]
    assert [(failure.row, failure.reason) for failure in decoded.failures] == [
        (1, reasons.MALFORMED),
        (2, reasons.MALFORMED),
    ]
    assert decoded.rows.schema == reader.schema
    assert all(field.nullable for field in reader.schema)
    assert reader.decode(pa.array([], pa.binary())).rows.num_rows == 0


def test_the_codec_of_the_docs_is_described_by_its_columns(codec: Codec) -> None:
    found = describe(codec, SCHEMA, ())
    assert (found.format, found.name) == ("JSON", "pipe")
    assert [(one.name, one.type.column) for one in found.fields] == [
        ("game", pa.string()),
        ("score", pa.string()),
    ]


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"required": 1}'])
def test_the_codec_of_the_docs_refuses_what_is_no_schema(codec: Codec, text: str) -> None:
    with pytest.raises(BadSchema):
        codec.reader(Schema(1, "JSON", text), ())
