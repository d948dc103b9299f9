"""Records that an inferred schema stays behind: reported by tasks, added up, and told of once."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest
from tests.ingest.kafka_records import TOPIC, Sent, aside_rows, batch, pins, rows_of

from distributary.ingest.pins import PinnedRecord
from distributary.ingest.settings.groups import Route
from distributary.ingest.worker.demux import Demultiplexer
from distributary.ingest.worker.fields_seen import GrowthWarnings, Sighting
from distributary.ingest.worker.fields_seen import join_outgrown as join
from distributary.ingest.worker.report import TaskReport, to_batch, total
from distributary.registry.base import Schema

TEXT = '{"type":"struct","fields":[{"name":"game","type":"string","nullable":true,"metadata":{}}]}'
WIDE = {f"k{number}": number for number in range(5)}


def demuxed(root: Path, *values: dict[str, object], **changes: object) -> TaskReport:
    inferred = PinnedRecord((1, ()), Schema(1, "STRUCT", TEXT))
    route = Route(field="game", table="{entity}")
    task = Demultiplexer(pins(root, codec="json", route=route, records=(inferred,), max_fields=2, **changes))
    task.take(batch([Sent(json.dumps(value).encode(), offset) for offset, value in enumerate(values, 3)]))
    return task.finish()


def test_records_beyond_the_bound_are_placed_at_once_and_reported(tmp_path: Path) -> None:
    report = demuxed(tmp_path, {"game": "go"}, {"game": "go", **WIDE}, {"game": "go", **WIDE})
    assert (report.questions.proposals, report.questions.aside) == ({}, [])
    rescued = [row["_rescued_data"] for row in rows_of(pins(tmp_path), report, "go")]
    assert [text and json.loads(text) for text in rescued if text] == [WIDE, WIDE]
    assert report.sightings.outgrown == {None: Sighting(2, (TOPIC, 0, 4))}
    both = total(bytes(to_batch(one)["report"][0].as_py()) for one in (report, report))
    assert both.sightings.outgrown == {None: Sighting(4, (TOPIC, 0, 4))}


def test_what_was_decided_before_is_reported_too(tmp_path: Path) -> None:
    report = demuxed(tmp_path, {"game": "go", "level": 1}, inferred_final=True)
    assert report.sightings.outgrown == {None: Sighting(1, (TOPIC, 0, 3))}
    assert demuxed(tmp_path, {"game": "go", "level": 1}, grow=False).sightings.outgrown == {}


def test_records_that_fit_wait_beside_those_that_do_not(tmp_path: Path) -> None:
    report = demuxed(tmp_path, {"game": "go", **WIDE}, {"game": "go", "level": 1})
    assert [
        len(aside_rows(tmp_path, report)),
        len(report.questions.proposals[1, ()]),
        report.sightings.outgrown,
    ] == [
        2,
        1,
        {},
    ]


def test_a_run_warns_of_each_schema_once_and_no_log_is_filled(caplog: pytest.LogCaptureFixture) -> None:
    warnings, one = GrowthWarnings(), Sighting(2, (TOPIC, 0, 1))
    with caplog.at_level(logging.WARNING):
        warnings.warn({None: one}, 3)
        warnings.warn({None: one, "go": one}, 3)
    assert [message[:35] for message in caplog.messages] == [
        "the inferred schema would grow beyo",
        "the inferred schema of go would gro",
    ]
    assert (
        "decode.max_fields (3) by fields of 2 records of this batch, first at game-events/0/1" in caplog.text
    )
    report = TaskReport()
    join(report.sightings.outgrown, {str(number): one for number in range(5_000)})
    warnings.warn(report.sightings.outgrown, 3)
    assert (len(report.sightings.outgrown), len(caplog.messages)) == (1_000, 100)
