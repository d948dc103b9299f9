"""A producer that is ahead of the registry is noticed, and told of once."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from tests.ingest.batches import demuxed
from tests.ingest.kafka_records import IDS, TOPIC, Sent, body, numbered, pins, value

from distributary.ingest.worker.fields_seen import LackedField, Sighting, UnknownFieldWarnings, join
from distributary.ingest.worker.report import TaskReport, to_batch, total
from distributary.producer_sim.formats.corruption import framed

AHEAD = framed(IDS[1], body(1, game_name="poker") + b"\xf8\x7f\x01")  # field 2047
LACKED = LackedField(IDS[1], "games.GameEvent", "2047")


def test_a_field_that_the_schema_names_not_is_in_the_report_with_its_first_record(tmp_path: Path) -> None:
    report = demuxed(pins(tmp_path), numbered([value(1, game_name="poker"), AHEAD, AHEAD]), [Sent(AHEAD, 9)])
    assert report.sightings.unknown == {LACKED: Sighting(3, (TOPIC, 0, 1))}
    assert sum(report.counts.rows.values()) == 4


def test_tasks_sightings_are_added_up(tmp_path: Path) -> None:
    tasks = [demuxed(pins(tmp_path), [Sent(AHEAD, offset)]) for offset in (5, 3)]
    whole = total(to_batch(task)["report"][0].as_py() for task in tasks)
    assert whole.sightings.unknown == {LACKED: Sighting(2, (TOPIC, 0, 3))}


def test_a_run_warns_of_each_field_once(caplog: pytest.LogCaptureFixture) -> None:
    warnings = UnknownFieldWarnings()
    one, other = Sighting(2, (TOPIC, 0, 1)), LackedField(12, "games.GameEvent", "venue.7")
    with caplog.at_level(logging.WARNING):
        warnings.warn({LACKED: one})
        warnings.warn({LACKED: one, other: one})
    assert [record.args[:3] for record in caplog.records if isinstance(record.args, tuple)] == [
        (11, "games.GameEvent", "2047"),
        (12, "games.GameEvent", "venue.7"),
    ]
    assert "game-events/0/1" in caplog.messages[0]


def test_what_random_bytes_name_fills_neither_a_report_nor_a_log(caplog: pytest.LogCaptureFixture) -> None:
    report, place = TaskReport(), (TOPIC, 0, 0)
    join(
        report.sightings.unknown,
        {LackedField(1, "M", str(number)): Sighting(1, place) for number in range(5_000)},
    )
    warnings = UnknownFieldWarnings()
    warnings.warn(report.sightings.unknown)
    warnings.warn(report.sightings.unknown)
    assert len(report.sightings.unknown) == 1_000
    assert len(caplog.messages) == 100
