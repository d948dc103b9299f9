"""The reader of polars-avro: the compiled part of that package alone, without the Python around it.

What is around it takes a newer Python than the package says, 3.11, and imports polars, which nobody needs here and which
starts threads when it is imported: Spark's workers could not be forked from a process that has it.
"""

from __future__ import annotations

from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

_PACKAGE, _COMPILED = "polars_avro", "_avro_rs"


def _compiled() -> Any:
    package = find_spec(_PACKAGE)
    folders = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec(_COMPILED, list(folders or []))
    if spec is None or spec.loader is None:
        raise ImportError(f"{_PACKAGE} has no {_COMPILED} here: install it again", name=_PACKAGE)
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


AvroSource: Any = _compiled().AvroSource
"""Reads Avro containers: `AvroSource(files, False, False).batch_iter(rows, None)` gives Arrow batches."""
