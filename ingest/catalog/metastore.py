"""Where a session keeps names: what Spark is told of its catalog, and the folder of the metastore that is embedded in it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from distributary.ingest.settings.catalog import Catalog
from distributary.ingest.spark.class_archive import JAVA_OPTIONS, is_parted

IMPLEMENTATION = "spark.sql.catalogImplementation"
"""Whether names last longer than their session: `hive` or `in-memory`."""

# By any of these the user says himself where names are kept.
_OF_THE_USERS_OWN = {
    "spark.hadoop.hive.metastore.uris",
    "spark.hadoop.javax.jdo.option.ConnectionURL",
    "spark.hive.metastore.uris",
}


def session_settings(catalog: Catalog | None, given: Mapping[str, str]) -> dict[str, str]:
    """What a session is made with so that names last, beside the settings of Spark that are given; makes the metastore's folder."""
    if catalog is None or "." in catalog.database:
        return {}
    found = {IMPLEMENTATION: "hive"}
    if catalog.metastore is not None and _OF_THE_USERS_OWN.isdisjoint(given):
        catalog.metastore.mkdir(parents=True, exist_ok=True)
        found |= {
            "spark.sql.warehouse.dir": (catalog.metastore / "warehouse").as_uri(),
            "spark.hadoop.javax.jdo.option.ConnectionURL": _derby(catalog.metastore / "derby"),
        }
        log = catalog.metastore / "derby.log"
        # Left to itself, Derby writes it where the process was started.
        found |= {} if is_parted(log) else {JAVA_OPTIONS: f"-Dderby.stream.error.file={log}"}
    return found


def _derby(folder: Path) -> str:
    return f"jdbc:derby:;databaseName={folder};create=true"
