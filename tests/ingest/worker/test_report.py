from __future__ import annotations

from collections import Counter
from dataclasses import fields, is_dataclass
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ingest.kafka_records import task_report
from tests.ingest.pipelines import written

from distributary.ingest.columns.layout import Layout
from distributary.ingest.kafka.offset_spans import Span
from distributary.ingest.worker.fields_seen import LackedField, Sighting
from distributary.ingest.worker.report import Growth, TaskReport, Wish, to_batch, total

COUNTS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 9)).map(Counter)
REPORTS = st.builds(
    task_report,
    spans=st.dictionaries(
        st.tuples(st.just("t"), st.integers(0, 1)), st.builds(Span, st.just(1), st.just(2), st.just(3))
    ),
    rows=COUNTS,
    quarantined=COUNTS,
    dropped=COUNTS,
    newcomers=COUNTS,
    already=st.integers(0, 5),
    kept=COUNTS,
    waiting=st.integers(0, 5),
    stops=st.lists(st.text(max_size=2), max_size=2),
    aside=st.lists(st.text(max_size=2), max_size=2),
)

A = pa.schema([pa.field("a", pa.int64(), metadata={"distributary.source": "A"})])

PLACE = ("topic", 0, 5)

# Something in every field of an account.
FULL: dict[str, Any] = {
    "spans": {("t", 0): Span(1, 2, 3)},
    "rows": Counter(t=1),
    "decoded": Counter({7: 1}),
    "quarantined": Counter(r=1),
    "first": {"r": PLACE},
    "dropped": Counter(r=1),
    "already": 1,
    "kept": Counter(bronze=1),
    "expected": Counter({("t", "sane", True): 1}),
    "written": [written("t", A)],
    "growths": [Growth("t", (1, (0,)), 1, PLACE)],
    "wishes": [Wish("t", "T", (1, (0,)), Layout(A))],
    "requests": 1,
    "aside": ["x"],
    "waiting": 1,
    "records": Counter({("guid", ()): 1}),
    "keys": Counter({(2, ()): 1}),
    "proposals": {(3, ()): {"{}"}},
    "newcomers": Counter(a=1),
    "unmet": {"a": {"{}"}},
    "untold": True,
    "met": {(1, (0,)): {"t": PLACE}},
    "unknown": {LackedField(1, "M", "f"): Sighting(1, PLACE)},
    "outgrown": {None: Sighting(1, PLACE)},
    "unrouted": {("M", "why"): Sighting(1, PLACE)},
    "stops": ["no"],
    "retried": True,
    "large": True,
}


def through_spark(report: TaskReport) -> bytes:
    row: bytes = to_batch(report).column("report")[0].as_py()
    return row


def leaves(part: Any) -> dict[str, Any]:
    """The values of a report by their names, whichever part they are in."""
    found: dict[str, Any] = {}
    for one in fields(part):
        value = getattr(part, one.name)
        found |= leaves(value) if is_dataclass(value) else {one.name: value}
    return found


@given(st.lists(REPORTS, max_size=4))
@settings(deadline=None)
def test_all_tasks_together_report_the_sums(reports: list[TaskReport]) -> None:
    whole, parts = leaves(total(map(through_spark, reports))), [leaves(one) for one in reports]
    for name in ("rows", "quarantined", "dropped", "newcomers", "kept"):
        assert whole[name] == sum((one[name] for one in parts), Counter())
    for name in ("already", "waiting"):
        assert whole[name] == sum(one[name] for one in parts)
    for name in ("stops", "aside"):
        assert whole[name] == [value for one in parts for value in one[name]]
    assert sum(span.count for span in whole["spans"].values()) == sum(len(one["spans"]) for one in parts)


def test_every_field_arrives_as_it_was_sent() -> None:
    report = task_report(**FULL)
    assert leaves(report) == FULL
    found = total([through_spark(report)])
    assert found == report
    assert found.files.written[0].layout == report.files.written[0].layout


@pytest.mark.parametrize("name", FULL)
def test_no_field_is_lost_when_accounts_are_added(name: str) -> None:
    empty = TaskReport()
    assert {*leaves(empty)} == {*FULL}
    assert leaves(empty)[name] != FULL[name]
    found = total([through_spark(empty), through_spark(task_report(**{name: FULL[name]}))])
    assert leaves(found) == {**leaves(empty), name: FULL[name]}


def test_of_two_first_records_the_earlier_one_stays() -> None:
    places = [("topic", 0, 7), ("topic", 0, 5), ("topic", 1, 1)]
    reports = [through_spark(task_report(first={"r": place})) for place in places]
    assert total(reports).counts.first == {"r": ("topic", 0, 5)}
