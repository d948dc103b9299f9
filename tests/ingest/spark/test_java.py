from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from distributary.errors import SetupError
from distributary.ingest.spark.java import find_java, have_paths_read_as_utf8
from distributary.ingest.spark.supported import spark_line


def java_that_says(folder: Path, text: str) -> Path:
    """A Java home whose launcher writes `text` to stderr, as `java -version` does."""
    launcher = folder / "bin" / "java"
    launcher.parent.mkdir(parents=True)
    launcher.write_text(f"#!/bin/sh\ncat >&2 <<'END'\n{text}\nEND\n", encoding="utf-8")
    launcher.chmod(0o755)
    return folder


def version(number: str) -> str:
    return f'openjdk version "{number}" 2025-04-15\nOpenJDK Runtime Environment (build {number}+6)'


@pytest.mark.parametrize(("number", "major"), [("17.0.15", 17), ("21", 21), ("21.0.1-ea", 21)])
def test_supported_java_is_found(tmp_path: Path, number: str, major: int) -> None:
    home = java_that_says(tmp_path / "jdk", version(number))
    java = find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert (java.major, java.home) == (major, home.resolve())


def test_java_home_goes_before_path(tmp_path: Path) -> None:
    home = java_that_says(tmp_path / "home", version("17.0.1"))
    other = java_that_says(tmp_path / "other", version("21.0.1"))
    environment = {"JAVA_HOME": str(home), "PATH": str(other / "bin")}
    assert find_java(environment).major == 17
    del environment["JAVA_HOME"]
    assert find_java({**environment, "PATH": f"{other / 'bin'}:/usr/bin:/bin"}).major == 21


@pytest.mark.parametrize(("number", "major"), [("1.8.0_402", 8), ("11.0.22", 11), ("25", 25)])
def test_other_versions_are_refused_with_the_way_out(tmp_path: Path, number: str, major: int) -> None:
    home = java_that_says(tmp_path / "jdk", version(number))
    with pytest.raises(SetupError, match=rf"is Java {major}: install a Java 17 or 21 .* JAVA_HOME") as caught:
        find_java({"JAVA_HOME": str(home), "PATH": ""})
    assert str(home / "bin" / "java") in str(caught.value)


def test_a_java_that_the_spark_does_not_run_on_is_named_with_the_spark(tmp_path: Path) -> None:
    home = {"JAVA_HOME": str(java_that_says(tmp_path / "jdk", version("21.0.1"))), "PATH": ""}
    old, new = spark_line("3.5.3"), spark_line("4.0.1")
    with pytest.raises(SetupError, match=r"Spark 3\.5 runs on Java 17, but .* is Java 21: point JAVA_HOME"):
        find_java(home, old)
    assert find_java(home, new).major == 21


def test_options_named_in_the_environment_do_not_hide_the_version(tmp_path: Path) -> None:
    text = "Picked up JAVA_TOOL_OPTIONS: -Dversion=11\n" + version("17.0.15")
    assert find_java({"JAVA_HOME": str(java_that_says(tmp_path, text)), "PATH": ""}).major == 17


def test_no_java_is_one_sentence_with_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=r"no Java found: .* install a Java 17 or 21") as caught:
        find_java({"PATH": str(tmp_path)})
    assert "\n" not in str(caught.value)


def test_java_home_without_java_is_named(tmp_path: Path) -> None:
    with pytest.raises(SetupError, match=f"JAVA_HOME is {tmp_path}, but there is no Java"):
        find_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})


def test_a_launcher_that_cannot_run_is_named(tmp_path: Path) -> None:
    home = java_that_says(tmp_path, "")
    (home / "bin" / "java").write_bytes(b"\x7fELF, but not really")
    with pytest.raises(SetupError, match="cannot be run"):
        find_java({"JAVA_HOME": str(home), "PATH": ""})


def test_a_launcher_that_says_something_else_is_named(tmp_path: Path) -> None:
    home = java_that_says(tmp_path, "The operation couldn't be completed. Unable to locate a Java Runtime.")
    with pytest.raises(SetupError, match="does not say its version"):
        find_java({"JAVA_HOME": str(home), "PATH": ""})


def test_the_java_of_this_machine_is_found() -> None:
    assert find_java().major in (17, 21)


@pytest.mark.parametrize("language", ["C", "POSIX", "C.UTF-8"])
def test_java_starts_in_a_folder_with_an_umlaut_whatever_the_language_is(
    tmp_path: Path, language: str
) -> None:
    folder = tmp_path / "ü"
    folder.mkdir()
    environment = {**os.environ, "LC_ALL": language}
    have_paths_read_as_utf8(environment)
    java = [str(find_java().path), "-XshowSettings:properties", "-version"]
    told = subprocess.run(java, cwd=folder, env=environment, capture_output=True, check=True).stderr
    assert f"user.dir = {folder}".encode() in told


def test_another_language_stays() -> None:
    environment = {"LC_ALL": "de_DE.UTF-8"}
    have_paths_read_as_utf8(environment)
    assert environment == {"LC_ALL": "de_DE.UTF-8"}
