"""The arrows between the folders, and the seam that keeps formats inside codecs/."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# registry <- codecs <- ingest <- producer_sim: each may import what stands to its left.
MAY_IMPORT = {
    "registry": {"errors"},
    "codecs": {"errors", "registry"},
    "ingest": {"errors", "registry", "codecs"},
    "producer_sim": {"errors", "registry", "codecs", "ingest"},
}
FORMATS = {"protobuf", "avro", "json", "jsonschema", "json_schema"}
# A schema's type is the registry's own word for it, and the settings name the codec to load.
MAY_NAME_A_FORMAT = {"registry", "codecs"}


def imported(source: str) -> set[str]:
    """The parts of distributary that a module imports, such as {"errors", "codecs"}."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (node.module or "")
            names |= {f"{module}.{alias.name}" for alias in node.names}
    relative = {name for name in names if name.startswith(".")}
    ours = {name.split(".")[1] for name in names if name.startswith("distributary.")}
    return ours | relative


def format_choices(source: str) -> Iterator[int]:
    """The lines where code branches on the name of a format: a comparison, a `match` case or a dict of formats."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Compare):
            sides: list[ast.expr] = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            sides = [node.value]
        else:
            continue
        words = {value.value for side in sides for value in ast.walk(side) if isinstance(value, ast.Constant)}
        if any(isinstance(word, str) and word.lower() in FORMATS for word in words):
            yield node.lineno if isinstance(node, ast.Compare) else node.value.lineno


def modules(folder: str) -> list[Path]:
    return sorted((ROOT / folder).rglob("*.py"))


ALL_MODULES = [(folder, source) for folder in MAY_IMPORT for source in modules(folder)]


def name_of(value: object) -> str:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else ""


@pytest.mark.parametrize(("folder", "source"), ALL_MODULES, ids=name_of)
def test_folder_imports_only_what_it_may(folder: str, source: Path) -> None:
    assert imported(source.read_text(encoding="utf-8")) <= MAY_IMPORT[folder] | {folder}


def test_errors_import_nothing_of_ours() -> None:
    assert imported((ROOT / "src/distributary/errors.py").read_text(encoding="utf-8")) == set()


@pytest.mark.parametrize("source", modules("src/distributary"), ids=name_of)
def test_only_the_entry_point_imports_the_command_line(source: Path) -> None:
    if source.name != "__main__.py":
        assert not imported(source.read_text(encoding="utf-8")) & {"cli", "functions"}


@pytest.mark.parametrize(
    ("folder", "source"), [(f, s) for f, s in ALL_MODULES if f not in MAY_NAME_A_FORMAT], ids=name_of
)
def test_no_branch_on_a_format_outside_codecs(folder: str, source: Path) -> None:
    assert list(format_choices(source.read_text(encoding="utf-8"))) == []


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("from distributary.cli import main", {"cli"}),
        ("import distributary.functions as f", {"functions"}),
        ("from distributary import codecs", {"codecs"}),
        ("def f():\n    from distributary.ingest.tables.state import read_state", {"ingest"}),
        ("from ..ingest import tables", {"..ingest.tables"}),
        ("import json", set()),
    ],
)
def test_imports_are_found_wherever_they_stand(source: str, expected: set[str]) -> None:
    assert imported(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "if format == 'avro': f()",
        "x = 1 if 'protobuf' != kind else 2",
        "if kind in ('JSON', 'AVRO'): f()",
        "match kind:\n    case 'protobuf':\n        f()",
    ],
)
def test_branches_on_a_format_are_found(source: str) -> None:
    assert list(format_choices(source))


def test_a_format_that_is_only_named_is_no_branch() -> None:
    assert not list(format_choices("codec = load_codec('protobuf')"))
