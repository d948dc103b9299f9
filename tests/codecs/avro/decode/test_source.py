from __future__ import annotations

import subprocess
import sys

PROGRAM = """
import sys
import distributary.codecs.avro.codec
assert "polars" not in sys.modules
"""


def test_the_reader_needs_no_polars_and_so_starts_no_threads() -> None:
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stderr) == (0, "")
