from __future__ import annotations

import pytest

from distributary.ingest.spark.error_classes import overflowed, refused_row, worker_died


@pytest.mark.parametrize(
    ("text", "found"),
    [
        (
            "Job aborted due to stage failure: ... [DELTA_VIOLATE_CONSTRAINT_WITH_VALUES] CHECK",
            "DELTA_VIOLATE_CONSTRAINT_WITH_VALUES",
        ),
        ("[DELTA_NOT_NULL_CONSTRAINT_VIOLATED] NOT NULL", "DELTA_NOT_NULL_CONSTRAINT_VIOLATED"),
        ("[EXCEED_LIMIT_LENGTH] Exceeds char/varchar type length limitation: 3.", "EXCEED_LIMIT_LENGTH"),
        ("[DELTA_CONCURRENT_APPEND] Files were added", None),
        ("No space left on device", None),
    ],
)
def test_a_row_that_is_refused_for_good_is_known_by_its_error_class(text: str, found: str | None) -> None:
    assert refused_row(RuntimeError(text)) == found


def test_a_worker_that_died_is_told_from_one_that_raised() -> None:
    assert worker_died(RuntimeError("SparkException: Python worker exited unexpectedly (crashed)"))
    assert not worker_died(RuntimeError("PythonException: Traceback ... ValueError: x"))


def test_a_number_that_is_too_large_is_told_from_other_errors() -> None:
    assert overflowed(RuntimeError("java.lang.ArithmeticException: long overflow"))
    assert not overflowed(RuntimeError("java.io.IOException: disk full"))
