from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from distributary.files import temporary_name
from distributary.ingest.spark.artifacts import cache_folder
from distributary.ingest.spark.class_archive import class_archive, starting_from_archive, taking_classes_from
from distributary.ingest.spark.class_archive_writing import write_class_archive
from distributary.ingest.spark.java import Java, find_java

# The archives that a session's JVM was told of.
STARTED = """
from distributary.ingest.spark.session import spark_session
session = spark_session("started", "local[1]")
beans = session.sparkContext._jvm.java.lang.management.ManagementFactory
print([told for told in beans.getRuntimeMXBean().getInputArguments() if "Archive" in told])
"""


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache that has the jars of this user's, and no archive."""
    used, own = cache_folder(), tmp_path / "cache"
    own.mkdir()
    (own / "artifacts").symlink_to(used / "artifacts")
    monkeypatch.setenv("DISTRIBUTARY_CACHE", str(own))
    return own


def started(**environment: str) -> str:
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    ended = subprocess.run(
        [sys.executable, "-c", STARTED],
        env={**clean, **environment},
        capture_output=True,
        text=True,
        timeout=280,
        check=True,
    )
    return ended.stdout


def test_a_session_starts_without_an_archive_where_nobody_wrote_one(cache: Path) -> None:
    assert starting_from_archive(find_java()) == {}


def test_an_archive_is_of_one_java_and_of_one_pyspark(cache: Path, tmp_path: Path) -> None:
    java = find_java()
    other = tmp_path / "jdk" / "bin" / "java"
    other.parent.mkdir(parents=True)
    other.touch()
    assert class_archive(java) == class_archive(replace(java))
    assert class_archive(java) != class_archive(Java(other, java.major))


def test_a_java_that_was_renewed_in_its_place_has_another_archive(cache: Path, tmp_path: Path) -> None:
    launcher = tmp_path / "jdk" / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.touch()
    release = tmp_path / "jdk" / "release"
    release.write_text("17.0.1", encoding="utf-8")
    os.utime(release, (1, 1))
    before = class_archive(Java(launcher, 17))
    os.utime(release, (2, 2))
    assert class_archive(Java(launcher, 17)) != before


@pytest.mark.parametrize("home", ["John Doe", "a:b:c", "o'brien", 'the"new"one', "a\\b"])
def test_an_archive_whose_path_java_would_part_is_not_used(tmp_path: Path, home: str) -> None:
    archive = tmp_path / home / "spark.jsa"
    archive.parent.mkdir()
    archive.touch()
    assert taking_classes_from(archive) == ""


def test_java_goes_on_in_silence_without_an_archive_that_is_damaged(tmp_path: Path) -> None:
    archive = tmp_path / "spark.jsa"
    archive.write_bytes(bytes(5000))
    ended = subprocess.run(
        [str(find_java().path), *taking_classes_from(archive).split(), "-version"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ended.stdout == ""
    assert "cds" not in ended.stderr


def test_a_session_that_does_not_start_leaves_no_archive_and_says_why(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java, said = find_java(), list[str]()
    # Of one that was killed, 180 MB.
    left = class_archive(java).with_name(temporary_name())
    left.parent.mkdir()
    left.touch()
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    write_class_archive(java, said.append)
    assert "no archive of Spark's classes" in said[-1]
    assert "JAVA_HOME" in said[-1]
    assert [file.name for file in class_archive(java).parent.iterdir()] == ["writing.lock"]


# Light: the others here; every session of the tests starts from the archive that `make` had written.
@pytest.mark.heavy
@pytest.mark.spark
def test_a_session_starts_from_the_archive_that_was_written_once_and_old_ones_go(cache: Path) -> None:
    java, said = find_java(), list[str]()
    archive = class_archive(java)
    archive.parent.mkdir()
    for number in range(6):
        old = archive.with_name(f"spark-4.0.0-{number}.jsa")
        old.touch()
        os.utime(old, (number, number))
    write_class_archive(java, said.append)
    assert archive.is_file(), said
    assert sorted(file.name for file in archive.parent.glob("spark-4.0.0-*")) == [
        f"spark-4.0.0-{number}.jsa" for number in (3, 4, 5)
    ]
    written = archive.stat().st_mtime_ns
    write_class_archive(java, said.append)
    assert archive.stat().st_mtime_ns == written
    assert len(said) == 1
    assert str(archive) in started()
