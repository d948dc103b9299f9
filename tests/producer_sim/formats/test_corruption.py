"""Nothing accepts a corrupt record: not the wire header's reader, not protobuf's, not the pipeline's decoder."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from google.protobuf.message import DecodeError

from distributary.codecs.base import load_codec
from distributary.errors import BadSchema
from distributary.producer_sim.events.versions import event_schema
from distributary.producer_sim.formats.corruption import UNKNOWN_IDS, framed, value_digest
from distributary.producer_sim.formats.protobuf import (
    BROKEN_ENDINGS,
    ProtobufFormat,
    record_class,
    schema_text,
)
from distributary.producer_sim.traffic.events import EventMaker, Population
from distributary.registry.base import Schema

ID = 7
BODIES = EventMaker(3, Population(games=("golf",), gamers=5), 1).chunk(3, 0, 20).bodies
SCHEMA = Schema(ID, "PROTOBUF", schema_text(3))


def corrupted(kind: str) -> pa.Array:
    rng, corrupt = np.random.default_rng(1), ProtobufFormat.corruptions[kind]
    return pa.array([corrupt(rng, framed(ID, b""), body) for body in BODIES], pa.binary())


def test_a_good_record_is_read() -> None:
    frames = load_codec("protobuf").split(pa.array([framed(ID, body) for body in BODIES], pa.binary()), None)
    assert list(frames.kinds) == [(ID, (0,))]
    assert not frames.errors
    assert set(frames.start.tolist()) == {6}


@pytest.mark.parametrize("kind", ["bad_magic", "truncated_header"])
def test_no_header_is_found(kind: str) -> None:
    frames = load_codec("protobuf").split(corrupted(kind), None)
    assert [row for row, *_ in frames.errors] == list(range(len(BODIES)))


def test_an_unknown_id_is_one_of_a_few() -> None:
    frames = load_codec("protobuf").split(corrupted("unknown_id"), None)
    assert {ref for ref, _ in frames.kinds} <= set(UNKNOWN_IDS)
    assert max(UNKNOWN_IDS) < 2**31


def test_the_message_index_leads_nowhere() -> None:
    codec = load_codec("protobuf")
    frames = codec.split(corrupted("bad_message_index"), None)
    assert list(frames.kinds) == [(ID, (5000,))]
    with pytest.raises(BadSchema):
        codec.reader(SCHEMA, (5000,))


@pytest.mark.parametrize("ending", BROKEN_ENDINGS)
def test_protobuf_rejects_what_is_malformed(ending: bytes) -> None:
    for body in BODIES:
        with pytest.raises(DecodeError):
            record_class(event_schema(3)).FromString(body + ending)


def test_the_pipeline_s_decoder_rejects_it_too() -> None:
    bodies = pa.array([body + ending for body in BODIES for ending in BROKEN_ENDINGS], pa.binary())
    decoded = load_codec("protobuf").reader(SCHEMA, (0,)).decode(bodies)
    assert len(decoded.failures) == len(bodies)


def test_a_digest_tells_values_apart() -> None:
    assert value_digest(b"a") != value_digest(b"b")
    assert len(value_digest(b"")) == 16
