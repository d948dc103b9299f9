from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from distributary.errors import BadSchema
from distributary.registry.protobuf.text import checked_import_name

_nasty = st.sampled_from(
    ["..", ".", "", "/", "\\", "C:", "~", "\x00", "\u202e", "a", "b.proto", " ", "\n", "%2e%2e"]
)
_names = st.one_of(st.text(), st.lists(_nasty, max_size=6).map("/".join), st.lists(_nasty).map("".join))


@settings(deadline=None)
@given(_names)
def test_no_accepted_name_leaves_its_folder(name: str) -> None:
    try:
        checked_import_name(name)
    except BadSchema:
        return
    root = Path("/root-of-imports")
    assert (root / name).resolve().is_relative_to(root)
    assert (root / name).resolve() != root
    assert not PurePosixPath(name).is_absolute()
    assert not PureWindowsPath(name).drive
    assert not PureWindowsPath(name).root
    assert PurePosixPath(name).as_posix() == name


@settings(deadline=None)
@given(st.lists(st.from_regex(r"[A-Za-z0-9_\-]{1,20}", fullmatch=True), min_size=1, max_size=6))
def test_ordinary_names_are_kept_as_they_are(parts: list[str]) -> None:
    name = "/".join(parts) + ".proto"
    assert checked_import_name(name) == name


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/a",
        "a/",
        "a//b",
        "../a",
        "a/../b",
        "./a",
        "a\\b",
        "C:/a",
        "http://a",
        "a\0",
        "a\n",
        "x" * 300,
        "a/" * 40 + "a",
    ],
)
def test_hostile_names_are_refused(name: str) -> None:
    with pytest.raises(BadSchema, match="import name"):
        checked_import_name(name)


@settings(deadline=None)
@given(st.text(min_size=1))
def test_a_refusal_stays_short_and_printable(name: str) -> None:
    try:
        checked_import_name(name * 500)
    except BadSchema as refusal:
        assert len(str(refusal)) < 1_500
        assert str(refusal).isprintable()
    else:
        assume(False)
