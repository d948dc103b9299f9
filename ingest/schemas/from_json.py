"""`from_json` with a schema location: its options, by Databricks' names, and what becomes of fields that the schema lacks."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

import pyarrow as pa
from pyspark.sql.types import StructType

from distributary.codecs.base import Mode
from distributary.codecs.json.codec import JsonCodec
from distributary.codecs.json.options import RESCUE, json_options
from distributary.codecs.notebook.options import ENGINE, MODE, Engine, location_options
from distributary.codecs.notebook.query import Wanted, subject_decoding
from distributary.codecs.notebook.subject import SubjectDecoding, rescuing
from distributary.errors import ConfigError, SchemaNotFound, UnknownFieldException
from distributary.ingest.schemas.hints import hinted, hints_of
from distributary.ingest.schemas.inferred import SUFFIX, SchemaLocation
from distributary.ingest.storage.contract import Files
from distributary.ingest.storage.numbered import numbered
from distributary.ingest.storage.opening import open_files
from distributary.ingest.storage.place import Place
from distributary.registry.base import Schema

LOCATION, KEY = "schemaLocation", "schemaLocationKey"

EVOLUTION, HINTS = "schemaEvolutionMode", "schemaHints"

_KNOWN = {name.lower(): name for name in (LOCATION, KEY, EVOLUTION, HINTS, RESCUE, MODE, ENGINE)}

NewFields = Literal["addNewColumns", "rescue", "failOnNewColumns", "none"]

# As the column is called in this project's tables, and by Databricks.
_RESCUED = "_rescued_data"

# As many as a pipeline's schema grows to by itself (decode.max_fields).
MOST_FIELDS = 1_000

_MODES = ("addNewColumns", "rescue", "failOnNewColumns", "none")


@dataclass(frozen=True, slots=True, kw_only=True)
class LocatedOptions:
    """What a call asks for.

    files       where the schema's versions are
    new_fields  what a field does that the schema lacks: the schema grows and the query ends, it is rescued, the query ends, or nothing
    hints       types that win over those of the schema, as Spark's DDL
    rescued     the column for what no other takes; None for none
    values      the options that say how text is read, for Spark's function alone
    """

    files: Files
    new_fields: NewFields
    hints: str | None
    rescued: str | None
    mode: Mode
    engine: Engine
    values: Mapping[str, str]


def located_options(options: Mapping[str, str]) -> LocatedOptions:
    """The options as a call has them. Raises ConfigError, naming the option that is wrong."""
    given = {_KNOWN.get(name.lower(), name): value for name, value in options.items()}
    new_fields = given.get(EVOLUTION, "addNewColumns")
    if new_fields not in _MODES:
        raise ConfigError(f"{EVOLUTION} is {new_fields!r}; it must be {', '.join(_MODES)}")
    mode, engine = location_options({name: given[name] for name in (MODE, ENGINE) if name in given})
    values = {name: value for name, value in given.items() if name not in _KNOWN.values()}
    # A misspelt name is told as one, whatever else is wrong.
    json_options(values)
    return _by_engine(
        LocatedOptions(
            files=open_files(_place(given[LOCATION], given.get(KEY, ""))),
            new_fields=cast("NewFields", new_fields),
            hints=given.get(HINTS),
            rescued=given.get(RESCUE, _RESCUED if new_fields == "rescue" else None),
            mode=mode,
            engine=engine,
            values=values,
        )
    )


def _place(location: str, key: str) -> Place:
    """The folder of a key, or the location itself for none; a path may be relative to where the process is."""
    try:
        if "://" in location:
            return Place.parse(location) / key
        return Place.parse(os.path.abspath(os.path.join(location, key)))
    except ValueError as error:
        raise ConfigError(f"{LOCATION}: {error}") from None


def _by_engine(asked: LocatedOptions) -> LocatedOptions:
    """The same with the engine that can do it: Spark's function tells nothing of what it leaves out."""
    if asked.new_fields == "none" and asked.rescued is None:
        # Spark's function alters values and takes broken records: only who asks for it has it.
        exact = asked.engine == "auto" and not asked.values
        return replace(asked, engine="python") if exact else asked
    if asked.engine == "spark" or asked.values:
        what = " and ".join([*([ENGINE] if asked.engine == "spark" else []), *asked.values])
        raise ConfigError(
            f"from_json: {what} asks for Spark's own function, which says nothing of fields that the schema lacks or values "
            f"that do not fit; give {EVOLUTION} none and no {RESCUE} with it"
        )
    return replace(asked, engine="python")


def located_decoding(asked: LocatedOptions) -> SubjectDecoding:
    """How a query decodes that reads by the newest schema in the folder. Raises ConfigError, SchemaNotFound and BadSchema."""
    _check_folder(asked.files)
    location = _located(asked.files)
    wanted = Wanted("json", evolution="none", options=asked.values)
    decoding = subject_decoding(location, location.subject, wanted)
    if asked.hints is not None:
        decoding = _with_hints(decoding, asked.hints)
    if asked.rescued is not None:
        decoding = rescuing(decoding, asked.rescued)
    if asked.new_fields in ("none", "rescue"):
        return decoding
    growing = GrowingLocation(asked.files, asked.new_fields == "addNewColumns", decoding.pinned[-1].id)
    return replace(decoding, news=replace(decoding.news, growing=growing))


def _located(files: Files) -> SchemaLocation:
    """The versions there, called by their folder."""
    return SchemaLocation(files, files.url.rpartition("/")[2])


def _check_folder(files: Files) -> None:
    """Raises ConfigError where the schemas are in folders below it, one of which has to be named."""
    if numbered(files, "", SUFFIX):
        return
    below = [folder for folder in files.folders() if numbered(files, folder, SUFFIX)]
    if below:
        raise ConfigError(
            f"{files.url} holds no schema itself, but folders of schemas; name one of them as {KEY}: {', '.join(below[:20])}"
        )


def _with_hints(decoding: SubjectDecoding, ddl: str) -> SubjectDecoding:
    latest = decoding.pinned[-1]
    fields = hinted(StructType.fromJson(json.loads(latest.text)), hints_of(ddl, HINTS))
    schema = replace(latest, text=fields.json())
    return replace(decoding, pinned=(schema,), columns=decoding.loaded().reader(schema, ()).schema)


@dataclass(frozen=True, slots=True)
class GrowingLocation:
    """A schema location that takes the fields which records have beyond it, or, where it `adds` none, does not.

    `version` is the one that the query reads by.
    """

    files: Files
    adds: bool
    version: int

    def grow(self, payloads: pa.BinaryArray) -> UnknownFieldException | None:
        """The error that ends the query, for records with such fields; None where no version can take them, being too many.

        Where it adds fields, a version has been written that has them.
        """
        if not self.adds:
            return UnknownFieldException(
                f"records have fields that the schema in {self.files.url} lacks ({EVOLUTION} is failOnNewColumns); look at them "
                "with `distributary infer --refresh --dry-run`, or give another mode"
            )
        version = _located(self.files).changed(lambda latest: self._grown(latest, payloads))
        if version == self.version:
            return None
        return UnknownFieldException(
            f"records have fields that this query's schema lacks; version {version} in {self.files.url} has them: start the "
            "query again to have them too"
        )

    def _grown(self, latest: Schema | None, payloads: pa.BinaryArray) -> str:
        """The newest version with what the payloads have beyond it: types that a query has by its hints are its own affair."""
        if latest is None:
            raise SchemaNotFound(
                f"{self.files.url} holds no schema any more; `distributary infer` writes one"
            )
        return JsonCodec().reader(latest, ()).grown(payloads, MOST_FIELDS).text
