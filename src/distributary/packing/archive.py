"""An environment for Spark's workers in one file, and the program that `spark-submit` is given.

Spark hands the file to every worker and unpacks it there (`--archives`). So nothing in it may hold a path of this machine: a
virtual environment does, in its interpreter and its programs, and this is none. It is the packages' files, and a launcher that
finds them beside itself.
"""

from __future__ import annotations

import os
import sys
import sysconfig
import tarfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.metadata import Distribution
from io import BytesIO
from pathlib import Path

from distributary.packing.distributions import files_of

ARCHIVE, PROGRAM = "distributary.tar.gz", "distributary_cli.py"

PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"

# What its modules need none of: other packages, tests, windows on a screen, and what extensions are built with.
_NOT_OF_PYTHON = frozenset(
    {"site-packages", "dist-packages", "test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip"}
)

# The slowest part of making it, and little is gained by more.
_COMPRESSION = 1

_LAUNCHER = f"""\
#!/bin/sh
# {PYTHON} with the packages of this archive, wherever it was unpacked.
here=$(CDPATH= cd -- "$(dirname -- "$0")/.." && pwd) || exit 1
export PYTHONPATH="$here/lib${{PYTHONPATH:+:$PYTHONPATH}}" PYTHONNOUSERSITE=1
if [ -x "$here/python/bin/{PYTHON}" ]; then
    export PYTHONHOME="$here/python" LD_LIBRARY_PATH="$here/python/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}"
    exec "$here/python/bin/{PYTHON}" "$@"
fi
command -v {PYTHON} >/dev/null || {{
    echo "error: there is no {PYTHON} on the PATH of $(uname -n); install it, or take one along: distributary package --interpreter" >&2
    exit 127
}}
exec {PYTHON} "$@"
"""

_PROGRAM = '''\
"""The command line of distributary, for spark-submit: `spark-submit ... distributary_cli.py run games.yaml`."""

from distributary.cli import main

main()
'''


@dataclass(frozen=True, slots=True)
class Packed:
    """What was made.

    archive      the environment
    program      what `spark-submit` is given to run
    python       the version that workers need, or that is in the archive
    interpreter  whether it is
    bytes        the archive's size
    """

    archive: Path
    program: Path
    python: str
    interpreter: bool
    bytes: int


def pack(folder: Path, distributions: Sequence[Distribution], *, interpreter: bool = False) -> Packed:
    """Write the archive and the program into a folder, in the place of what may be there.

    With the `interpreter` workers need no Python of their own: it is this one, without its packages. Raises SetupError for a
    package of which no copy can be taken, and OSError.
    """
    folder.mkdir(parents=True, exist_ok=True)
    archive, program = folder / ARCHIVE, folder / PROGRAM
    draft = archive.with_name(f".{ARCHIVE}.{os.getpid()}")
    try:
        with tarfile.open(draft, "w:gz", compresslevel=_COMPRESSION, dereference=True) as tar:
            _add_launcher(tar)
            for one in distributions:
                for path, file in files_of(one):
                    tar.add(file, f"lib/{path}", recursive=False, filter=_nobodys)
            for path, file in _interpreter() if interpreter else ():
                tar.add(file, f"python/{path}", recursive=False, filter=_nobodys)
        draft.replace(archive)
    finally:
        draft.unlink(missing_ok=True)
    program.write_text(_PROGRAM, encoding="utf-8")
    return Packed(archive, program, PYTHON.removeprefix("python"), interpreter, archive.stat().st_size)


def _nobodys(info: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without who owns it here. The time stays: by it Python tells whether a compiled file is its source's."""
    info.uid = info.gid = 0
    info.uname = info.gname = ""
    return info


def _add_launcher(tar: tarfile.TarFile) -> None:
    content = _LAUNCHER.encode()
    info = tarfile.TarInfo("bin/python")
    info.size, info.mode = len(content), 0o755
    tar.addfile(info, BytesIO(content))


def _interpreter() -> Iterator[tuple[str, Path]]:
    """The files of the interpreter that runs, by their path in a home of its own (`PYTHONHOME`)."""
    yield f"bin/{PYTHON}", Path(os.path.realpath(sys.executable))
    home = Path(sysconfig.get_path("stdlib"))
    for top, below, names in os.walk(home):
        below[:] = [name for name in below if name not in _NOT_OF_PYTHON and not name.startswith("config-")]
        for name in names:
            file = Path(top, name)
            if not file.is_file():
                continue
            yield f"{sys.platlibdir}/{PYTHON}/{file.relative_to(home)}", file
    shared = sysconfig.get_config_var("INSTSONAME")
    if sysconfig.get_config_var("Py_ENABLE_SHARED") and shared:
        yield f"lib/{shared}", Path(sysconfig.get_config_var("LIBDIR"), shared)
