"""What is recognised of Spark's errors: the one place that knows their words, as Spark 4.0 and Delta 4.4 say them.

An error that a task met reaches the driver as text within another error, so that its class is read from there. What has
no error class is recognised by the sentence that Spark puts in its place.
"""

from __future__ import annotations

import re

# Spark says so when a Python worker's process ends without an exception: a native decoder crashed.
_WORKER_DIED = ("Python worker exited unexpectedly", "Python worker process terminated")

# Error classes that the same rows meet again however often they are written.
_ROW_REFUSED = re.compile(
    r"DELTA_VIOLATE_CONSTRAINT\w*|DELTA_NOT_NULL_CONSTRAINT\w*|DELTA_MISSING_NOT_NULL\w*|DELTA_GENERATED_COLUMN\w*"
    r"|DELTA_IDENTITY_COLUMNS_\w*|DELTA_FAILED_TO_MERGE_FIELDS\w*|DELTA_EXCEED_CHAR_VARCHAR_LIMIT|EXCEED_LIMIT_LENGTH|CAST_OVERFLOW\w*|CAST_INVALID_INPUT"
)


def worker_died(error: BaseException) -> bool:
    """Whether a Python worker's process ended without an exception of its own."""
    text = str(error)
    return any(sentence in text for sentence in _WORKER_DIED)


def refused_row(error: BaseException) -> str | None:
    """The error class by which a writer refuses a row for good; None for an error that another try may not meet."""
    found = _ROW_REFUSED.search(str(error))
    return None if found is None else found[0]


def overflowed(error: BaseException) -> bool:
    """Whether a value was too large for the type it was to become; Java's arithmetic has no error class."""
    return "overflow" in str(error)
