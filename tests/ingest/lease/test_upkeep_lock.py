"""Who keeps tables up and who puts one aside keep out of each other's way; two who keep them up do not."""

from __future__ import annotations

from pathlib import Path

import pytest

from distributary.errors import PipelineError
from distributary.ingest.lease.upkeep_lock import no_upkeep, upkeep_under_way
from distributary.ingest.storage.posix import PosixFiles


def test_upkeep_goes_side_by_side_and_a_table_is_put_aside_alone(tmp_path: Path) -> None:
    root = PosixFiles(tmp_path)
    why = r"upkeep is under way there \(`distributary maintain`"
    with upkeep_under_way(root), upkeep_under_way(root), pytest.raises(PipelineError, match=why):
        no_upkeep(root).__enter__()
    with no_upkeep(root):
        for other in (upkeep_under_way, no_upkeep):
            with pytest.raises(PipelineError, match="say it again"):
                other(root).__enter__()
    with upkeep_under_way(root):
        assert [path.name for path in tmp_path.iterdir()] == [".distributary"]


def test_where_no_folder_is_none_is_made(tmp_path: Path) -> None:
    with upkeep_under_way(PosixFiles(tmp_path / "lake")), no_upkeep(PosixFiles(tmp_path / "lake")):
        assert list(tmp_path.iterdir()) == []
