from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from importlib.metadata import distribution
from pathlib import Path

import pytest

from distributary.packing.archive import Packed, pack

ROOT = Path(__file__).resolve().parents[2]

# A few that need nothing else.
FEW = ("distributary", "platformdirs", "tenacity")


def unpacked(made: Packed, folder: Path) -> Path:
    """The environment's interpreter, in a folder of another name."""
    with tarfile.open(made.archive) as tar:
        tar.extractall(folder, filter="tar")
    return folder / "bin" / "python"


def run(python: Path, source: str, path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [str(python), "-c", source], env={"PATH": path}, capture_output=True, text=True, check=False
    )


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return pack(tmp_path_factory.mktemp("packed"), list(map(distribution, FEW)))


def test_packages_are_found_wherever_the_archive_is_unpacked(packed: Packed, tmp_path: Path) -> None:
    python = unpacked(packed, tmp_path / "a b")
    source = "import platformdirs, distributary.errors as e; print(platformdirs.__file__); print(e.__file__)"
    answer = run(python, source, f"{Path(sys.base_prefix)}/bin:/usr/bin:/bin")
    assert answer.returncode == 0, answer
    assert [Path(line).is_relative_to(tmp_path / "a b" / "lib") for line in answer.stdout.splitlines()] == [
        True,
        True,
    ]


def test_a_python_that_is_not_there_is_told(packed: Packed, tmp_path: Path) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("dirname", "uname"):
        (programs / name).symlink_to(shutil.which(name) or "")
    python = unpacked(packed, tmp_path / "there")
    answer = subprocess.run(
        ["/bin/sh", str(python)], env={"PATH": str(programs)}, capture_output=True, text=True, check=False
    )
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    assert answer.returncode == 127, answer
    assert answer.stderr.startswith(f"error: there is no {version} on the PATH of ")
    assert "distributary package --interpreter" in answer.stderr


def test_nothing_in_it_tells_of_this_machine(packed: Packed) -> None:
    with tarfile.open(packed.archive) as tar:
        members = tar.getmembers()
        texts = {
            one.name: tar.extractfile(one)
            for one in members
            if "dist-info" in one.name or one.name.startswith("bin")
        }
        told = [
            name for name, file in texts.items() if file is not None and str(ROOT).encode() in file.read()
        ]
    assert told == []
    assert {(one.uid, one.gid, one.uname, one.gname) for one in members} == {(0, 0, "", "")}


def test_the_program_beside_it_is_the_command_line(packed: Packed) -> None:
    answer = subprocess.run(
        [sys.executable, str(packed.program), "--version"], capture_output=True, text=True, check=False
    )
    assert answer.stdout.startswith("distributary "), answer


def test_it_is_written_in_the_place_of_an_older_one_and_leaves_nothing_else(packed: Packed) -> None:
    again = pack(packed.archive.parent, [distribution("platformdirs")])
    assert {path.name for path in packed.archive.parent.iterdir()} == {again.archive.name, again.program.name}
    assert again.bytes == again.archive.stat().st_size < packed.bytes


# Thousands of files of Python's own; `make test-cluster` has workers run by it.
@pytest.mark.heavy
def test_an_interpreter_that_is_taken_along_needs_none_on_the_path(tmp_path: Path) -> None:
    made = pack(tmp_path, [distribution("platformdirs")], interpreter=True)
    source = "import ssl, ctypes, sqlite3, sys, platformdirs; print(sys.prefix); print(sys.version_info[:2])"
    answer = run(unpacked(made, tmp_path / "there"), source, "/usr/bin:/bin")
    assert answer.stdout == f"{tmp_path / 'there/python'}\n{sys.version_info[:2]}\n", answer
