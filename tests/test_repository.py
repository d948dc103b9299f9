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
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PYTHONS = ("3.10", "3.11", "3.12", "3.13")


def locked() -> list[Requirement]:
    lines = LOCK.replace("\\\n", " ").splitlines()
    return [Requirement(line.split(" --hash")[0]) for line in lines if line and line[0] not in "# "]


def locked_for(python: str) -> dict[str, str]:
    environment = {
        "python_version": python,
        "python_full_version": f"{python}.5",
        "sys_platform": "linux",
        "os_name": "posix",
    }
    fitting = [pin for pin in locked() if pin.marker is None or pin.marker.evaluate(environment)]
    assert len({pin.name for pin in fitting}) == len(fitting), "a package is pinned twice for one Python"
    return {canonicalize_name(pin.name): str(pin.specifier).removeprefix("==") for pin in fitting}


def test_lock_names_no_place() -> None:
    assert not re.findall(r"^.*(?:://|index-url|find-links|/tmp/|/home/|/root/).*$", LOCK, re.MULTILINE)


def test_every_pin_has_a_hash() -> None:
    entries = LOCK.replace("\\\n", " ").splitlines()
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


def test_make_help_lists_every_target() -> None:
    declared = set(re.findall(r"^\.PHONY: (.*)$", MAKEFILE, re.MULTILINE)[0].split())
    listed = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {line.split()[0] for line in listed.splitlines() if line.strip()} == declared


def test_every_make_target_named_in_the_docs_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    named = [
        re.findall(r"(?:^ {4}|`)make ([a-z -]+)", page.read_text("utf-8"), re.MULTILINE) for page in pages
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


def test_setup_refuses_a_python_that_is_not_there(tmp_path: Path) -> None:
    setup = subprocess.run(
        ["sh", str(ROOT / "tools/setup.sh")],
        cwd=tmp_path,
        env={"PATH": "/usr/bin:/bin", "PYTHON": "python-that-is-not-there"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert setup.returncode == 2
    assert setup.stderr.startswith("error: PYTHON=python-that-is-not-there is not a program")
    assert setup.stderr.count("\n") == 1
