"""Which message a name means."""

from __future__ import annotations

import pytest

from distributary.codecs.notebook.record_names import record_type
from distributary.codecs.protobuf.codec import ProtobufCodec
from distributary.errors import ConfigError
from distributary.registry.base import Schema

CODEC = ProtobufCodec()
SCHEMA = Schema(
    7,
    "PROTOBUF",
    'syntax = "proto3"; package a; import "parts.proto"; '
    "message First { map<string, int32> m = 1; message Inner { message Deep { int32 d = 1; } } b.Part part = 2; } "
    "message Second { message Inner { int32 i = 1; } }",
    imports={
        "parts.proto": 'syntax = "proto3"; package b; message Part { int32 p = 1; } message Second { int32 s = 1; }'
    },
)


@pytest.mark.parametrize(
    ("name", "path", "full", "imported"),
    [
        (None, (0,), "a.First", False),
        ("First", (0,), "a.First", False),
        ("a.Second", (1,), "a.Second", False),
        ("Second", (1,), "a.Second", False),
        ("Deep", (0, 1, 0), "a.First.Inner.Deep", False),
        ("Second.Inner", (1, 0), "a.Second.Inner", False),
        ("Part", (0,), "b.Part", True),
        ("b.Second", (1,), "b.Second", True),
    ],
)
def test_a_message_goes_by_its_simple_or_full_name(
    name: str | None, path: tuple[int, ...], full: str, imported: bool
) -> None:
    found = record_type(CODEC, SCHEMA, name)
    assert (found.path, found.imported, found.reader(CODEC).name) == (path, imported, full)


def test_a_name_that_means_several_is_refused() -> None:
    with pytest.raises(ConfigError, match="several messages of schema id 7 are called 'Inner'"):
        record_type(CODEC, SCHEMA, "Inner")


def test_a_name_that_means_none_is_refused_with_those_there_are() -> None:
    with pytest.raises(ConfigError, match=r"no message 'Nope'; it has: a\.First, a\.First\.Inner"):
        record_type(CODEC, SCHEMA, "Nope")
