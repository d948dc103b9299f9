"""Which table keeps a topic's records as they came, and how many a batch has of them: what workers and manifests know of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from distributary.errors import CommitImpossible
from distributary.ingest.columns import safe_names as names

TOPIC = "{topic}"

KEEPS_PROPERTY = "distributary.bronze"
"""The table property that says that a table has records as they came."""

ALREADY = ""
"""Instead of a table's folder: records that an earlier checkpoint has kept."""


def folder_of(table: str, topic: str) -> str:
    """The folder of the table that keeps a topic's records; no two topics share one unless all do."""
    if TOPIC not in table:
        return table
    # Kafka takes two topics that differ only by case for two.
    return names.table_name(table.replace(TOPIC, names.ENTITY), topic, fold_case=False)


def require_keeping(table: object, properties: Mapping[str, str | None]) -> None:
    """Raises CommitImpossible where the table there, by its properties, was not made to keep records as they came."""
    if KEEPS_PROPERTY not in properties:
        raise CommitImpossible(
            f"table {table} is to keep each record as it came, and was made for something else. Choose another name for it (`bronze.table`), "
            "or move that table away"
        )


def require_not_keeping(table: object, properties: Mapping[str, str | None]) -> None:
    """Raises CommitImpossible where records of an entity are to land in a table that keeps records as they came."""
    if KEEPS_PROPERTY in properties:
        raise CommitImpossible(
            f"table {table} keeps records as they came, and an entity's records are to land there. Have route.table name another, or move that "
            "table away"
        )


@dataclass(frozen=True)
class AsTheyCame:
    """Of which topics each record is kept as it came, and where.

    by_topic  each topic and the folder of its table; nothing where none is kept
    headers   whether records in quarantine keep their headers
    """

    by_topic: Mapping[str, str] = field(default_factory=dict)
    headers: bool = False

    def __bool__(self) -> bool:
        return bool(self.by_topic)

    @property
    def every_header(self) -> bool:
        """Whether workers need all headers of a record."""
        return self.headers or bool(self)

    @cached_property
    def folders(self) -> frozenset[str]:
        """The folders of all tables that keep records so."""
        return frozenset(self.by_topic.values())
