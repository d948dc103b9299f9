"""A metastore that takes connections and answers nothing, as behind a firewall: it keeps no run from its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from distributary.ingest.catalog import registering
from distributary.ingest.catalog.registering import TableNames
from distributary.ingest.settings.catalog import Catalog
from distributary.ingest.storage.posix import PosixFiles


class Silent:
    """A session whose metastore answers once it is told to."""

    def __init__(self) -> None:
        self.answers, self.asked = threading.Event(), threading.Event()
        self.conf = SimpleNamespace(get=lambda *_: "hive")

    def newSession(self) -> Silent:
        return self

    def sql(self, _: str) -> SimpleNamespace:
        self.asked.set()
        assert self.answers.wait(60)
        return SimpleNamespace(collect=list)


@pytest.fixture
def spark() -> Iterator[Silent]:
    silent = Silent()
    yield silent
    silent.answers.set()


@pytest.mark.parametrize("wait", [True, False])
def test_a_metastore_that_does_not_answer_keeps_no_run_from_its_end(
    spark: Silent,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    wait: bool,
) -> None:
    """Neither one that has ingested all nor one that is told to stop: the next one would find its lease held."""
    for name in ("_SILENT_SECONDS", "_END_SECONDS"):
        monkeypatch.setattr(registering, name, 0.1)
    names = TableNames(cast("Any", spark), Catalog(database="games"), PosixFiles(tmp_path))
    names.take({"quest": "quest"})
    assert spark.asked.wait(60)
    ended = threading.Thread(target=lambda: names.close(wait=wait))
    ended.start()
    ended.join(30)
    assert not ended.is_alive()
    assert "the metastore of catalog games does not answer" in caplog.text


def test_tables_that_come_when_the_metastore_has_fallen_silent_keep_no_run_from_its_end(
    spark: Silent, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registering, "_SILENT_SECONDS", 0.1)
    names = TableNames(cast("Any", spark), Catalog(database="games"), PosixFiles(tmp_path))
    names._wanted = {"quest": "quest"}
    ended = threading.Thread(target=lambda: names.close(wait=True))
    ended.start()
    ended.join(30)
    assert not ended.is_alive()


def test_a_run_that_is_told_to_stop_while_it_waits_for_the_metastore_waits_no_more(
    spark: Silent, tmp_path: Path
) -> None:
    """It took ten minutes, and whoever stops runs kills one after half of one."""
    names, stop = (
        TableNames(cast("Any", spark), Catalog(database="games"), PosixFiles(tmp_path)),
        threading.Event(),
    )
    names.take({"quest": "quest"})
    assert spark.asked.wait(60)
    ended = threading.Thread(target=lambda: names.close(wait=True, stop=stop), daemon=True)
    ended.start()
    stop.set()
    ended.join(30)
    assert not ended.is_alive()
