"""Where the tables of these tests are: in a folder, and in a store that speaks S3 where there is one."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.opening import files_at


@pytest.fixture(params=["posix", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path) -> Files:
    """A place that no other test has."""
    if request.param == "posix":
        return files_at(tmp_path / "lake")
    found: Files = request.getfixturevalue("in_s3")
    return found
