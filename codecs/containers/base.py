"""Files that hold many records and say themselves what those are made of: what is read of one, and which kinds there are.

A container never opens a file and never asks who keeps schemas: it is given both. Adding a kind is a file here and a line in
`CONTAINERS`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, TypeAlias

import pyarrow as pa

from distributary.registry.base import Guid

# Named, not imported, as codecs are.
CONTAINERS: Mapping[str, str] = {
    "avro": "distributary.codecs.containers.avro:AvroFiles",
    "parquet": "distributary.codecs.containers.parquet:ParquetFiles",
}


class Damaged(Exception):
    """What comes next in a file cannot be read; it says why."""


@dataclass(frozen=True, slots=True)
class Gap:
    """Rows of a file that cannot be read, while those behind them can.

    first  the first of them
    why    the reason, which quotes nothing of them
    """

    first: int
    why: str


Part: TypeAlias = tuple[int, pa.BinaryArray] | Gap
"""Records one behind the other, none of them null, and the row of the first; or rows that cannot be read."""

Named: TypeAlias = Callable[[str], Guid]
"""By which GUID records name a schema of which this is the text."""


class Container(ABC):
    """One kind of files: either `Naming` or `Merging`.

    decoded_as  the codec that decodes its records, by name
    """

    decoded_as: str

    @abstractmethod
    def schema(self, file: Any) -> str:
        """What a file's records are made of: the text of a registered schema, or a StructType's JSON. Raises Damaged."""

    @abstractmethod
    def rows(self, file: Any, named: Named) -> Iterator[Part]:
        """The records of an open file. Raises Damaged behind the last one that can be read."""


class Naming(Container):
    """A kind of files whose records name the schema that their file was written with, as if a registry had it."""


class Merging(Container):
    """A kind of files whose records are JSON and name no schema: those of the files that come next are made one."""

    @abstractmethod
    def merged(self, schemas: Sequence[str]) -> str:
        """One schema that takes the records of each of these."""


def load_container(format: str) -> Container | None:  # noqa: A002 - as the settings call it
    """The kind of files that settings call so; None for those that say nothing of their records."""
    if format not in CONTAINERS:
        return None
    module, _, name = CONTAINERS[format].partition(":")
    made: Container = getattr(import_module(module), name)()
    return made


def decoded_as(format: str) -> str:  # noqa: A002
    """The codec that decodes what is in files of this format."""
    container = load_container(format)
    return "json" if container is None else container.decoded_as


def is_of_the_place(error: OSError) -> bool:
    """Whether an error tells of the place that a file is read from, and not of what it holds: Arrow's own have no number."""
    return error.errno is not None or isinstance(error, ConnectionError | FileNotFoundError | PermissionError)
