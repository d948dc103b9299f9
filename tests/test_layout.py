"""The layout that lets `distributary.codecs` live in the top-level folder codecs/."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("codecs", "ingest", "producer_sim", "registry")
SOURCES = sorted(
    path
    for folder in (*FOLDERS, "src/distributary")
    for path in (ROOT / folder).rglob("*.py")
    if path.is_file()
)


@pytest.mark.parametrize("folder", FOLDERS)
def test_each_package_is_the_top_level_folder_of_its_name(folder: str) -> None:
    package = import_module(f"distributary.{folder}")
    assert [Path(entry).resolve() for entry in package.__path__] == [ROOT / folder], (
        f"src/distributary/{folder} is not a link to {folder}/: this checkout has no links"
        " (on Windows use WSL, or git config core.symlinks true)"
    )


@pytest.mark.parametrize("folder", [*FOLDERS, "tests"])
def test_folders_have_no_init(folder: str) -> None:
    # With codecs/__init__.py and the root on PYTHONPATH the interpreter loads our codecs in place of its own.
    assert not list((ROOT / folder).rglob("__init__.py"))


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_module_says_what_it_is(source: Path) -> None:
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8")))
    assert docstring and docstring.split("\n", maxsplit=1)[0].strip()


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_module_outgrows_its_idea(source: Path) -> None:
    assert len(source.read_text(encoding="utf-8").splitlines()) <= 450


@pytest.mark.parametrize("source", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_are_named_for_an_idea(source: Path) -> None:
    assert source.stem not in {"utils", "util", "helpers", "helper", "common", "misc"}
