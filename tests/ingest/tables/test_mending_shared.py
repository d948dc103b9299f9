"""The log of a table that pipelines share, as a start puts anew what may not have been synced."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.ingest.commits import by_log
from tests.ingest.tables.test_log_commit import SCHEMA, written

from distributary.ingest.log_paths import entry_path
from distributary.ingest.storage.opening import files_at
from distributary.ingest.tables import mending
from distributary.ingest.tables.change import create
from distributary.ingest.tables.log_commit import NativeCommits
from distributary.ingest.tables.mending import mend


def test_of_another_pipelines_thousands_only_the_newest_entry_is_put_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It began none before the one before it was safe. Each is a sync, and a start waited seconds for them."""
    create(tmp_path / "t", SCHEMA, {})
    commits, anew = NativeCommits(), list[str]()

    def commit(app: str, batch: int) -> None:
        by_log(commits, tmp_path / "t", [written(tmp_path / "t", [{"a": batch}])], SCHEMA, app, batch)

    for batch in range(2):
        commit("mine/batches", batch)
    for batch in range(20):
        commit("another/batches", batch)
        if batch == 10:
            write_deltalake(tmp_path / "t", pa.Table.from_pylist([{"a": 1}], SCHEMA), mode="append")
    monkeypatch.setattr(mending, "write_again", lambda _, paths: anew.extend(paths))
    assert mend(files_at(tmp_path / "t"), lambda app, number: app == "mine/batches" and number < 1) == []
    assert anew == [entry_path(version) for version in (23, 14, 2)]
