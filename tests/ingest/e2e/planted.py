"""What commands say and files hold, to be searched for a secret that a test has planted."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from tests.ingest.e2e.pipeline_kit import PATIENCE_SECONDS, PipelineKit

from distributary import cli


def said(kit: PipelineKit, *command: str) -> tuple[int, str]:
    """The exit code of a command of ours, and all that it says."""
    done = subprocess.run(
        [sys.executable, "-m", "distributary", *command],
        env={**os.environ},
        cwd=kit.folder,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def said_here(*command: str) -> tuple[int, str]:
    """The same of a command that needs neither Spark nor a process of its own, which takes longer to begin than most of these to end."""
    told = io.StringIO()
    with redirect_stdout(told), redirect_stderr(told), pytest.raises(SystemExit) as end:
        cli.main([*command])
    assert isinstance(end.value.code, int)
    return end.value.code, told.getvalue()


def holding(secret: str, folder: Path) -> list[str]:
    """The files below a folder, which has some, that hold a secret."""
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert files
    return [str(path) for path in files if secret.encode() in path.read_bytes()]
