from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pyarrow as pa
import pytest

from distributary.codecs.avro.decode.fast import ArrowDecoder
from distributary.codecs.avro.types.columns import columns_of
from distributary.codecs.avro.types.schema import parse_schema

SCHEMA = '{"type": "record", "name": "R", "fields": [{"name": "a", "type": {"type": "fixed", "name": "F", "size": 30}}]}'


@pytest.fixture
def collected() -> Iterator[list[str]]:
    """Each start and end of a collection; there are as many as there can be."""
    heard: list[str] = []
    thresholds = gc.get_threshold()

    def listen(phase: str, _info: dict[str, int]) -> None:
        heard.append(phase)
        # A built-in function, which the interpreter holds to account for any error it finds set.
        sys.getrefcount(None)

    gc.callbacks.insert(0, listen)
    yield heard
    gc.set_threshold(*thresholds)
    gc.callbacks.remove(listen)


def test_who_listens_to_the_garbage_collector_meets_no_error_of_the_reader(
    collected: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    decoder = ArrowDecoder(columns_of(parse_schema(SCHEMA, {})))
    blamed: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", blamed.append)
    for threshold in range(1, 600):
        gc.set_threshold(1 + threshold % 40)
        with pytest.raises(Exception, match=r"Avro|error"):
            decoder.batch(pa.array([b"x" * 20], pa.binary()))
    assert collected
    assert blamed == []
