"""How long a look at a folder takes in which a million files landed: the first one, a start, and one that finds nothing new.

    python benchmarks/bench_landing.py [FILES]

Prints one JSON object; `benchmarks/results/landing.json` is one of a million.
"""

from __future__ import annotations

import json
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

from distributary.ingest.landing.looking import Looking
from distributary.ingest.landing.register import Register
from distributary.ingest.settings.source.landing import FilesSource
from distributary.ingest.storage.posix import PosixFiles

_A_FOLDER = 10_000


def main() -> None:
    """Have the files, look at them, and print what that took."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    with tempfile.TemporaryDirectory(dir=".") as folder:
        root = Path(folder).resolve()
        _have_files(root / "landing", count)
        print(json.dumps(measured(root, count), indent=2))


def measured(root: Path, count: int) -> dict[str, float]:
    """Seconds and MiB of each look, and what the register has of files."""
    before = _peak_mib()
    first = _look(root)
    found = {"files": float(count), "first_look_seconds": _seconds(partial(first.look, 0))}
    if first.register.next_number != count:
        raise SystemExit(f"{first.register.next_number} files of {count} were registered")
    found["first_look_mib"] = _peak_mib() - before
    del first
    began = time.perf_counter()
    again = _look(root)
    found["start_seconds"] = time.perf_counter() - began
    found["look_seconds"] = _seconds(lambda: again.look(count))
    infos = list(PosixFiles(root / "register").walk())
    return {**found, "register_objects": len(infos), "register_mib": sum(info.size for info in infos) / 2**20}


def _look(root: Path) -> Looking:
    chosen = FilesSource.model_validate({"path": str(root / "landing"), "identity": "etag"})
    register = Register(PosixFiles(root / "register"), str(chosen.path))
    return Looking(PosixFiles(root / "landing"), chosen, register)


def _have_files(folder: Path, count: int) -> None:
    for number in range(count):
        if not number % _A_FOLDER:
            below = folder / f"part={number // _A_FOLDER:04d}"
            below.mkdir(parents=True)
        (below / f"{number:09d}.json").write_bytes(b"{}")


def _seconds(run: Callable[[], None]) -> float:
    began = time.perf_counter()
    run()
    return time.perf_counter() - began


def _peak_mib() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
