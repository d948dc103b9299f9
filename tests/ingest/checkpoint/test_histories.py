from __future__ import annotations

import json
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.ingest.batches import demuxed
from tests.ingest.kafka_records import IDS, TOPIC, Sent, folder, pins, value

from distributary.ingest.checkpoint.histories import (
    History,
    carried_on,
    from_json,
    join_met,
    newly_met,
    to_json,
)
from distributary.ingest.pins import Coordinates, PinnedRecord, RecordKey
from distributary.registry.base import Schema

ONE, TWO = (IDS[1], (0,)), (IDS[2], (0,))

keys = st.tuples(
    st.integers(-5, 50) | st.text(max_size=5), st.lists(st.integers(0, 3), max_size=3).map(tuple)
)
histories = st.dictionaries(
    st.text(max_size=5), st.lists(keys, unique=True, max_size=4).map(tuple), max_size=6
)


@given(histories)
def test_histories_survive_being_written_down(known: dict[str, History]) -> None:
    assert from_json(json.loads(json.dumps(to_json(known)))) == known
    assert len(to_json(known)["histories"]) == len(set(known.values()))


def test_what_is_met_is_carried_on_in_the_order_of_registration_and_only_once() -> None:
    here: Coordinates = ("t", 0, 5)
    met: dict[RecordKey, dict[str, Coordinates]] = {
        (7, ()): {"a": here, "b": here},
        (3, ()): {"a": here, "gone": here},
    }
    known = {"a": ((3, ()),), "c": ((1, ()),)}
    assert newly_met(met, known) == {
        "gone": [((3, ()), here)],
        "a": [((7, ()), here)],
        "b": [((7, ()), here)],
    }
    after = carried_on(known, met, {"a", "b", "c"})
    assert after == {"a": ((3, ()), (7, ())), "b": ((7, ()),), "c": ((1, ()),)}
    assert carried_on(after, met, set(after)) == after


def test_of_the_versions_of_an_inferred_schema_that_a_table_met_the_last_stays_for_the_next() -> None:
    """No record comes with one before it any more: what a manifest holds of a table does not grow with its age."""
    here: Coordinates = ("t", 0, 5)
    records = [
        PinnedRecord((7, ()), Schema(7, "AVRO", "{}")),
        *(PinnedRecord((-n, ()), Schema(-n, "STRUCT", "{}", entity="go")) for n in (1, 2, 4, 5)),
        PinnedRecord((-3, ()), Schema(-3, "STRUCT", "{}")),
    ]
    known: dict[str, History] = {
        "a": ((-1, ()), (7, ()), (-2, ()), (-3, ())),
        "b": ((-1, ()), (-2, ())),
        "c": ((99, ()), (-1, ())),
    }
    after = carried_on(known, {(-4, ()): {"a": here, "c": here}}, {"a", "b", "c"}, records)
    assert after == {
        "a": ((7, ()), (-2, ()), (-3, ()), (-4, ())),
        "b": ((-1, ()), (-2, ())),
        "c": ((99, ()), (-1, ()), (-4, ())),
    }
    # The ledger tells what a version came after, though it was met in one batch and a column came in another.
    assert carried_on(after, {}, set(after), records) == after
    assert carried_on(after, {(-5, ()): {"c": here}}, set(after), records)["c"] == (
        (99, ()), (-4, ()), (-5, ()),
    )  # fmt: skip


def test_inferred_versions_count_away_from_zero() -> None:
    here: Coordinates = ("t", 0, 5)
    found = newly_met({(-2, ()): {"a": here}, (-1, ()): {"a": here}}, {})
    assert [key for key, _ in found["a"]] == [(-1, ()), (-2, ())]


def test_a_task_reports_the_first_record_of_what_a_table_had_not_met(tmp_path: Path) -> None:
    golf, quest = ({"game_name": name} for name in ("golf", "quest"))
    sent = [
        Sent(value(1, **golf), 3),
        Sent(value(2, **golf), 4),
        Sent(value(1, **quest), 5),
        Sent(value(2, **golf), 6),
        Sent(value(2, **quest), 7),
    ]
    by = pins(tmp_path, met={folder("golf"): (ONE,)})
    report = demuxed(by, sent[:3], sent[3:])
    assert report.sightings.met == {
        TWO: {folder("golf"): (TOPIC, 0, 4), folder("quest"): (TOPIC, 0, 7)},
        ONE: {folder("quest"): (TOPIC, 0, 5)},
    }
    join_met(report.sightings.met, {TWO: {folder("golf"): (TOPIC, 0, 2), "new": (TOPIC, 1, 1)}})
    assert report.sightings.met[TWO] == {
        folder("golf"): (TOPIC, 0, 2),
        folder("quest"): (TOPIC, 0, 7),
        "new": (TOPIC, 1, 1),
    }
