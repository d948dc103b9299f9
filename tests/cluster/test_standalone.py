"""Pipelines on machines that share no folder: they evolve, their driver is killed, a worker is lost; and no secret is told."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from tests.cluster.nodes import FOLDER, NAMES, ROOT, SPARK, Cluster, elsewhere
from tests.cluster.submitted import PATIENCE_SECONDS, SECRETS, ClusterKit, has_stopped, kill_group

from distributary.ingest.spark.artifacts import spark_jars
from distributary.packing.archive import ARCHIVE, PROGRAM

ALONE = {"master": "local[2]", "conf": {"spark.eventLog.enabled": "false"}}

# The first of them makes the archive.
pytestmark = [pytest.mark.cluster, pytest.mark.spark, pytest.mark.stack, pytest.mark.timeout(1800)]


def assert_whole(kit: ClusterKit) -> None:
    kit.assert_clean()
    assert kit.unnamed_files() == set()


def test_workers_see_neither_the_drivers_folders_nor_each_others(cluster: Cluster, packed: Path) -> None:
    of_the_driver = [ROOT, Path(sys.prefix).resolve(), packed, cluster.folder]
    for name, other in (NAMES, NAMES[::-1]):
        for folder in (*of_the_driver, cluster.kept_by(other)):
            assert any(folder.iterdir())
            assert cluster.sees(name, folder) == []
        assert "work" in cluster.sees(name, FOLDER)


def test_a_settings_file_and_a_program_are_submitted_and_tables_evolve(kit: ClusterKit) -> None:
    kit.simulate(1, corrupt=0.05, tombstones=0.02)
    kit.done(kit.submit())
    before = kit.versions()

    kit.simulate(2, games=4, corrupt=0.05, tombstones=0.02, old_producers=0.3)
    printed = kit.done(kit.submit_program())

    assert_whole(kit)
    assert set(before) < set(kit.versions())
    columns = {field.name for field in kit.delta(kit.folder_of(0)).schema().fields}
    assert "season" in columns
    assert printed.splitlines()[-1].endswith("records in 1 batches")


def test_inferred_schemas_are_kept_in_the_store_and_a_killed_driver_is_followed_by_another(
    kit: ClusterKit,
) -> None:
    location = kit.settings.sink.root
    kit.configured(
        decode={"format": "json", "schema_location": f"{location}-schemas"}, limits={"commit_threads": 1}
    )
    kit.simulate(1, format="json", corrupt=0.05)

    killed = kit.run_directly("between_commits:1=stop")
    kit.wait_until(lambda: has_stopped(killed), killed)
    kill_group(killed)

    assert kit.manifests.last_batch() == 1
    assert kit.rows("ledger_batches").num_rows == 0
    assert sum(kit.rows(table).num_rows for table in kit.versions()) > 0
    kit.simulate(2, format="json", corrupt=0.05)
    kit.done(kit.run_directly())
    assert_whole(kit)


def test_a_worker_that_is_lost_amid_a_batch_loses_nothing_and_no_secret_is_told(kit: ClusterKit) -> None:
    kit.configured(
        trigger={"available_now": False}, source={"kafka": {"ssl.keystore.password": "${KEYSTORE_PASSWORD}"}}
    )
    kit.simulate(1)
    driver = kit.submit()
    kit.wait_until(lambda: kit.rows("ledger_batches").num_rows == 1, driver)
    cluster = kit.cluster
    cluster.freeze("one")
    try:
        kit.simulate(2, events=2_000)
        kit.wait_until(lambda: kit.tasks_of("one") > 0 and kit.tasks_of("two") == 0, driver)
    finally:
        cluster.lose("one")
    try:
        kit.wait_until(lambda: not kit.verify().differences, driver)
        assert where_told(kit) == []
    finally:
        kill_group(driver)
        cluster.start("one")


def where_told(kit: ClusterKit) -> list[str]:
    """Where a secret is told: Spark's pages, what it keeps for its history, what runs on the nodes, and what they keep."""
    pages = ["/environment/", "/jobs/", "/stages/", "/SQL/", "/executors/", "/StreamingQuery/"]
    pages += [
        f"{kit.application}/{part}" for part in ("environment", "jobs", "sql?details=true", "executors")
    ]
    shown = {page: kit.told(page) for page in pages}
    shown |= {
        str(file): file.read_text("utf-8", "replace") for file in kit.events.rglob("*") if file.is_file()
    }
    shown["the master"] = str(kit.cluster.spark.state())
    shown["the cluster's log"] = kit.cluster.spark.log.read_text("utf-8")
    shown["the driver's log"] = kit.said
    for process in kit.cluster.processes("two"):
        # One that has just ended shows nobody anything any more.
        with suppress(psutil.NoSuchProcess):
            shown[f"process {process.pid}"] = f"{process.cmdline()} {process.environ()}"
    for name in NAMES:
        logs = [file for file in kit.cluster.kept_by(name).rglob("std*") if file.is_file()]
        assert logs
        shown |= {str(file): file.read_text("utf-8", "replace") for file in logs}
    assert "spark.executor.memory" in shown["/environment/"]
    assert any("SparkListenerApplicationStart" in text for text in shown.values())
    return [place for place, text in shown.items() if any(secret in text for secret in SECRETS.values())]


def test_the_archive_runs_the_driver_too_where_nothing_else_is(kit: ClusterKit, packed: Path) -> None:
    kit.simulate(1)
    machine = kit.folder / "machine"
    with tarfile.open(packed / ARCHIVE) as tar:
        tar.extractall(machine / "distributary", filter="tar")
    for file in (packed / PROGRAM, kit.configured(spark=ALONE).settings_file, *spark_jars()):
        shutil.copy(file, machine)
    python = FOLDER / "distributary/bin/python"
    variables = {"SPARK_HOME": SPARK, "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": python, **SECRETS}
    jars = ",".join(str(FOLDER / jar.name) for jar in spark_jars())
    submit = [str(SPARK / "bin/spark-submit"), "--jars", jars, PROGRAM, "run", "games.yaml"]
    given = [f"{name}={value}" for name, value in variables.items()]
    answer = subprocess.run(
        [*elsewhere(machine), *given, *submit],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert answer.returncode == 0, answer.stderr
    assert (machine / "checkpoints/games/log").is_dir()
    kit.assert_clean()


def test_workers_without_distributary_are_told_of_before_a_batch_is_read(kit: ClusterKit) -> None:
    kit.simulate(1)
    kit.done(kit.run_directly(**{"spark.pyspark.python": "./nowhere/bin/python"}), code=2)
    assert "error: Spark's workers cannot run Python (" in kit.said
    assert "./nowhere/bin/python" in kit.said
    assert "give the workers what `distributary package` makes" in kit.said
    assert kit.manifests.last_batch() is None


def test_a_folder_that_workers_do_not_see_is_told_of_before_a_batch_is_read(kit: ClusterKit) -> None:
    kit.configured(sink={"root": "./lake"})
    kit.simulate(1)
    kit.done(kit.run_directly(), code=2)
    assert f"does not see in {kit.folder}/lake what the driver has written there" in kit.said.replace(
        "\n", " "
    )
    assert kit.manifests.last_batch() is None
