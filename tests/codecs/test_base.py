"""How a codec is found by its name; what each one keeps is in test_codec_contract.py."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from distributary.codecs.base import load_codec
from distributary.errors import UnknownCodec


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
