from __future__ import annotations

from collections import Counter

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.ingest.pipelines import written

from distributary.ingest.kafka.places import Span
from distributary.ingest.worker.report import Growth, TaskReport, to_batch, total

COUNTS = st.dictionaries(st.sampled_from("abc"), st.integers(1, 9)).map(Counter)
REPORTS = st.builds(
    TaskReport,
    spans=st.dictionaries(
        st.tuples(st.just("t"), st.integers(0, 1)), st.builds(Span, st.just(1), st.just(2), st.just(3))
    ),
    rows=COUNTS,
    quarantined=COUNTS,
    dropped=COUNTS,
    newcomers=COUNTS,
    already=st.integers(0, 5),
    aside_rows=st.integers(0, 5),
    stops=st.lists(st.text(max_size=2), max_size=2),
    aside=st.lists(st.text(max_size=2), max_size=2),
)


def through_spark(report: TaskReport) -> bytes:
    row: bytes = to_batch(report).column("report")[0].as_py()
    return row


@given(st.lists(REPORTS, max_size=4))
@settings(deadline=None)
def test_all_tasks_together_report_the_sums(reports: list[TaskReport]) -> None:
    whole = total(map(through_spark, reports))
    for name in ("rows", "quarantined", "dropped", "newcomers"):
        assert getattr(whole, name) == sum((getattr(one, name) for one in reports), Counter())
    assert whole.already == sum(one.already for one in reports)
    assert whole.aside_rows == sum(one.aside_rows for one in reports)
    assert whole.stops == [stop for one in reports for stop in one.stops]
    assert sum(span.count for span in whole.spans.values()) == sum(len(one.spans) for one in reports)


def test_files_questions_and_growths_arrive_as_they_were_sent() -> None:
    report = TaskReport(
        files=[written("t", pa.schema([pa.field("a", pa.int64(), metadata={"distributary.source": "A"})]))],
        growths=[Growth("t", (1, (0,)), 1, ("topic", 0, 5))],
        questions=Counter({("guid", ()): 3}),
    )
    found = total([through_spark(report)])
    assert found == report
    assert found.files[0].layout == report.files[0].layout


def test_what_was_set_aside_is_forgotten_once_it_is_taken_up() -> None:
    report = TaskReport(rows=Counter(t=1), aside=["x"], aside_rows=4, newcomers=Counter(a=4))
    report.no_longer_aside()
    assert report == TaskReport(rows=Counter(t=1))
