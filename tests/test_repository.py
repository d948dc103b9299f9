"""What a fresh clone relies on: the lock, the make targets, the changelog's fragments."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).resolve().parents[1]
LOCK = (ROOT / "requirements.lock").read_text(encoding="utf-8")
COMPAT_LOCK = (ROOT / "requirements-compat.lock").read_text(encoding="utf-8")
STORES_LOCK = (ROOT / "requirements-stores.lock").read_text(encoding="utf-8")
SPARK_LOCKS = {
    path.stem: path.read_text(encoding="utf-8") for path in sorted(ROOT.glob("requirements-spark-*.lock"))
}
LOCKS = pytest.mark.parametrize(
    "lock",
    [LOCK, COMPAT_LOCK, STORES_LOCK, *SPARK_LOCKS.values()],
    ids=["requirements", "requirements-compat", "requirements-stores", *SPARK_LOCKS],
)
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")


def pins_of(lock: str) -> list[Requirement]:
    lines = lock.replace("\\\n", " ").splitlines()
    return [Requirement(line.split(" --hash")[0]) for line in lines if line and line[0] not in "# "]


def locked_for(python: str) -> dict[str, str]:
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.5",
        "sys_platform": "linux",
        "os_name": "posix",
    }
    fitting = [pin for pin in pins_of(LOCK) if pin.marker is None or pin.marker.evaluate(environment)]
    assert len({pin.name for pin in fitting}) == len(fitting), "a package is pinned twice for one Python"
    return {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in fitting}


@LOCKS
def test_lock_names_no_place(lock: str) -> None:
    assert not re.findall(r"^.*(?:://|index-url|find-links|/(?:tmp|home|root)/).*$", lock, re.MULTILINE)


@LOCKS
def test_every_pin_has_a_hash(lock: str) -> None:
    entries = lock.replace("\\\n", " ").splitlines()
    assert [line for line in entries if line and line[0] not in "# " and "--hash=sha256:" not in line] == []


@pytest.mark.parametrize("python", PYTHONS)
def test_lock_meets_every_dependency_of_the_project(python: str) -> None:
    pins = locked_for(python)
    project = PROJECT["project"]
    build = PROJECT["build-system"]["requires"]
    wanted = [*project["dependencies"], *project["optional-dependencies"]["dev"], *build]
    unmet = [text for text in wanted if not meets(pins, Requirement(text), python)]
    assert unmet == [], "run make lock"


def meets(pins: dict[str, str], wanted: Requirement, python: str) -> bool:
    if wanted.marker is not None and not wanted.marker.evaluate({"python_version": python}):
        return True
    return wanted.specifier.contains(pins.get(canonicalize_name(wanted.name), "0"))


def test_the_compat_lock_has_the_spark_whose_functions_are_genuine() -> None:
    assert re.findall(r"^pyspark==(.+?) ", COMPAT_LOCK, re.MULTILINE) == ["3.4.1"]
    wanted = (ROOT / "requirements-compat.in").read_text(encoding="utf-8").splitlines()
    names = [canonicalize_name(Requirement(line).name) for line in wanted if line and line[0] != "#"]
    pinned = {canonicalize_name(pin.name) for pin in pins_of(COMPAT_LOCK)}
    assert [name for name in names if name not in pinned] == [], "run make lock"


def test_the_store_of_the_tests_is_the_one_that_users_install() -> None:
    wanted = (ROOT / "requirements-stores.in").read_text(encoding="utf-8").splitlines()
    listed = [line for line in wanted if line and line[0] != "#"]
    # The second is for tests of Glue's registry alone.
    assert listed == [*PROJECT["project"]["optional-dependencies"]["s3-server"], "pyparsing>=3"]
    pinned = {canonicalize_name(pin.name) for pin in pins_of(STORES_LOCK)}
    assert {canonicalize_name(Requirement(line).name) for line in listed} <= pinned, "run make lock"


def compat(folder: Path, script: str, java: str) -> tuple[int, str]:
    """The exit code and the words of a script in tools/ on a machine with this Java, in a copy without an environment."""
    for name in ("test_compat.sh", "setup_compat.sh", "venv.sh"):
        program(folder / "tools" / name, "").write_bytes((ROOT / "tools" / name).read_bytes())
    program(folder / "bin/java", java)
    for name in ("python3", "python3.10", "python3.11"):
        program(folder / "bin" / name, "exit 1")
    done = subprocess.run(
        ["sh", str(folder / "tools" / script)],
        env={"PATH": f"{folder}/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("java", "sentence"),
    [
        ("exit 127", "skipped: Spark 3.4.1 needs Java 17"),
        ("echo 'openjdk version \"21.0.1\"' >&2", "skipped: Spark 3.4.1 needs Java 17"),
        ("echo 'openjdk version \"17.0.9\"' >&2", "skipped: Spark 3.4.1 needs a Python 3.10 or 3.11"),
    ],
)
def test_the_compat_tests_say_what_the_machine_lacks(java: str, sentence: str, tmp_path: Path) -> None:
    code, said = compat(tmp_path, "test_compat.sh", java)
    assert (code, said.count("\n")) == (0, 1)
    assert said.startswith(sentence)


def test_who_needs_the_compat_environment_can_tell_that_it_cannot_be_made_here(tmp_path: Path) -> None:
    code, said = compat(tmp_path, "setup_compat.sh", "exit 127")
    assert (code, said.startswith("skipped: ")) == (3, True)


def other_python(folder: Path, *present: str, **chosen: str) -> tuple[int, str]:
    """The exit code and the words of tools/test_other_python.sh where only these versions of Python are there."""
    for name in ("test_other_python.sh", "turn.sh", "venv.sh"):
        program(folder / "tools" / name, "").write_bytes((ROOT / "tools" / name).read_bytes())
    for version in PYTHONS:
        program(folder / f"bin/python{version}", "" if version in present else "exit 1")
    # A disk so full that no environment is begun.
    program(folder / "bin/df", "echo head; echo disk 1 2 100 3%")
    done = subprocess.run(
        ["sh", str(folder / "tools/test_other_python.sh")],
        env={"PATH": f"{folder}/bin:/usr/bin:/bin", "HOME": str(folder), **chosen},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


def test_a_machine_with_no_other_python_is_no_failure(tmp_path: Path) -> None:
    code, said = other_python(tmp_path)
    assert code == 0
    assert said.splitlines()[-1] == "skipped: there is no other Python to test with"
    assert [said.count(f"Python {version} ") for version in PYTHONS] == [1, 1, 1, 1]


def test_the_python_that_is_asked_for_or_else_one_that_is_there_is_tested_with(tmp_path: Path) -> None:
    for chosen in ({}, {"OTHER": "3.12"}):
        code, said = other_python(tmp_path, "3.12", **chosen)
        assert (code, "error: 100 MiB are free" in said) == (2, True), "it went on to make its environment"
    assert other_python(tmp_path, "3.12", OTHER="3.13")[0] == 0


def other_spark(folder: Path, java: str, spark: str) -> tuple[int, str]:
    """The exit code and the words of tools/test_other_spark.sh on a machine with this Java and no fitting Python."""
    for name in ("test_other_spark.sh", "setup_spark.sh", "venv.sh"):
        program(folder / "tools" / name, "").write_bytes((ROOT / "tools" / name).read_bytes())
    for lock in SPARK_LOCKS:
        (folder / f"{lock}.lock").touch()
    # Who is asked what the table says of this Spark.
    program(
        folder / ".venv/bin/python",
        'case "$2" in *javas*) echo 17 21;; *pythons*) echo 3.10 3.11;; *) exit 1;; esac',
    )
    program(folder / "bin/java", java)
    for name in ("python3", "python3.10", "python3.11", "python3.12", "python3.13"):
        program(folder / "bin" / name, "exit 1")
    done = subprocess.run(
        ["sh", str(folder / "tools/test_other_spark.sh")],
        env={"PATH": f"{folder}/bin:/usr/bin:/bin", "OTHER_SPARK": spark},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.mark.parametrize(
    ("java", "spark", "told"),
    [
        ("exit 127", "3.5", (0, "skipped: Spark 3.5 needs Java 17 21, which neither")),
        (
            "echo 'openjdk version \"11.0.1\"' >&2",
            "4.1.4",
            (0, "skipped: Spark 4.1 needs Java 17 21, which neither"),
        ),
        ("echo 'openjdk version \"17.0.9\"' >&2", "3.5", (0, "skipped: Spark 3.5 needs a Python 3.10 3.11")),
        ("exit 127", "4.2", (2, "error: there is no requirements-spark-4.2.lock")),
    ],
)
def test_the_tests_on_another_spark_say_what_the_machine_lacks(
    java: str, spark: str, told: tuple[int, str], tmp_path: Path
) -> None:
    code, said = other_spark(tmp_path, java, spark)
    assert (code, said.count("\n")) == (told[0], 1), said
    assert said.startswith(told[1])


def test_a_commit_without_a_choice_tests_on_one_of_the_other_sparks(tmp_path: Path) -> None:
    code, said = other_spark(tmp_path, "exit 127", "")
    assert (code, said.startswith("skipped: Spark ")) == (0, True), said


def test_the_benchmark_of_the_decoders_makes_the_environment_of_the_genuine_from_protobuf() -> None:
    planned = subprocess.run(
        ["make", "--dry-run", "bench-codecs"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    before, _, _ = planned.partition("benchmarks/bench_codecs.py")
    assert "sh tools/setup_compat.sh" in before


@pytest.mark.parametrize(
    ("target", "fetched"),
    [("test", ["s3"]), ("test-heavy", ["s3", ""]), ("test-heavy-part", ["s3", ""]), ("test-s3-part", ["s3"])],
)
def test_no_test_is_skipped_because_nobody_fetched_its_store(target: str, fetched: list[str]) -> None:
    planned = subprocess.run(
        ["make", "--dry-run", "--always-make", target], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    before, _, _ = planned.partition(" -m pytest ")
    assert re.findall(r"^sh tools/test_stores\.sh ?(.*)$", before, re.MULTILINE) == fetched


def stores(folder: Path, pip: int, *asked: str) -> tuple[int, list[str]]:
    """The exit code and the words of tools/test_stores.sh where neither Go nor npm nor whoever keeps jars gives anything."""
    for name in ("test_stores.sh", "venv.sh"):
        program(folder / "tools" / name, "").write_bytes((ROOT / "tools" / name).read_bytes())
    (folder / "requirements-stores.lock").touch()
    for name in ("go", "npm"):
        if not (folder / "bin" / name).exists():
            program(folder / "bin" / name, "exit 1")
    made = "mkdir -p .venv-stores/bin; cp $0 .venv-stores/bin/python"
    answers = f"venv) {made};; pip) exit {pip};; tests.*) exit 1;; *) echo ."
    program(folder / ".venv/bin/python", f'case "$2" in {answers}; esac')
    done = subprocess.run(
        ["sh", str(folder / "tools/test_stores.sh"), *asked],
        env={"PATH": f"{folder}/bin:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, re.findall(r"^without (.*): its tests are skipped$", done.stderr, re.MULTILINE)


def test_a_machine_without_go_and_npm_is_no_failure_and_is_told_what_it_goes_without(tmp_path: Path) -> None:
    assert stores(tmp_path, 0, "s3") == (0, [])
    assert stores(tmp_path, 0) == (0, ["Azurite", "kinesalite", "HDFS"])


def test_who_has_a_store_by_go_goes_without_boto3_where_no_index_gives_it(tmp_path: Path) -> None:
    assert stores(tmp_path, 1, "s3")[0] == 2, "nothing speaks S3"
    program(tmp_path / "bin/go", "")
    assert stores(tmp_path, 1) == (0, ["moto and boto3", "Azurite", "kinesalite", "HDFS"])


def test_make_help_lists_every_target() -> None:
    declared = set(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[0].split())
    listed = subprocess.run(
        ["make", "--no-print-directory", "help"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    assert {line.split()[0] for line in listed.splitlines() if line.strip()} == declared


def test_every_make_target_named_in_the_docs_exists() -> None:
    targets = set(re.findall(r"^([a-z0-9-]+):", MAKEFILE, re.MULTILINE))
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = [
        re.findall(r"(?:^ {4}|`)make ([a-z0-9 -]+)", page.read_text("utf-8"), re.MULTILINE) for page in pages
    ]
    ci = re.findall(r"^make (.+)$", (ROOT / ".ci/run").read_text("utf-8"), re.MULTILINE)
    words = {word for line in [*ci, *(line for lines in named for line in lines)] for word in line.split()}
    assert {"demo", "test", "lint", "types"} <= words <= targets


def test_fragments_have_a_kind_that_the_changelog_knows() -> None:
    kinds = {kind["directory"] for kind in PROJECT["tool"]["towncrier"]["type"]}
    fragments = [
        path for path in (ROOT / "changelog.d").iterdir() if path.suffix == ".md" and path.stem != "README"
    ]
    assert [path.name for path in fragments if path.name.split(".")[-2] not in kinds] == []


def setup(folder: Path, python: str = "", path: str = "/usr/bin:/bin") -> tuple[int, str]:
    """The exit code and the words of tools/setup.sh, run in a folder of its own."""
    done = subprocess.run(
        ["sh", str(ROOT / "tools/setup.sh")],
        cwd=folder,
        env={"PATH": path, "PYTHON": python},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stderr


def program(path: Path, script: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_setup_refuses_a_python_that_is_not_there(tmp_path: Path) -> None:
    code, said = setup(tmp_path, python="python-that-is-not-there")
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("error: PYTHON=python-that-is-not-there is not a program")


def test_setup_refuses_a_python_of_another_version(tmp_path: Path) -> None:
    old = program(tmp_path / "python3.9", 'test "$1" = --version && echo Python 3.9.1 || exit 1')
    code, said = setup(tmp_path, python=str(old))
    assert (code, said.count("\n")) == (2, 1)
    assert "is not a Python 3.10 to 3.13 (Python 3.9.1)" in said


def test_setup_tells_of_a_missing_venv_module(tmp_path: Path) -> None:
    bare = program(tmp_path / "python3", 'case "$2" in *ensurepip*) exit 1;; esac')
    code, said = setup(tmp_path, python=str(bare))
    assert (code, said.count("\n")) == (2, 1)
    assert "has no venv module; install it" in said


def test_setup_tells_of_a_full_disk_before_it_begins(tmp_path: Path) -> None:
    python = program(tmp_path / "python3", "exit 0")
    program(tmp_path / "bin/df", "echo head; echo disk 1 2 100 3%")
    code, said = setup(tmp_path, python=str(python), path=f"{tmp_path}/bin:/usr/bin:/bin")
    assert (code, said.count("\n")) == (2, 1)
    assert said.startswith("error: 100 MiB are free")


@pytest.mark.parametrize(
    ("pip_says", "sentence"),
    [
        ("OSError: [Errno 28] No space left on device", "the disk is full"),
        ("WARNING: Retrying after connection broken by 'NewConnectionError(...)'", "index cannot be reached"),
        ("Could not fetch URL: connection error: refused - skipping", "index cannot be reached"),
        ("ERROR: No matching distribution found for ptars==0.0.25", "lacks a locked package"),
        ("ERROR: THESE PACKAGES DO NOT MATCH THE HASHES", "not the one in requirements.lock"),
        ("something new", "something new\nerror: pip could not install"),
    ],
)
def test_setup_says_why_pip_gave_up(pip_says: str, sentence: str, tmp_path: Path) -> None:
    program(tmp_path / ".venv/bin/python", f'test "$1" != -m || {{ echo "{pip_says}"; exit 1; }}')
    program(tmp_path / "bin/df", "echo head; echo disk 1 2 100000 3%")
    code, said = setup(tmp_path, path=f"{tmp_path}/bin:/usr/bin:/bin")
    assert code == 2
    assert sentence in said
    assert "setup.log" in said
