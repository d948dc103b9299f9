"""The layout that lets `distributary.codecs` live in the top-level folder codecs/, and how large its parts may be."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from importlib import import_module
from pathlib import Path

import pytest
from tests.statements import statements

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("codecs", "ingest", "producer_sim", "registry")
SOURCES = sorted(
    path
    for folder in (*FOLDERS, "src/distributary")
    for path in (ROOT / folder).rglob("*.py")
    if path.is_file()
)
TESTS = sorted((ROOT / "tests").rglob("*.py"))

# So many parameters or fields one holds in mind; more of them have parts with names of their own.
MOST = 8

_YAML = "a group of the settings file, whose names users write"
_ROW = "a row of a table: a field a column"
_FILE = "what a file of the checkpoint holds: a field a name there"
_PUBLIC = "users call it, or read it, by these names"
_MANY = "its parts have no names of their own yet"
_OPTIONS = "the options of a command, which users call by these names"
MAY_HAVE_MORE: Mapping[str, str] = {
    "src/distributary/functions.py decode": _PUBLIC,
    "src/distributary/commands/quarantine/looking.py list_": _OPTIONS,
    "src/distributary/commands/quarantine/looking.py show": _OPTIONS,
    "src/distributary/commands/quarantine/changing.py replay": _OPTIONS,
    "src/distributary/commands/tables/rebuild.py replay": _OPTIONS,
    "src/distributary/commands/quarantine/changing.py purge": _OPTIONS,
    "codecs/avro/types/schema.py AvroType": _MANY,
    "ingest/checkpoint/change_log.py TableChange": _FILE,
    "ingest/checkpoint/manifest.py Manifest": _FILE,
    "ingest/derived/marks.py Mark": _FILE,
    "ingest/derived/refresh.py Refreshed": _PUBLIC,
    "ingest/evolution/rules_of_tables.py RuleInPlan": _PUBLIC,
    "ingest/evolution/verdicts.py TableVerdict": _PUBLIC,
    "ingest/progress.py Summary": _PUBLIC,
    "ingest/settings/groups.py Columns": _YAML,
    "ingest/settings/groups.py Decode": _YAML,
    "ingest/settings/groups.py Policies": _YAML,
    "ingest/settings/groups.py Sink": _YAML,
    "ingest/settings/groups.py Source": _YAML,
    "ingest/settings/source/landing.py FilesSource": _YAML,
    "ingest/settings/table_rules.py TablePolicies": _YAML,
    "ingest/settings/table_rules.py TableRule": _YAML,
    "ingest/settings/model.py Settings": _YAML,
    "ingest/derivation/given.py Derived": _YAML,
    "ingest/reshaping/given.py ColumnsRule": _YAML,
    "ingest/settings/rule_book.py TableSpec": "what a rule of the settings says, a field a key there",
    "ingest/erasure/outcome.py TableErasure": _PUBLIC,
    "ingest/tables/ledger.py BatchRow": _ROW,
    "ingest/tables/ledger.py ChangeRow": _ROW,
}


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


def name_of(source: Path) -> str:
    return str(source.relative_to(ROOT))


def says_what_it_is(source: Path) -> bool:
    docstring = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8")))
    return docstring is not None and docstring.split("\n", maxsplit=1)[0].strip() != ""


def test_every_module_says_what_it_is() -> None:
    assert not [name_of(source) for source in SOURCES if not says_what_it_is(source)]


def test_no_module_outgrows_its_idea() -> None:
    lines = {
        name_of(source): len(source.read_text(encoding="utf-8").splitlines()) for source in (*SOURCES, *TESTS)
    }
    assert not {name: count for name, count in lines.items() if count > 450}


def test_modules_are_named_for_an_idea() -> None:
    no_ideas = {"utils", "util", "helpers", "helper", "common", "misc"}
    assert not [name_of(source) for source in SOURCES if source.stem in no_ideas]


def parameters(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """How many values a function is called with; the object or class that has it is none of them."""
    given = function.args
    named = [one.arg for one in (*given.posonlyargs, *given.args)]
    own = named[1:] if named[:1] in (["self"], ["cls"]) else named
    return len(own) + len(given.kwonlyargs) + (given.vararg is not None) + (given.kwarg is not None)


def fields(owner: ast.ClassDef) -> int:
    """How many annotated attributes a class has itself; those it is made from are parts with names."""
    own = [one for one in owner.body if isinstance(one, ast.AnnAssign)]
    return sum("ClassVar" not in ast.unparse(one.annotation) for one in own)


def large(source: str) -> Iterator[str]:
    """The functions and classes of a module that have more parameters or fields than one holds in mind."""
    for node in statements(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            many = parameters(node) > MOST
        elif isinstance(node, ast.ClassDef):
            many = fields(node) > MOST
        else:
            continue
        if many:
            yield node.name


def test_parts_have_names_of_their_own() -> None:
    found = {
        f"{name_of(source)} {name}"
        for source in SOURCES
        for name in large(source.read_text(encoding="utf-8"))
    }
    assert not found - MAY_HAVE_MORE.keys(), (
        f"more than {MOST} parameters or fields: give parts names, or say why not above"
    )
    assert not MAY_HAVE_MORE.keys() - found, "these are small enough now: take them from the list above"


@pytest.mark.parametrize(
    "text",
    [
        "def f(a, b, c, d, e, f, /, g, *, h, i): ...",
        "def f(a, b, c, d, e, f, g, *args, **kwargs): ...",
        "class A:\n    def f(self, a, b, c, d, e, f, g, h, i): ...",
        "class A:\n" + "".join(f"    {name}: int\n" for name in "abcdefghi"),
    ],
)
def test_what_has_too_many_is_found(text: str) -> None:
    assert list(large(text))


def test_what_an_object_is_called_on_is_no_parameter() -> None:
    assert not list(large("class A:\n    def f(self, a, b, c, d, e, f, g, h): ..."))
