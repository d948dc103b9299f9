"""What a worker does about schemas that its query was not made with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import pyarrow as pa
from tests.codecs.protobuf_samples import message_class

from distributary.codecs.notebook.query import Wanted, subject_decoding
from distributary.codecs.notebook.rows import MOST_ASKED, SubjectRows
from distributary.codecs.notebook.subject import News, SubjectDecoding
from distributary.registry.base import Answer, Schema, SchemaRef
from distributary.registry.memory import MemoryRegistry

TEXT = 'syntax = "proto3"; message Event { string game = 1; }'


@dataclass
class Asked:
    """A registry asked through it, and how often and for how many schemas that was."""

    registry: MemoryRegistry
    counts: list[int] = field(default_factory=list)

    def schemas(self, refs: Iterable[SchemaRef]) -> Mapping[SchemaRef, Answer]:
        wanted = list(refs)
        self.counts.append(len(wanted))
        return self.registry.by_refs(wanted, "games-value")

    def is_version(self, schema: Schema) -> bool:
        return False


def world() -> tuple[SubjectDecoding, Asked, int]:
    registry = MemoryRegistry()
    number = registry.register("games-value", TEXT, "PROTOBUF")
    asked = Asked(registry)
    decoding = subject_decoding(registry, "games-value", Wanted(None))
    return replace(decoding, news=News(lookup=asked)), asked, number


def record(number: int, game: str = "a") -> bytes:
    return (
        b"\0"
        + number.to_bytes(4, "big")
        + b"\0"
        + bytes(message_class(TEXT, "Event")(game=game).SerializeToString())
    )


def test_schemas_that_nobody_knows_are_asked_for_together_and_once() -> None:
    decoding, asked, number = world()
    rows = SubjectRows(decoding)
    values = pa.array(
        [record(number), *(record(number + 1_000 + n) for n in range(50)), record(number, "b")], pa.binary()
    )
    for _ in range(2):
        found = rows.decode(values)
        assert found.rows.column(0).to_pylist() == ["a", *[None] * 50, "b"]
        assert {failure.reason for failure in found.failures} == {"unknown_schema"}
    assert asked.counts == [50]


def test_bytes_that_name_a_schema_each_do_not_ask_for_ever() -> None:
    decoding, asked, number = world()
    strangers = [record(number + 1_000 + n) for n in range(MOST_ASKED + 5)]
    found = SubjectRows(decoding).decode(pa.array([*strangers, record(number)], pa.binary()))
    assert asked.counts == [MOST_ASKED]
    assert found.ok.tolist() == [*[False] * len(strangers), True]
    assert "was not asked for" in found.failures[-1].detail
