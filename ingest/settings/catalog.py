"""The settings' group on names in a catalog: by what `SELECT … FROM database.table` finds the tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import AfterValidator, Field

from distributary.passed_on_options import ClientOptions
from distributary.values import Group, OptionalFolder, Wrong

_DATABASE = r"^[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)?$"

_PLACEHOLDER = re.compile(r"\{([^{}]*)\}")

# What a name may be made of.
PLACEHOLDERS = ("entity", "topic", "table")


def _checked_name(template: str) -> str:
    found = _PLACEHOLDER.findall(template)
    if unknown := [name for name in found if name not in PLACEHOLDERS]:
        raise ValueError(
            f"{{{unknown[0]}}} stands for nothing; there are {', '.join(f'{{{name}}}' for name in PLACEHOLDERS)}"
        )
    if not found:
        raise ValueError("all tables would have this name; put {entity} into it")
    return template


class Catalog(Group):
    """Names of the tables in Spark's catalog."""

    database: Annotated[str, Field(pattern=_DATABASE, max_length=255)]
    """The database, made where it is not there: `bronze`, or `catalog.database` for a catalog that `spark.conf` configures, such as Unity's."""
    name: Annotated[str, Field(max_length=200), AfterValidator(_checked_name)] = "{entity}"
    """The tables' names: `{entity}` is the routing value, `{topic}` the same for `route.by: topic`, `{table}` the table's folder. Letters become small, and what is no letter a-z, digit or _ becomes _."""
    metastore: OptionalFolder = None
    """The folder of the metastore that is made where `spark.conf` names none: an embedded Derby, which one process at a time may use. By default `metastore`."""

    def wrong_for(self, by: str, conf: ClientOptions) -> Iterator[Wrong]:
        """What does not go together with what records are routed by, and with Spark's settings."""
        if "{topic}" in self.name and by != "topic":
            yield (
                ("name",),
                f"records are routed by {by}, so that a table may have those of several topics; write {{entity}}",
            )
        catalog, dot, _ = self.database.partition(".")
        if dot and catalog != "spark_catalog" and f"spark.sql.catalog.{catalog}" not in conf:
            yield (
                ("database",),
                f"spark.conf does not say what catalog {catalog} is; write spark.sql.catalog.{catalog} there, or a database alone",
            )
