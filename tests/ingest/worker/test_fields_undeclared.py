from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.ingest.batches import demuxed
from tests.ingest.kafka_records import numbered, pins, rows_of

from distributary.ingest.pins import PinnedRecord
from distributary.ingest.settings.groups import Route
from distributary.producer_sim.formats.corruption import HEADER
from distributary.registry.base import Schema

TEXT = json.dumps({"type": "object", "properties": {"game": {"type": "string"}}})
RECORDS = (PinnedRecord((7, ()), Schema(7, "JSON", TEXT)),)


@pytest.mark.parametrize("codec", ["jsonschema", "auto"])
def test_a_property_that_its_schema_does_not_declare_is_rescued(tmp_path: Path, codec: str) -> None:
    by = pins(tmp_path, codec=codec, records=RECORDS, route=Route(field="game", table="t_{entity}"))
    sent = [{"game": "go"}, {"game": "go", "more": {"x": 1}}]
    report = demuxed(by, numbered([HEADER.pack(0, 7) + json.dumps(one).encode() for one in sent]))
    rescued = [row["_rescued_data"] for row in rows_of(by, report, "t_go")]
    assert sorted(map(str, rescued)) == ["None", '{"more":{"x": 1}}']
    assert not report.questions.waiting
