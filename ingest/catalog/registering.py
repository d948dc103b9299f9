"""Names of tables in Spark's catalog, given beside the batches: none waits for a metastore, and none fails for want of one.

A name is all that the catalog has: columns, comments and properties are in the table's own log, where readers look.
"""

from __future__ import annotations

import logging
import re
import threading
import time
from collections.abc import Mapping
from urllib.parse import unquote

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from distributary.ingest.catalog.metastore import IMPLEMENTATION
from distributary.ingest.catalog.names import name_of, names_of
from distributary.ingest.log_paths import LOG
from distributary.ingest.settings.catalog import Catalog
from distributary.ingest.spark.error_classes import derby_is_held, named
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.place import Place

_log = logging.getLogger(__name__)

_LOCATION = re.compile(r"^Location: (.*)$", re.MULTILINE)

# So many tables one after the other are no matter of these tables.
_FAILURES_IN_A_ROW = 3

# A metastore that was not to be had is asked again with a later batch.
_AGAIN_SECONDS = 60.0

# As long as Hive's own client waits for an answer; and what is left to it of a run that is told to stop.
_SILENT_SECONDS, _END_SECONDS = 600.0, 20.0

# How often who waits looks whether the run is to end.
_LOOK_SECONDS = 0.2


class TableNames:
    """Gives the tables under a root their names, in a thread of its own."""

    def __init__(self, spark: SparkSession, catalog: Catalog, root: Files) -> None:
        self._spark, self._catalog, self._root = spark, catalog, root
        self._wanted: dict[str, str] = {}
        self._taken: dict[str, str] = {}
        self._told: set[str] = set()
        self._refused: set[str] = set()
        self._not_before = 0.0
        self._thread: threading.Thread | None = None
        self._ends = threading.Event()

    def take(self, entities: Mapping[str, str]) -> None:
        """Have these tables named, by their entities; those that have their names cost nothing."""
        if set(self._wanted) == set(entities) and not self._lacks():
            return
        self._wanted = dict(entities)
        if not self._is_at_work() and time.monotonic() >= self._not_before:
            self._begin()

    def _begin(self) -> None:
        self._thread = threading.Thread(target=self._work, name="catalog", daemon=True)
        self._thread.start()

    def close(self, *, wait: bool, stop: threading.Event | None = None) -> None:
        """End; with `wait` once all that are there have their names, unless the run is told to stop, else with the one that is given just now.

        A metastore that does not answer is left alone.
        """
        if not wait:
            self._ends.set()
        seconds = _SILENT_SECONDS if wait else _END_SECONDS
        if self._has_ended(seconds, stop) and wait and self._lacks():
            # Tables that came when the thread had looked.
            self._begin()
            self._has_ended(seconds, stop)

    def _has_ended(self, seconds: float, stop: threading.Event | None) -> bool:
        """Whether nobody is at work any more; it is waited for as long as a table has got its name within so many seconds."""
        thread, given = self._thread, -1
        while thread is not None and thread.is_alive() and given != len(self._taken):
            given, until = len(self._taken), time.monotonic() + seconds
            while thread.is_alive() and time.monotonic() < until:
                if stop is not None and stop.is_set():
                    return False
                thread.join(min(seconds, _LOOK_SECONDS))
        if self._is_at_work():
            self._tell_once(
                f"the metastore of catalog {self._catalog.database} does not answer within {seconds:g} seconds; tables are named by a later run"
            )
        return not self._is_at_work()

    def _lacks(self) -> bool:
        names, _ = names_of(self._catalog, self._wanted, self._taken)
        return not set(names.values()) <= set(self._taken)

    def _is_at_work(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def _work(self) -> None:
        try:
            self._name_all()
        except Exception as error:  # noqa: BLE001 whatever it is, batches go on
            self._tell_once(f"no names in catalog {self._catalog.database}: {_sentence(error)}")
        if self._lacks():
            self._not_before = time.monotonic() + _AGAIN_SECONDS

    def _name_all(self) -> None:
        spark = self._spark.newSession()
        database = _quoted(self._catalog.database)
        if "." not in self._catalog.database and spark.conf.get(IMPLEMENTATION, "in-memory") == "in-memory":
            self._tell_once(
                f"the catalog of this Spark session ends with it, and so do names in {self._catalog.database}: start the session with "
                f"{IMPLEMENTATION}=hive, or let distributary make it"
            )
        spark.sql(f"CREATE DATABASE IF NOT EXISTS {database}")
        there = _there(spark, database)
        names, told = names_of(self._catalog, self._wanted, {**self._given(there), **self._taken})
        for sentence in told:
            self._tell_once(sentence)
        failures = 0
        # What was refused before comes last: it may be so for ever, and keeps no other from its name.
        for folder, name in sorted(names.items(), key=lambda one: one[0] in self._refused):
            # Of a table that was taken away by hand Spark would make an empty one; the next batch makes it anew.
            if name not in self._taken and self._root.has_files(f"{folder}/{LOG}"):
                try:
                    self._name(spark, name, folder, there)
                    failures = 0
                    self._refused.discard(folder)
                except (PySparkException, Py4JError) as error:
                    # Of one that was refused before nothing follows for others.
                    failures += folder not in self._refused
                    self._refused.add(folder)
                    # It is the metastore that is not to be had.
                    if failures >= _FAILURES_IN_A_ROW:
                        raise
                    self._tell_once(
                        f"table {folder} has no name in catalog {self._catalog.database}: {_sentence(error)}"
                    )
            if self._ends.is_set():
                return

    def _given(self, there: Mapping[str, str | None]) -> dict[str, str]:
        """The names that tables were given by runs before, which they keep, whoever else comes that would be called so.

        What somebody called one beside that, or it was called by other settings, is told with the remedy of its own.
        """
        return {
            name: folder
            for entity, folder in self._wanted.items()
            if there.get(name := name_of(self._catalog, entity, folder)) == _plain(self._location(folder))
        }

    def _location(self, folder: str) -> str:
        return location_for_spark(Place.parse(self._root.url) / folder)

    def _name(self, spark: SparkSession, name: str, folder: str, there: Mapping[str, str | None]) -> None:
        location = self._location(folder)
        if name not in there:
            spark.catalog.createTable(f"{_quoted(self._catalog.database)}.`{name}`", location, source="delta")
        elif there[name] not in (None, _plain(location)):
            self._tell_once(
                f"{self._catalog.database}.{name} is another table, in {there[name]}, so that {location} has no name; "
                f"DROP TABLE {self._catalog.database}.{name}, which leaves its files, or change catalog.name"
            )
        self._taken[name] = folder

    def _tell_once(self, sentence: str) -> None:
        if sentence not in self._told:
            self._told.add(sentence)
            _log.warning("%s", sentence)


def location_for_spark(table: Place) -> str:
    """Where Spark, which reads S3 by another scheme, finds a table."""
    return f"s3a://{table.authority}/{table.key}" if table.kind == "s3" else str(table)


def _there(spark: SparkSession, database: str) -> dict[str, str | None]:
    """The names that a database has, each with where its table is; None where the catalog does not tell."""
    try:
        found = spark.sql(f"SHOW TABLE EXTENDED IN {database} LIKE '*'").collect()
    except PySparkException:
        return {row["tableName"]: None for row in spark.sql(f"SHOW TABLES IN {database}").collect()}
    return {row["tableName"]: _location(row["information"]) for row in found}


def _location(information: str) -> str | None:
    found = _LOCATION.search(information)
    return None if found is None else _plain(unquote(found[1]))


def _plain(location: str) -> str:
    """A location without what Spark puts before a folder."""
    return re.sub(r"^file:/*", "/", location).rstrip("/")


def _quoted(database: str) -> str:
    return ".".join(f"`{part}`" for part in database.split("."))


def _sentence(error: Exception) -> str:
    if derby_is_held(error):
        return (
            "another process uses the metastore, and an embedded Derby admits one; tables are named by a later batch or run. "
            "For several at once have Spark use a Hive metastore (docs/how-to/names-in-a-catalog.md)"
        )
    return f"{named(error) or type(error).__name__}; tables are named by a later batch or run, and rows land meanwhile"
