"""Files go through ingest/storage alone: no other module of ingest/ opens, lists, asks for or removes a path by itself."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

_MACHINE = "it is the machine's own: Java, jars and Spark's settings, the same wherever tables are"
_SPARKS = "Spark's own files of a query, which are in a folder of this machine alone"
_BEFORE = "a checkpoint from before there was a log, which is in a folder alone"
_ARROW = (
    "Arrow reads tables in a folder by a file system of its own; by delta-rs' its threads would call Python"
)
_LOCK = "a lock on a POSIX file system, which no store has"
# Each with the reason why it may touch files of this machine by itself.
MAY_TOUCH_FILES: Mapping[str, str] = {
    "catalog/metastore.py": "the folder of a metastore, which Spark's own has on this machine",
    "settings/yaml_file.py": "the settings file that a user names",
    "settings/filling_in/outside.py": "files of secrets that a user names, as an orchestrator puts them on this machine",
    "spark/artifact_list.py": _MACHINE,
    "spark/artifacts.py": _MACHINE,
    "spark/class_archive.py": _MACHINE,
    "spark/class_archive_writing.py": _MACHINE,
    "spark/ivy.py": _MACHINE,
    "spark/java.py": _MACHINE,
    "checkpoint/scratch.py": _SPARKS,
    "checkpoint/spark_files.py": _SPARKS,
    "checkpoint/old_layout.py": _BEFORE,
    "lease/folder_lock.py": _LOCK,
    "lease/upkeep_lock.py": _LOCK,
    "lineage/sending.py": "the file that a user names for events, which the standard's own client writes on this machine",
    "tables/state.py": _ARROW,
    "upkeep/in_runs.py": "what a process beside a run says, for as long as that lives",
    "worker/child_process.py": "no file: what tells the system which process is to end first where memory is short",
}

# Modules that are for nothing else.
_MODULES = {"shutil", "glob", "tempfile", "fileinput", "pyarrow.fs", "distributary.files"}

# What of `os` takes a path; `os.path` has more of it than not.
_OF_OS = {
    *("access", "chmod", "link", "listdir", "lstat", "makedirs", "mkdir", "mkfifo", "open", "readlink", "remove", "removedirs"),
    *("rename", "renames", "replace", "rmdir", "scandir", "stat", "statvfs", "symlink", "truncate", "unlink", "utime", "walk"),
}  # fmt: skip

_OF_OS_PATH = {
    *("exists", "getatime", "getctime", "getmtime", "getsize", "isdir", "isfile", "islink", "ismount"),
    *("lexists", "realpath", "samefile"),
}

# Methods of pathlib's paths, but for those that other things have too.
_OF_PATHS = {
    *("exists", "glob", "is_dir", "is_file", "is_symlink", "iterdir", "lstat", "mkdir", "read_bytes", "read_text"),
    *("rglob", "rmdir", "stat", "symlink_to", "hardlink_to", "touch", "unlink", "write_bytes", "write_text"),
}  # fmt: skip


def touched(source: str) -> Iterator[str]:
    """What a module calls or imports to touch files, each with its line."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and (name := _call(node)):
            yield f"{node.lineno}: {name}"
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (f"{node.lineno}: {name}" for name in _imported(node))


def _call(node: ast.Call) -> str | None:
    called = ast.unparse(node.func)
    owner, _, name = called.rpartition(".")
    if called == "open" or (owner == "os" and name in _OF_OS) or (owner == "os.path" and name in _OF_OS_PATH):
        return called
    if name == "open" and node.args and _is_mode(node.args[0]):
        return called
    return called if owner and owner not in {"os", "os.path"} and name in _OF_PATHS else None


def _is_mode(argument: ast.expr) -> bool:
    """Whether something is opened to be read or written, and not a book of schemas for some subjects."""
    value = argument.value if isinstance(argument, ast.Constant) else None
    return isinstance(value, str) and set(value) <= set("rwxabt+")


def _imported(node: ast.Import | ast.ImportFrom) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names if alias.name in _MODULES)
    elif node.module == "pyarrow":
        yield from (f"pyarrow.{alias.name}" for alias in node.names if f"pyarrow.{alias.name}" in _MODULES)
    elif node.module == "os":
        yield from (f"os.{alias.name}" for alias in node.names if alias.name in _OF_OS)
    elif node.module == "distributary.files":
        # Neither a name nor a machine is a file.
        harmless = {"is_temporary", "temporary_name", "machine"}
        yield from (alias.name for alias in node.names if alias.name not in harmless)
    elif node.module in _MODULES:
        yield str(node.module)


OUTSIDE = sorted(
    path.relative_to(ROOT / "ingest").as_posix()
    for path in (ROOT / "ingest").rglob("*.py")
    if path.parent != ROOT / "ingest" / "storage"
)


@pytest.mark.parametrize("module", [module for module in OUTSIDE if module not in MAY_TOUCH_FILES])
def test_files_go_through_the_seam(module: str) -> None:
    found = list(touched((ROOT / "ingest" / module).read_text(encoding="utf-8")))
    assert not found, f"ingest/{module} touches files by itself; use ingest/storage: {found}"


@pytest.mark.parametrize("module", MAY_TOUCH_FILES)
def test_no_exception_is_kept_for_nothing(module: str) -> None:
    assert list(touched((ROOT / "ingest" / module).read_text(encoding="utf-8")))


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("open('a')", ["1: open"]),
        ("x = 1\nos.path.exists(a)", ["2: os.path.exists"]),
        ("os.makedirs(a)", ["1: os.makedirs"]),
        ("os.path.join(a, b)", []),
        ("os.getpid()", []),
        ("Path(a).read_text()", ["1: Path(a).read_text"]),
        ("(folder / name).unlink()", ["1: (folder / name).unlink"]),
        ("file.open('rb')", ["1: file.open"]),
        ("schemas.open(subjects)", []),
        ("import shutil", ["1: shutil"]),
        ("from shutil import rmtree", ["1: shutil"]),
        ("from os import scandir", ["1: os.scandir"]),
        ("from pyarrow import fs", ["1: pyarrow.fs"]),
        ("from distributary.files import replace", ["1: replace"]),
        ("from distributary.files import is_temporary", []),
        ("files.info(path)", []),
    ],
)
def test_what_touches_files_is_seen(source: str, expected: list[str]) -> None:
    assert list(touched(source)) == expected
