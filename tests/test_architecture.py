"""The arrows between the folders, the floors inside them, and the seam that keeps formats inside codecs/."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest
from tests.statements import statements

ROOT = Path(__file__).resolve().parents[1]

# registry <- codecs <- ingest <- producer_sim: each may import what stands to its left, and what all of them share.
SHARED = {"errors", "files", "values", "passed_on_options"}
MAY_IMPORT = {
    "registry": SHARED,
    "codecs": {*SHARED, "registry"},
    "ingest": {*SHARED, "registry", "codecs"},
    "producer_sim": {*SHARED, "registry", "codecs", "ingest"},
}

# Each folder's house, from the ground up. A room is a subfolder, or a file that stands in the folder itself. It may import
# what is on the floors below its own, nothing beside it and nothing above: so no arrow runs back, whatever is added.
# A new room gets a floor here before anything else.
FLOORS: Mapping[str, tuple[str, ...]] = {
    "ingest": (
        "interruptible",
        "columns failpoints log_paths progress storage",
        "reshaping derivation expectations bronze",
        "settings spark conform",
        "kafka parquet catalog",
        "session source landing kinesis",
        "routing",
        "pins merge origins",
        "history clustering",
        "tables commit_log partitioned",
        "checkpoint",
        "lease",
        "schemas resolve table_versions upkeep quality supervision",
        "worker evolution inference inputs erasure derived",
        "quarantine",
        "batch",
        "handover running",
        "beginnings",
        "pipeline",
        "supervisor plan infer lineage",
        "run",
        "replay",
        "rebuild",
    ),
    "codecs": (
        "types reasons option_values",
        "wire changes",
        "base",
        "broken_payloads changes_between",
        "avro json protobuf",
        "jsonschema mixed notebook syntax envelope",
        "writing glue",
        "containers",
    ),
    "codecs/avro": (
        "types",
        "decode spark",
        "resolution",
        "codec",
    ),
    "registry": (
        "base subjects bounded_cache waits",
        "references readable_text versions patience",
        "protobuf answers",
        "same_schema memory",
        "confluent disk glue",
    ),
    "producer_sim": (
        "events stack",
        "formats truth",
        "traffic verify",
        "sending",
        "demo",
    ),
    "src/distributary": (
        "api errors",
        "__init__ files values",
        "passed_on_options",
        "functions lookup packing",
        "views",
        "commands",
        "cli",
        "__main__",
    ),
}
# Who is handed all settings: what users call, and what puts a run together. Everything else is handed the groups it reads.
MAY_TAKE_ALL_SETTINGS = {
    "derived",
    "erasure",
    "infer",
    "inputs",
    "lineage",
    "pipeline",
    "plan",
    "quarantine",
    "rebuild",
    "replay",
    "resolve",
    "run",
    "running",
    "session",
    "settings",
    "table_versions",
    "upkeep",
}

# One takes in so many names at a glance.
MOST_FILES = 16

FORMATS = {"protobuf", "avro", "json", "jsonschema", "json_schema"}
# A schema's type is the registry's own word for it, and the settings name the codec to load.
MAY_NAME_A_FORMAT = {"registry", "codecs"}


def imported(source: str) -> set[str]:
    """The parts of distributary that a module imports, such as {"errors", "codecs"}."""
    names: set[str] = set()
    for node in statements(source):
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


@cache
def text_of(source: Path) -> str:
    return source.read_text(encoding="utf-8")


HOUSES = [(house, source) for house in FLOORS for source in modules(house)]
FLOOR_OF = {
    house: {room: number for number, rooms in enumerate(floors) for room in rooms.split()}
    for house, floors in FLOORS.items()
}


def name_of(source: Path) -> str:
    return str(source.relative_to(ROOT))


def offenders(found: Mapping[str, Collection[object]]) -> dict[str, Collection[object]]:
    """The files for which a rule found something, with that."""
    return {name: what for name, what in found.items() if what}


def prefix_of(house: str) -> str:
    """What the modules of a house are imported from."""
    return "distributary" if house == "src/distributary" else f"distributary.{house.replace('/', '.')}"


def dotted(house: str, source: Path) -> str:
    """What a module is imported as."""
    return ".".join((prefix_of(house), *source.relative_to(ROOT / house).with_suffix("").parts))


MODULE_FILES = {dotted(house, source): source for house, source in HOUSES}


@cache
def modules_imported(module: str) -> frozenset[str]:
    """The modules of ours that a module imports, wherever in it: for the checker only and within functions, too."""
    names: set[str] = set()
    for node in statements(text_of(MODULE_FILES[module])):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return frozenset(names & set(MODULE_FILES)) - {module}


def room_of(house: str, module: str) -> str | None:
    """The room of a house that a module is in; None where it is in another house."""
    inside = module.removeprefix(f"{prefix_of(house)}.")
    room = inside.split(".", maxsplit=1)[0]
    return None if inside == module or f"distributary.{room}" in map(prefix_of, MAY_IMPORT) else room


def arrows_back(house: str, source: Path) -> set[str]:
    """The rooms that a module imports from although they are not below its own."""
    floors, module = FLOOR_OF[house], dotted(house, source)
    room = room_of(house, module)
    assert room in floors, f"say in FLOORS on which floor of {house}/ {room} is"
    rooms = {room_of(house, other) for other in modules_imported(module)} - {room, None}
    return {other for other in rooms if other is not None and floors.get(other, -1) >= floors[room]}


@pytest.mark.parametrize("house", FLOORS)
def test_no_arrow_runs_back(house: str) -> None:
    found = {name_of(source): arrows_back(house, source) for source in modules(house)}
    assert not offenders(found), "these import what is not below their room"


def test_no_two_files_need_each_other() -> None:
    order = TopologicalSorter({module: modules_imported(module) for module in MODULE_FILES})
    try:
        order.prepare()
    except CycleError as error:
        pytest.fail(f"these import each other: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize("house", FLOORS)
def test_each_room_that_has_a_floor_is_there(house: str) -> None:
    rooms = {room_of(house, dotted(house, source)) for source in modules(house)}
    assert set(FLOOR_OF[house]) <= rooms
    assert sum(len(floor.split()) for floor in FLOORS[house]) == len(FLOOR_OF[house]), "a room has two floors"


@pytest.mark.parametrize("house", [*MAY_IMPORT, "src/distributary"])
def test_contributing_has_a_line_for_each_folder(house: str) -> None:
    told = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    lines = {line.split("`")[1]: line for line in told.splitlines() if line.startswith("| `")}
    # What a folder has below it may be told in its line.
    folders = {name_of(source.parent) for source in modules(house)}
    assert not {
        folder
        for folder in folders
        if f"{folder}/" not in lines
        and f"`{folder.rpartition('/')[2]}/`" not in lines.get(f"{folder.rpartition('/')[0]}/", "")
    }, "give each a line, or a word in the line of the folder above"


def test_a_file_does_not_repeat_its_folder() -> None:
    assert not [name_of(source) for _, source in HOUSES if _repeats(source.parent.name, source.stem)]


def _repeats(folder: str, file: str) -> bool:
    """Whether a word of the file's name is the folder's, be that one or many."""
    return file.startswith(folder) or not {folder, folder.removesuffix("s")}.isdisjoint(file.split("_"))


@pytest.mark.parametrize("house", FLOORS)
def test_a_folder_is_taken_in_at_a_glance(house: str) -> None:
    folders = {source.parent for source in modules(house)}
    crowded = {name_of(folder): n for folder in folders if (n := len(list(folder.glob("*.py")))) > MOST_FILES}
    assert not crowded


@pytest.mark.parametrize("folder", MAY_IMPORT)
def test_folder_imports_only_what_it_may(folder: str) -> None:
    may = MAY_IMPORT[folder] | {folder}
    assert not offenders({name_of(source): imported(text_of(source)) - may for source in modules(folder)})


def test_settings_are_handed_out_by_group() -> None:
    handed = [dotted("ingest", source) for source in modules("ingest")]
    others = [module for module in handed if room_of("ingest", module) not in MAY_TAKE_ALL_SETTINGS]
    assert not [
        module for module in others if "distributary.ingest.settings.model" in modules_imported(module)
    ]


@pytest.mark.parametrize(
    ("module", "may_import"),
    [("errors", set()), ("files", {"errors"}), ("values", {"errors"}), ("passed_on_options", {"values"})],
)
def test_the_ground_imports_nothing_that_stands_on_it(module: str, may_import: set[str]) -> None:
    assert imported(text_of(ROOT / "src/distributary" / f"{module}.py")) <= may_import


def test_only_the_entry_point_imports_the_command_line() -> None:
    others = [source for source in modules("src/distributary") if source.name != "__main__.py"]
    assert not offenders(
        {name_of(source): imported(text_of(source)) & {"cli", "functions"} for source in others}
    )


@pytest.mark.parametrize("folder", sorted(MAY_IMPORT.keys() - MAY_NAME_A_FORMAT))
def test_no_branch_on_a_format_outside_codecs(folder: str) -> None:
    assert not offenders(
        {name_of(source): list(format_choices(text_of(source))) for source in modules(folder)}
    )


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
