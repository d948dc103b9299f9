"""What a codec may be able to do for the functions of notebooks, beside what every codec does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, runtime_checkable

from distributary.codecs.base import Codec, RecordReader
from distributary.registry.base import Schema


@runtime_checkable
class ResolvingCodec(Codec, Protocol):
    """A codec whose format has rules of its own for reading records of one schema as another has them."""

    def resolving(self, writer: Schema, reader: Schema, recursion: int = 0) -> RecordReader:
        """The reader for records of the writer's schema whose columns are the reader's. Raises BadSchema."""
        ...


@runtime_checkable
class SparkCodec(Codec, Protocol):
    """A codec that can give the very columns and values of Spark's own function for its format."""

    def as_spark(self, options: Mapping[str, str]) -> Codec:
        """The same codec where that function is called with these options. Raises ConfigError."""
        ...
