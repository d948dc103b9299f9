"""Folders for the files of queries: each goes with its query, or with the next one."""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from distributary.files import sweep_temporary
from distributary.ingest.checkpoint.scratch import scratch_folder

_HOLDS = """
import sys
from distributary.ingest.checkpoint.scratch import scratch_folder
with scratch_folder() as spark:
    print(spark.folder, flush=True)
    sys.stdin.read()
"""


def sweep() -> int:
    return sweep_temporary("distributary-query-")


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return tmp_path


def test_a_folder_goes_with_its_query(temporary: Path) -> None:
    with scratch_folder() as spark:
        spark.offsets(0).write_text("v1")
    assert [*temporary.iterdir()] == []


def test_what_a_living_process_holds_stays_and_what_a_killed_one_left_goes(temporary: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", _HOLDS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    with process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        assert sweep() == 0
        process.kill()
    assert folder.is_dir()
    with scratch_folder() as spark:
        assert [*temporary.iterdir()] == [spark.folder]


def test_nothing_else_is_swept(temporary: Path) -> None:
    with scratch_folder() as spark:
        beginning = spark.folder.name[:-8]
    (temporary / "distributary-demo").mkdir()
    (temporary / f"{beginning}file").write_text("a file")
    (temporary / "elsewhere").mkdir()
    (temporary / f"{beginning}link").symlink_to(temporary / "elsewhere")
    assert sweep() == 0
    assert len([*temporary.iterdir()]) == 4


def test_what_another_machine_has_in_a_place_that_both_share_stays(
    temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its locks are not seen from here."""
    monkeypatch.setattr("distributary.files.gethostname", lambda: "another")
    with scratch_folder() as spark:
        left = temporary / f"{spark.folder.name}-as-locked-there"
    left.mkdir()
    monkeypatch.setattr("distributary.files.gethostname", lambda: "this")
    assert sweep() == 0
    monkeypatch.setattr("distributary.files.gethostname", lambda: "another")
    assert sweep() == 1
