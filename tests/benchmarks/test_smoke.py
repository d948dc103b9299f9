"""The benchmarks whole, at sizes that measure nothing: nobody runs them often, and what they measure goes on changing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


# What they make of their measurements is in the files beside this one, and so is the smoke size of bench_storage.py.
@pytest.mark.heavy
@pytest.mark.spark
@pytest.mark.stack
@pytest.mark.parametrize(
    "options",
    [
        ["bench_demux"],
        ["bench_codecs"],
        # Whole it takes longer than a test may.
        ["bench_tables", "--only", "upserts"],
        ["bench_tables", "--only", "histories"],
        ["bench_tables", "--only", "partitioned,upkeep"],
        ["bench_pipelines"],
    ],
    ids=" ".join,
)
def test_a_benchmark_comes_to_its_end(options: list[str]) -> None:
    command = [sys.executable, f"benchmarks/{options[0]}.py", "--smoke", *options[1:]]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=280, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
