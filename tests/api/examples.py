"""The examples in the docstrings of the public names, and how one is held to what it shows."""

from __future__ import annotations

import doctest
from typing import Any

import distributary
from distributary.api import PLACES

# Each needs a broker, a registry, a Spark session and what the ones before it left.
ON_THE_STACK = (
    "Settings.from_file",
    "simulate",
    "save_truth",
    "load_truth",
    "run",
    "plan",
    "stuck_tables",
    "versions_at",
    "flow",
    "verify",
)


def found() -> dict[str, str]:
    """The docstrings that hold examples, by the public name."""
    given: dict[str, str] = {}
    for name in PLACES:
        value = getattr(distributary, name)
        below = vars(value).items() if isinstance(value, type) else ()
        for path, what in ((name, value), *((f"{name}.{key}", member) for key, member in below)):
            text = getattr(what, "__doc__", None) or ""
            if ">>> " in text:
                given[path] = text
    return given


def hold(name: str, text: str, names: dict[str, Any]) -> None:
    """Runs an example; what it names is there for the ones after it."""
    test = doctest.DocTestParser().get_doctest(text, names, name, None, None)
    test.globs = names
    said: list[str] = []
    failed, tried = doctest.DocTestRunner(verbose=False).run(test, out=said.append, clear_globs=False)
    assert (failed, tried > 0) == (0, True), "".join(said)
