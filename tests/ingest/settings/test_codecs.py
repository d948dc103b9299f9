"""Codecs that a settings file names: one that cannot work is told before anything runs."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from tests.ingest.settings.test_model import SMALL, problems

FOG = """
from distributary import Codec

class FogCodec(Codec):
    registered = False

    def split(self, values, header_ids): ...

    def reader(self, schema, path): ...
"""


def test_a_codec_of_a_package_that_cannot_work_is_told_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "fog_codec.py").write_text(FOG)
    about = tmp_path / "fog_codec-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: fog-codec\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text(
        "[distributary.codecs]\nfog = fog_codec:FogCodec\nmist = fog_codec:Nothing\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    (no_growing,) = problems(tmp_path, SMALL + "decode: {format: fog}\n")
    assert no_growing.startswith("13:10: decode.format: the class of codec fog says by `registered` that")
    (not_made, other) = problems(tmp_path, SMALL + "decode: {format: mist}\nlimits: {arrow_rows: 0}\n")
    assert not_made.startswith("13:10: decode.format: the codec 'mist' (fog_codec:Nothing) cannot be made")
    assert other.startswith("14:10: limits.arrow_rows")
    monkeypatch.delitem(sys.modules, "fog_codec")
