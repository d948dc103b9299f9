"""What the tables are called in a catalog: names that SQL takes without quotes, and no two tables by one name."""

from __future__ import annotations

import re
from collections.abc import Mapping

from distributary.ingest.settings.catalog import Catalog

# Hive's metastore takes no more.
_LONGEST = 128

_NO_NAME = re.compile(r"[^a-z0-9_]")


def name_of(catalog: Catalog, entity: str, folder: str) -> str:
    """A table's name; of one whose entity has no name, by its folder.

    >>> name_of(Catalog(database="bronze", name="{topic}"), "game-events", "game_events_0123456789abcdef")
    'game_events'
    """
    shown = {"entity": entity or folder, "topic": entity or folder, "table": folder}
    name = re.sub(r"\{(\w+)\}", lambda found: shown[found[1]], catalog.name)
    return _NO_NAME.sub("_", name.lower())[:_LONGEST]


def names_of(
    catalog: Catalog, entities: Mapping[str, str], taken: Mapping[str, str]
) -> tuple[dict[str, str], list[str]]:
    """The name of each table, by its folder, and a sentence on each that has none, as another one has it.

    entities  the entities, and their tables' folders
    taken     the names that are given already, each with its table's folder
    """
    given, told = dict(taken), list[str]()
    names: dict[str, str] = {}
    for entity, folder in sorted(entities.items()):
        name = name_of(catalog, entity, folder)
        holder = given.setdefault(name, folder)
        if holder == folder:
            names[folder] = name
        elif folder not in names:
            told.append(
                f"table {folder} has no name in the catalog, as table {holder} is {catalog.database}.{name} already; "
                "put {table} into catalog.name, which no two tables share"
            )
    return names, told
