"""What `import distributary` gives: every name there, lazily, and the same for the interpreter as for the checker."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pyarrow as pa
import pytest
from tests.api import examples, reference

import distributary
from distributary.api import PLACES, PUBLIC

ROOT = Path(__file__).resolve().parents[1]
INIT = ROOT / "src/distributary/__init__.py"
PAGES = sorted(
    page
    for page in [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    if page.parent.name not in ("adr", "explanation")
)

# Not before they are needed: a program that only asks for the version waits for none of them.
HEAVY = ("pyspark", "pyarrow", "confluent_kafka", "deltalake", "pandas", "numpy", "pydantic", "yaml")


def told_to_the_checker() -> dict[str, str]:
    """The names that __init__.py imports for the checker, as the table spells them."""
    given: dict[str, str] = {}
    for node in ast.walk(ast.parse(INIT.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module not in ("typing", "distributary.api"):
            given |= {alias.asname or alias.name: f"{node.module}:{alias.name}" for alias in node.names}
    return given


def loaded_by(code: str) -> set[str]:
    """The packages that are loaded once a fresh interpreter has run this."""
    asked = f"{code}; import sys; print(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", asked], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


@pytest.mark.parametrize("name", PLACES)
def test_every_public_name_is_there(name: str) -> None:
    module, _, attribute = PLACES[name].partition(":")
    found = import_module(module)
    assert getattr(distributary, name) is (getattr(found, attribute) if attribute else found)


@pytest.mark.parametrize("name", PLACES)
def test_every_public_name_says_what_it_is(name: str) -> None:
    _, *said = [line for line in reference.section(name).splitlines() if line and not line.startswith("```")]
    assert [line for line in said if line[0].isupper()], f"{name} has no docstring"


def test_the_checker_is_told_the_same_names() -> None:
    as_imported = {
        name: place if ":" in place else ":".join(place.rsplit(".", 1)) for name, place in PLACES.items()
    }
    assert told_to_the_checker() == as_imported


@pytest.mark.parametrize("name", sorted({*examples.found()} - {*examples.ON_THE_STACK, "infer"}))
def test_an_example_that_needs_nothing_is_true(name: str) -> None:
    examples.hold(name, examples.found()[name], {"distributary": distributary, "pa": pa})


def test_the_reference_page_says_what_the_docstrings_say() -> None:
    assert reference.PAGE.read_text(encoding="utf-8") == reference.page(), (
        "write it anew: python -m tests.api.reference"
    )


def test_no_name_stands_under_two_headings() -> None:
    assert len(PLACES) == sum(map(len, PUBLIC.values()))


def test_no_public_name_hides_a_part_of_the_package() -> None:
    parts = {path.stem for path in INIT.parent.iterdir()}
    assert {name for name in PLACES if name in parts} <= {"errors"}


def test_completion_offers_the_public_names_alone() -> None:
    assert dir(distributary) == sorted(distributary.__all__) == sorted([*PLACES, "__version__"])


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'distributary' has no attribute 'nonsense'"):
        distributary.nonsense  # type: ignore[attr-defined] # noqa: B018 the checker knows that it is not there


def test_the_import_loads_nothing_heavy() -> None:
    assert not loaded_by("import distributary") & {*HEAVY}


def test_completion_loads_nothing_heavy() -> None:
    assert not loaded_by("import distributary; dir(distributary)") & {*HEAVY}


def test_a_registry_in_memory_needs_neither_spark_nor_arrow() -> None:
    assert not loaded_by("import distributary; distributary.MemoryRegistry()") & {"pyspark", "pyarrow"}


def test_settings_need_no_spark_session() -> None:
    assert "confluent_kafka" not in loaded_by("import distributary; distributary.Settings")


def test_a_name_is_kept_once_it_is_loaded() -> None:
    first = distributary.Schema
    assert vars(distributary)["Schema"] is first


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_for_users_names_the_public_modules_alone(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    code = re.findall(r"^\s*(?:\+)?(?:from|import) (distributary[\w.]*)", text, re.MULTILINE)
    run = re.findall(r"python -m (distributary\.[\w.]+)", text)
    named = re.findall(r"`(distributary\.(?:ingest|codecs|registry|producer_sim)\b[\w.]*)`", text)
    public = {"distributary", "distributary.functions", "distributary.errors"}
    # A logger's name and an entry point's group are no modules.
    assert {*code, *run, *named} - public - {"distributary.registry", "distributary.codecs"} == set()
