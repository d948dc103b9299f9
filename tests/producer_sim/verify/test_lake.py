"""A pipeline's tables seen from outside: whatever their folders are called, and however early one stops to read."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from distributary.producer_sim.verify.lake import batches

# Long enough for a process that ends, and for the reader's threads to be amid a file when it does.
ENDS_WITHIN = 60
FILES = 8
ROWS_A_FILE = 1_000_000
STOPS_EARLY = """
import sys
from deltalake import DeltaTable
from distributary.producer_sim.verify.lake import batches

for at, _ in enumerate(batches(DeltaTable(sys.argv[1]))):
    if at == int(sys.argv[2]):
        raise SystemExit(3)
"""


@pytest.fixture(scope="module")
def long_table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of several files, each of several batches."""
    path = tmp_path_factory.mktemp("lake") / "long"
    values = np.random.default_rng(7).random(ROWS_A_FILE)
    for _ in range(FILES):
        write_deltalake(path, pa.table({"value": values}), mode="append")
    return path


@pytest.mark.parametrize("batch", [1, 3, 6])
def test_a_process_ends_that_stops_to_read_amid_a_table(long_table: Path, batch: int) -> None:
    # A reader's thread that needs Python when the interpreter is gone hangs, or aborts the process.
    command = [sys.executable, "-c", STOPS_EARLY, str(long_table), str(batch)]
    assert subprocess.run(command, timeout=ENDS_WITHIN, check=False).returncode == 3


@pytest.mark.parametrize("folder", ["plain", "with a space", "größe", "a#b?c", "a+b&c=d"])
@pytest.mark.parametrize("wider", [False, True])
def test_rows_are_read_from_a_folder_of_any_name(tmp_path: Path, folder: str, wider: bool) -> None:
    path = tmp_path / folder / "bets"
    write_deltalake(path, pa.table({"bet": pa.array([1, 2, None], pa.int32())}))
    if wider:
        _widened(path)
    read = pa.Table.from_batches(batches(DeltaTable(str(path))))
    assert read.column("bet").to_pylist() == [1, 2, None]
    assert read.schema.field("bet").type == (pa.int64() if wider else pa.int32())


def _widened(path: Path) -> None:
    """Makes the column an integer of 64 bits as Delta's type widening does: in the log, with no file rewritten."""
    log = path / "_delta_log"
    actions = [json.loads(line) for line in (log / f"{0:020}.json").read_text().splitlines()]
    metadata = next(action["metaData"] for action in actions if "metaData" in action)
    metadata["schemaString"] = metadata["schemaString"].replace('"integer"', '"long"')
    protocol = {
        "minReaderVersion": 3,
        "minWriterVersion": 7,
        "readerFeatures": ["typeWidening"],
        "writerFeatures": ["typeWidening"],
    }
    lines = [json.dumps({"protocol": protocol}), json.dumps({"metaData": metadata})]
    (log / f"{1:020}.json").write_text("\n".join(lines))
