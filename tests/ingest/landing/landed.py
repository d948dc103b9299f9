"""Files that land, and the parts that look for them and read them, for tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from distributary.ingest.landing.looking import Looking
from distributary.ingest.landing.numbers import Landed
from distributary.ingest.landing.reading import Landing, rows_of
from distributary.ingest.landing.register import Register
from distributary.ingest.settings.source.landing import FilesSource
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.posix import PosixFiles


def looking(files: Files, now: Callable[[], float] | None = None, **chosen: Any) -> Looking:
    """A look at the folder `landing` whose register is beside it, as each run has one of its own."""
    settings = FilesSource.model_validate({"path": "/landing", **chosen})
    register = Register(files.below("register"), "/landing")
    return Looking(files.below("landing"), settings, register, now or time.time)


def put(files: Files, content: Mapping[str, bytes]) -> None:
    """Have these files in the folder, each by its path there."""
    for path, data in content.items():
        files.put(f"landing/{path}", data)


def registered(look: Looking) -> list[Landed]:
    """All that has a number."""
    return look.register.between(0, look.register.next_number)


def paths(look: Looking) -> list[str]:
    """The same, by their paths."""
    return [one.path for one in registered(look)]


def records(files: Files, look: Looking, of: str = "lines", **landing: Any) -> list[tuple[int, bytes]]:
    """Each record's offset and value, of all files."""
    reads = Landing(files.below("landing"), "landing", of, files.below("register"), **landing)
    batches = [batch for file in registered(look) for batch in rows_of(reads, file, reads.schemas().named)]
    return [
        (offset, value)
        for batch in batches
        for offset, value in zip(batch["offset"].to_pylist(), batch["value"].to_pylist(), strict=True)
    ]


def register_some(root: str, name: str) -> list[tuple[str]]:
    """The paths that one process registers beside others."""
    register, mine = Register(PosixFiles(root), "/landing"), list[tuple[str]]()
    for number in range(40):
        path = f"{name}-{number}"
        while not register.append([Landed(register.next_number, path, 7, 1000, "tag", path)]):
            continue
        mine.append((path,))
        register.bring_together()
    return mine
