from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from distributary import __version__
from distributary.errors import SetupError
from distributary.ingest.spark import jvm, workers
from distributary.ingest.spark.jvm import JvmDied
from distributary.ingest.spark.workers import require_workers
from distributary.ingest.storage.posix import PosixFiles

DEMUX = ["distributary.ingest.worker.demux"]


def test_workers_that_can_do_their_part_are_asked_for_no_more(spark: SparkSession, tmp_path: Path) -> None:
    require_workers(spark, [PosixFiles(tmp_path)], DEMUX)
    assert list(tmp_path.iterdir()) == []


def test_a_worker_that_lacks_something_is_told(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(
        SetupError, match=r"lacks distributary.*No module named 'nowhere'.*`distributary package`"
    ):
        require_workers(spark, [PosixFiles(tmp_path)], ["nowhere"])


def test_a_worker_of_another_version_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_OURS", "9.9")
    with pytest.raises(SetupError, match=rf"has distributary {__version__}, the driver 9\.9"):
        require_workers(spark, [PosixFiles(tmp_path)], DEMUX)


def test_a_folder_that_a_worker_does_not_see_is_told(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_is_elsewhere", lambda *_: True)
    monkeypatch.setattr(workers, "sign", lambda _: nullcontext("_probe/nowhere"))
    with pytest.raises(SetupError, match=rf"does not see in {tmp_path} what the driver has written there"):
        require_workers(spark, [PosixFiles(tmp_path)], DEMUX)


def test_a_folder_that_workers_see_is_left_as_it_was(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(workers, "_is_elsewhere", lambda *_: True)
    require_workers(spark, [PosixFiles(tmp_path), PosixFiles(tmp_path / "checkpoint")], DEMUX)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_workers_that_cannot_run_are_told_without_a_stack_trace(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
    with pytest.raises(SetupError, match=r"workers cannot run Python \(.*/nowhere/python") as caught:
        require_workers(spark, [PosixFiles(tmp_path)], DEMUX)
    assert len(str(caught.value).splitlines()) == 1


def test_a_jvm_that_died_meanwhile_is_told_as_one(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(spark.sparkContext, "pythonExec", "/nowhere/python")
    monkeypatch.setattr(jvm, "jvm_answers", lambda: False)
    with pytest.raises(JvmDied):
        require_workers(spark, [PosixFiles(tmp_path)], DEMUX)
