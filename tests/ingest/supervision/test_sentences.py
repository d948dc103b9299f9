"""What is told of errors in one sentence: where to look, and nothing that a row says."""

from __future__ import annotations

import pytest
from pyspark.errors import PythonException

from distributary.ingest.supervision.sentences import sentence

TRACE = """
  An exception was thrown from the Python worker. Please see the stack trace below.
Traceback (most recent call last):
  File "uploads.py", line 37, in put
{last}
"""


@pytest.mark.parametrize(
    ("last", "told"),
    [
        (
            "PermissionError: [Errno 13] Failed to open local file '/lake/chess/a.parquet'",
            "a worker met PermissionError: [Errno 13] Failed to open local file '/lake/chess/a.parquet'",
        ),
        ("OSError: http://a:9/x?sig=hush", "a worker met OSError: http://a:9/x?**********"),
        ("ValueError: hush", "Spark failed: PythonException; --debug shows all"),
        ("ValueError: a\nhush: b", "Spark failed: PythonException; --debug shows all"),
        ("pyarrow.lib.ArrowInvalid: hush", "Spark failed: PythonException; --debug shows all"),
    ],
)
def test_of_a_workers_exception_a_file_is_told_and_no_value(last: str, told: str) -> None:
    assert sentence(PythonException(message=TRACE.format(last=last)), {}) == told
