"""The wheel holds the four linked folders whole, and works in a clean environment far from the checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tarfile
import venv
from collections.abc import Sequence
from pathlib import Path
from zipfile import ZipFile

import pytest

from distributary import __version__

pytestmark = pytest.mark.wheel

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("codecs", "ingest", "producer_sim", "registry")
DATA = {".py", ".lock", ".xml", ".proto", ".yaml", ".yml"}


def run(command: Sequence[str | Path], cwd: Path) -> str:
    # The checkout must not be found by accident.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def code_of_the_checkout() -> set[str]:
    linked = {
        f"distributary/{folder}/{path.relative_to(ROOT / folder)}"
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.suffix in DATA
    }
    package = ROOT / "src/distributary"
    own = {f"distributary/{path.relative_to(package)}" for path in package.rglob("*.py")}
    return linked | own | {"distributary/py.typed"}


@pytest.fixture(scope="session")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist and the wheel made from it, built from a copy so that the checkout stays clean."""
    folder = tmp_path_factory.mktemp("distributions")
    copy = folder / "checkout"
    unwanted = shutil.ignore_patterns(".*", "build", "dist", "demo-output", "*.egg-info", "__pycache__")
    shutil.copytree(ROOT, copy, symlinks=True, ignore=unwanted)
    run([sys.executable, "-m", "build", "--no-isolation", "--outdir", folder, copy], copy)
    return folder


@pytest.fixture(scope="session")
def wheel(distributions: Path) -> Path:
    (built,) = distributions.glob("*.whl")
    return built


@pytest.fixture(scope="session")
def clean_environment(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new environment with the wheel, which borrows the installed dependencies but not this checkout."""
    home = tmp_path_factory.mktemp("environment")
    venv.create(home, with_pip=False)
    python = home / "bin/python"
    site = run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], home).strip()
    run([sys.executable, "-m", "pip", "--python", python, "install", "--no-deps", "--no-index", wheel], home)
    # A plain line in a .pth adds a folder but does not run the .pth files inside it: no editable install comes along.
    borrowed = next(entry for entry in sys.path if entry.endswith("site-packages"))
    (Path(site) / "borrowed.pth").write_text(borrowed + "\n")
    return home


def test_wheel_holds_every_file_of_the_code(wheel: Path) -> None:
    packed = {name for name in ZipFile(wheel).namelist() if ".dist-info/" not in name}
    assert packed == code_of_the_checkout()


def test_sdist_holds_every_file_of_the_code(distributions: Path) -> None:
    (sdist,) = distributions.glob("*.tar.gz")
    with tarfile.open(sdist) as tar:
        packed = {name.partition("/src/")[2] for name in tar.getnames()}
    assert code_of_the_checkout() <= packed


def test_wheel_carries_its_licence(wheel: Path) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in ZipFile(wheel).namelist())


def test_console_script_runs_far_from_the_checkout(clean_environment: Path, tmp_path: Path) -> None:
    assert (
        run([clean_environment / "bin/distributary", "--version"], tmp_path)
        == f"distributary {__version__}\n"
    )


def test_installed_code_is_the_wheels_own(clean_environment: Path, tmp_path: Path) -> None:
    question = "import distributary.codecs.base, distributary.ingest as i; print(*i.__path__)"
    answer = run([clean_environment / "bin/python", "-c", question], tmp_path).strip()
    assert Path(answer).is_relative_to(clean_environment)
