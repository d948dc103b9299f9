"""Records of a source of which there is no stream of Spark's, and that are read in one way: range by range."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import TypeVar

from pyspark.sql import DataFrame

from distributary.ingest.kafka.offsets import Offsets, Positions
from distributary.ingest.source.contract import Reading
from distributary.ingest.storage.contract import Files

T = TypeVar("T")


class ByRanges(ABC):
    """What such records answer: a batch is read as any range is, and there is no other way to read it.

    Spark's own streams of tables and folders keep their place in a checkpoint that is no part of a pipeline's.
    """

    __slots__ = ()

    @property
    def streams(self) -> bool:
        """There is no stream of Spark's."""
        return False

    def stream(  # noqa: B027 - that there is none is the answer
        self, batch_rows: int, starting_offsets: Positions, wait_seconds: float = 0.0
    ) -> None:
        """None."""

    @abstractmethod
    def range(self, offsets: Offsets) -> DataFrame:
        """The records of a range of offsets."""

    def reading(self, place: Files) -> Reading:
        """These."""
        return self

    def through(self, records: DataFrame, offsets: Offsets, use: Callable[[DataFrame], T]) -> T:
        """What `use` makes of the records."""
        return use(records)

    def is_unreadable(self, error: BaseException) -> bool:
        """There is one way to read them."""
        return False

    def readable(self, offsets: Offsets) -> Offsets:
        """All of it."""
        return offsets
