"""A pipeline's settings: one YAML file, checked whole before anything runs."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError, field_validator, model_validator

from distributary.codecs.base import Codec, load_codec
from distributary.codecs.envelope.options import DELETES, SAID, TABLE, Envelope, envelope_of
from distributary.codecs.envelope.said import BEFORE, POSITION, PREFIX
from distributary.ingest.bronze.given import Bronze
from distributary.ingest.bronze.rule import AsTheyCame
from distributary.ingest.columns import safe_names as names
from distributary.ingest.derivation.given import Derived, wrong_derived
from distributary.ingest.reshaping.given import wrong_beside
from distributary.ingest.settings.catalog import Catalog
from distributary.ingest.settings.check import add_problems, refuse_literal_secrets
from distributary.ingest.settings.erased.given import GivenErased
from distributary.ingest.settings.filling_in.outside import Outside
from distributary.ingest.settings.filling_in.switches import switch, switches
from distributary.ingest.settings.groups import (
    Decode,
    Limits,
    NamedTable,
    Policies,
    Route,
    Sink,
    Source,
    Spark,
    Supervisor,
    Trigger,
)
from distributary.ingest.settings.lineage.given import Lineage
from distributary.ingest.settings.places import AnyPlace
from distributary.ingest.settings.problems import as_error
from distributary.ingest.settings.reference import json_schema_of, page_of
from distributary.ingest.settings.registry.given import Registry, with_wire, wrong_in_glue
from distributary.ingest.settings.rule_book import RuleBook
from distributary.ingest.settings.source.landing import format_of, wrong_schemas
from distributary.ingest.settings.source.ways_back import wrong_ways_back
from distributary.ingest.settings.table_rules import TableRule, wrong_rules
from distributary.ingest.settings.yaml_file import Document, in_no_file, parse, read
from distributary.ingest.storage.options import StorageOptions
from distributary.ingest.storage.place import Place
from distributary.values import EmptyIsNone, Group, Wrong

KEY_TEXT = "kafka_key_text"

# The column that an envelope's `source_ts` becomes, where it is kept.
_SOURCE_TIME = "__source_ts"


def _checkpoint_has_a_default(schema: dict[str, Any]) -> None:
    # It is made from the name, which a model's field cannot say.
    schema["required"].remove("checkpoint")


def _reads_no_topics(given: Mapping[str, Any]) -> bool:
    source = given.get("source")
    said = source if isinstance(source, Mapping) else getattr(source, "__dict__", {})
    return any(said.get(name) is not None for name in ("delta", "files"))


def _with_key_text(given: Mapping[str, Any], decode: object) -> Mapping[str, Any]:
    """The settings with the column's default name where keys become text."""
    sink = given.get("sink")
    if (
        not (isinstance(decode, Mapping) and isinstance(sink, Mapping))
        or decode.get("key", "bytes") == "bytes"
    ):
        return given
    columns = sink.get("columns") or {}
    if not isinstance(columns, Mapping) or columns.get("key_text") is not None:
        return given
    return {**given, "sink": {**sink, "columns": {**columns, "key_text": KEY_TEXT}}}


def _with_envelope(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings with what an envelope says where they do not: the routing field, and what is newer and what a delete in upserts."""
    decode = given.get("decode")
    envelope = decode.get("envelope") if isinstance(decode, Mapping) else None
    if envelope is None:
        return given
    by_source = not isinstance(envelope, Mapping | Envelope) or _order_of(envelope) == "source"
    route, tables = given.get("route"), given.get("tables")
    filled = dict(given)
    if isinstance(route, Mapping) and route.get("by", "field") == "field" and route.get("field") is None:
        filled["route"] = {**route, "field": TABLE}
    if isinstance(tables, list | tuple):
        filled["tables"] = [
            _told_by_envelope(rule, by_source) if isinstance(rule, Mapping) else rule for rule in tables
        ]
    return filled


def _order_of(envelope: Mapping[str, Any] | Envelope) -> Any:
    return envelope.order if isinstance(envelope, Envelope) else envelope.get("order", "source")


def _told_by_envelope(rule: Mapping[str, Any], by_source: bool) -> Mapping[str, Any]:
    if rule.get("mode") not in ("upsert", "history"):
        return rule
    filled = dict(rule)
    if by_source and rule.get("sequence_by") is None:
        filled["sequence_by"] = [POSITION] if rule["mode"] == "upsert" else [_SOURCE_TIME, POSITION]
    if rule["mode"] == "history":
        filled["history"] = _without_said(rule.get("history"), (rule.get("keys"), filled.get("sequence_by")))
    deletes = rule.get("deletes")
    if deletes is None:
        filled["deletes"] = DELETES
    elif isinstance(deletes, Mapping) and deletes.get("when") is None:
        filled["deletes"] = {**deletes, "when": DELETES}
    return filled


def _without_said(history: Any, named: tuple[Any, ...]) -> Any:
    """What keeps what was, whose rows what an envelope says makes no history: it is about a change, not about what became."""
    if not isinstance(given := {} if history is None else history, Mapping):
        return history
    ignored = given.get("ignore") or []
    if not isinstance(ignored, list | tuple):
        return history
    taken = [*ignored, *(one for names in named if isinstance(names, list | tuple) for one in names)]
    return {**given, "ignore": [*ignored, *(one for one in SAID if one not in taken)]}


class Settings(Group):
    """Everything one pipeline is told. Relative paths are relative to the settings file's folder."""

    model_config = ConfigDict(json_schema_extra=_checkpoint_has_a_default)

    name: Annotated[str, Field(pattern=r"^[a-z0-9_-]+$", max_length=100)]
    """The pipeline's name: a-z, 0-9, _ and -."""
    env: Annotated[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$", max_length=50)] | None, EmptyIsNone] = (
        None
    )
    """What `{env}` stands for in names and places; `--env` and the variable `DISTRIBUTARY_ENV` win over it, in that order."""
    debug_suffix: Annotated[
        Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+$", max_length=50)] | None, EmptyIsNone
    ] = None
    """What is put behind the names of all places that a run writes to, and of the catalog's database, so that a trial touches nothing of the real ones; mostly given as `--debug-suffix _debug`."""
    source: Source
    """Where the events come from."""
    registry: Registry = Registry()
    """The schema registry; not needed by a format whose schema is inferred."""
    decode: Decode = Decode()
    """How payloads become rows."""
    route: Route
    """How a record finds its table."""
    sink: Sink
    """Where the tables are."""
    tables: tuple[TableRule, ...] = ()
    """What some entities' tables are: a list of rules, of which the first that fits an entity says it."""
    derive: tuple[Derived, ...] = ()
    """Tables that are made of these tables, and kept current by the runs."""
    erased: tuple[GivenErased, ...] = ()
    """SQL conditions over records' own fields, such as `player.id = 7`, and keys, such as `{key: p7}`: a record for which a condition is true, or that has such a key, lands nowhere, and is counted as `erased`, so that no replay brings back what was erased from the tables. Conditions are as those of `tables[].deletes`; records without a value, tombstones, are known by their key alone."""
    bronze: Bronze | None = None
    """A table with every record that is read, once and as it came: bytes, headers, place and time. `{}` or `{table: bronze}`; by default there is none."""
    catalog: Catalog | None = None
    """By which names Spark's SQL finds the tables; by default they have none but their places."""
    lineage: Lineage | None = None
    """Where data catalogues hear of each run, as events of OpenLineage's; by default nowhere."""
    storage: StorageOptions = StorageOptions()
    """How object stores and HDFS are reached; a folder needs none of it. What is not given comes from the environment, as each cloud's own tools take it."""
    checkpoint: AnyPlace
    """Where everything is that the pipeline remembers: a folder, or a place in a store as `sink.root` may be; by default `checkpoints/<name>`. Not inside `sink.root`."""
    start: Literal["resume", "from_tables", "again"] = "resume"
    """What a new checkpoint does about tables filled from another one: `resume` refuses, `from_tables` goes on from the offsets kept in the tables, `again` reads everything once more."""
    confirm_dead: tuple[str, ...] = ()
    """Generations, as an error names them, of which you know that no run is alive on any machine: their tables are taken over although their log cannot be reached."""
    trigger: Trigger = Trigger()
    """When batches run."""
    limits: Limits = Limits()
    """Bounds on what a batch and a worker take at once."""
    policies: Policies = Policies()
    """What happens to what does not fit."""
    supervisor: Supervisor = Supervisor()
    """How often the query is started again by itself."""
    spark: Spark = Spark()
    """The Spark session."""

    @model_validator(mode="before")
    @classmethod
    def _default_folders(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        given = with_wire(_with_envelope(given))
        name, decode = given.get("name"), given.get("decode") or {}
        if _reads_no_topics(given) and isinstance(decode, Mapping):
            # As which rows are handed on, with the types that their tables say, and what most files hold.
            decode = {"format": format_of(given["source"]), **decode}
            given = {**given, "decode": decode}
        if given.get("checkpoint") is None:
            given = {**given, "checkpoint": f"checkpoints/{name}"}
        if isinstance(decode, Mapping) and decode.get("schema_location") is None:
            given = {**given, "decode": {**decode, "schema_location": f"schemas/{name}"}}
        catalog = given.get("catalog")
        if isinstance(catalog, Mapping) and catalog.get("metastore") is None:
            given = {**given, "catalog": {**catalog, "metastore": "metastore"}}
        return _with_key_text(given, decode)

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together, in groups that are each right by themselves."""
        if self.sink.columns.key_text is not None and self.decode.key == "bytes":
            why = "decode.key is bytes, so there is no such column; leave it out"
            yield ("sink", "columns", "key_text"), why
        yield from _wrong_for(self)
        yield from wrong_ways_back(
            self.source, self.sink.root, self.checkpoint, self.derive, self.decode.schema_location
        )
        named = self.policies.no_entity
        if isinstance(named, NamedTable) and names.may_be_an_entity(self.route.table, named.table):
            why = f"an entity's table could have this name too (route.table is {self.route.table}); choose another"
            yield ("policies", "no_entity", "table"), why
        if self.rule_book().remembers:
            why = f"what remembers the deletes of a table is called so; choose a name that does not end in {names.MEMORY_SUFFIX}"
            if self.route.table.endswith(names.MEMORY_SUFFIX):
                yield ("route", "table"), why
            if isinstance(named, NamedTable) and named.table.endswith(names.MEMORY_SUFFIX):
                yield ("policies", "no_entity", "table"), why
        yield from self._keeping_all()
        if self.catalog is not None:
            for keys, why in self.catalog.wrong_for(self.route.by, self.spark.conf):
                yield ("catalog", *keys), why
        yield from self._wrong_in_lists()
        yield from self._landing_by_envelopes()
        for place, rule in enumerate(self.tables):
            if rule.update == "present" and not load_codec(self.decode.codec).registered:
                why = f"records in {self.decode.format} name no schema of their own, so that none has fewer columns than another"
                yield ("tables", place, "update"), f"{why}; leave it out"
            if why := _not_kept(rule, envelope_of(self.decode.envelope)):
                yield ("tables", place, "sequence_by"), why

    def _wrong_in_lists(self) -> Iterator[Wrong]:
        for place, (keys, why) in wrong_rules(self.tables, self.route, self.sink, self.policies):
            yield ("tables", place, *keys), why
        named = self.policies.no_entity
        others = {*self._kept().folders, *({named.table} if isinstance(named, NamedTable) else ())}
        for keys, why in wrong_derived(self.derive, self.route.table, others, self.source.kafka):
            yield ("derive", *keys), why

    def _keeping_all(self) -> Iterator[Wrong]:
        """What does not go with keeping every record as it came."""
        if self.bronze is None:
            return
        named = self.policies.no_entity
        table = named.table if isinstance(named, NamedTable) else None
        for keys, why in self.bronze.wrong_for(self.source.topics, self.erased, table):
            yield ("bronze", *keys), why

    def _landing_by_envelopes(self) -> Iterator[Wrong]:
        """Rules by which something hidden would land as what a row was before."""
        envelope = envelope_of(self.decode.envelope)
        if envelope is None or BEFORE not in envelope.keep:
            return
        for place, rule in enumerate(self.tables):
            if rule.columns is not None and (why := wrong_beside(rule.columns, f"{PREFIX}{BEFORE}")):
                yield ("tables", place, "columns"), why

    def rule_book(self) -> RuleBook:
        """Which rule says what an entity's table is."""
        return replace(RuleBook.by(self.tables, self.route, self.sink, self.erased), kept=self._kept())

    def _kept(self) -> AsTheyCame:
        if self.bronze is not None:
            return self.bronze.tables(self.source.topics)
        return AsTheyCame(headers=self.policies.quarantine_headers)

    @field_validator("checkpoint", mode="after")
    @classmethod
    def _not_a_root(cls, place: Place) -> Place:
        if not place.key:
            raise ValueError("it is all of a file system or bucket; write a folder of its own")
        return place

    @classmethod
    def from_file(
        cls,
        path: Path | str,
        environment: Mapping[str, str] | None = None,
        *,
        env: str | None = None,
        debug_suffix: str | None = None,
    ) -> Settings:
        """The settings in a YAML file, `${VAR}` filled in from the environment.

        path          the file; relative paths in it are relative to its folder
        environment   the variables; by default the process's
        env           what `{env}` stands for, whatever variables and file say
        debug_suffix  what is put behind the names of all places that a run writes to

        Raises ConfigError, which names all problems with their lines and remedies.

        >>> settings = distributary.Settings.from_file("games.yaml")
        >>> settings.name
        'games'
        """
        given = switches(env, debug_suffix, ("from_file(env=…)", "from_file(debug_suffix=…)"))
        return load(Path(path), environment, given)

    @classmethod
    def from_yaml(cls, text: str, folder: Path | str = ".") -> Settings:
        """The settings in a text as it would stand in a file of this folder. Raises ConfigError as `from_file` does."""
        outside = Outside(os.environ, Path(os.path.abspath(folder)))
        return _checked(parse(text, Path("settings"), outside), folder, os.environ)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any], folder: Path | str = ".") -> Settings:
        """The settings in a mapping of the same names. Secrets are taken as they are, in clear, and so is what looks like `${VAR}`;
        `{env}` and its like are filled in as in a file, by `env` there.

        given   groups are mappings again: `{"name": "games", "source": {"topics": [...], ...}, ...}`
        folder  what relative paths are relative to

        Raises ConfigError, which names all problems with their remedies.
        """
        return _checked(in_no_file(given), folder)

    def once(self) -> Settings:
        """The same, for a run that takes what is there now and then ends."""
        return self.model_copy(update={"trigger": self.trigger.model_copy(update={"available_now": True})})

    def of_topics(self, names: Sequence[str]) -> Settings:
        """The same with these topics, where patterns may have stood."""
        return self.model_copy(update={"source": self.source.model_copy(update={"topics": tuple(names)})})

    def continuously(self) -> Settings:
        """The same, for a run that goes on until it is stopped."""
        return self.model_copy(update={"trigger": self.trigger.model_copy(update={"available_now": False})})

    def effective(self) -> dict[str, Any]:
        """All settings, defaults included, as plain JSON values; secrets are masked."""
        return self.model_dump(mode="json")


def _not_kept(rule: TableRule, envelope: Envelope | None) -> str:
    """Why a row's time is in no column; empty where it is in one."""
    sequence = rule.sequence_by or ()
    if rule.mode != "history" or envelope is None or sequence[:1] != (_SOURCE_TIME,):
        return ""
    if _SOURCE_TIME.removeprefix("__") in envelope.keep:
        return ""
    return f"{_SOURCE_TIME} is a column only where an envelope's source_ts is kept; write decode.envelope.keep: [op, source_ts]"


def _wrong_for(settings: Settings) -> Iterator[Wrong]:
    """What the codec that the settings name cannot do."""
    decode, registry = settings.decode, settings.registry
    yield from wrong_in_glue(registry, decode)
    codec = load_codec(decode.codec)
    if not codec.registered and codec.capabilities.growing is None:
        why = f"the class of codec {decode.format} says by `registered` that records name no schema, and by `capabilities` nothing"
        yield (
            ("decode", "format"),
            f"{why} of how theirs is inferred (`growing`); have it say so, or choose another",
        )
        return
    if settings.source.delta is not None and (codec.registered or decode.envelope is not None):
        yield (
            ("decode", "format"),
            "rows of tables are read as JSON that names no schema; leave out what is said of formats and envelopes",
        )
    if settings.source.delta is not None and decode.schema_per != "topic":
        yield ("decode", "schema_per"), "tables say what their columns are; leave it out"
    brought = settings.source.files is not None and settings.source.files.brings_schemas
    yield from wrong_schemas(settings.source.files, decode, registry)
    if not brought and registry.url is None and registry.type == "confluent" and codec.registered:
        why = f"records in {decode.format} name their schema: write a registry's address, such as http://127.0.0.1:8081"
        yield ("registry", "url"), why
    if decode.key == "auto" and not codec.registered:
        why = f"keys name schemas of a registry, which format {decode.format} has none of; write format: auto"
        yield ("decode", "key"), why
    if decode.check == "schema" and codec.capabilities.validating is None:
        why = f"schemas of format {decode.format} say nothing of records that decoding does not check anyway"
        yield ("decode", "check"), f"{why}; leave it out"
    if decode.envelope is not None and decode.engine == "spark":
        why = "Spark's functions know nothing of an envelope; write engine: arrow, or leave it out"
        yield ("decode", "engine"), why
    if decode.schema_per == "entity" and (why := _no_schema_an_entity(settings, codec)):
        yield ("decode", "schema_per"), f"{why}: write schema_per: topic, or leave it out"


def _no_schema_an_entity(settings: Settings, codec: Codec) -> str:
    """Why no entity can have an inferred schema of its own; empty where each can."""
    decode, route, growing = settings.decode, settings.route, codec.capabilities.growing
    if growing is None:
        return f"records in {decode.format} name their schema in a registry"
    if route.by in ("record", "expression"):
        return f"route.by {route.by} tells a record's entity only once it is decoded, which takes its schema"
    if route.by == "field" and growing.picked is None:
        return f"the codec {decode.format} cannot find route.field before it has a schema"
    if route.by == "key" and decode.key == "auto":
        return "`infer` reads keys as they are, while a run routes by what decode.key auto makes of them"
    if decode.engine == "spark":
        return "decode.engine spark decodes by one schema for the topic"
    return ""


def json_schema() -> dict[str, Any]:
    """The settings' JSON Schema, for editors that complete and check YAML."""
    return json_schema_of(Settings)


def reference_page() -> str:
    """The settings' page of the reference, `docs/reference/settings.md`."""
    return page_of(Settings)


def load(path: Path, environment: Mapping[str, str] | None = None, given: Sequence[str] = ()) -> Settings:
    """The settings in a file, `${VAR}` filled in from the environment, and each that is `given` instead, as `sink.root=./lake`.

    Raises one ConfigError with all problems.
    """
    return load_with_places(path, environment, given)[0]


def load_with_places(
    path: Path,
    environment: Mapping[str, str] | None = None,
    given: Sequence[str] = (),
    *,
    asks: bool = True,
) -> tuple[Settings, Document]:
    """The same, and where each of them stands. Unless it `asks`, no command is run that gives a secret. Raises as `load`."""
    variables = os.environ if environment is None else environment
    document = read(path, variables, given, asks=asks)
    return _checked(document, Path(path).parent, variables), document


def _checked(document: Document, folder: Path | str, variables: Mapping[str, str] | None = None) -> Settings:
    """The settings that a document holds; relative paths in them are relative to the folder. Raises ConfigError."""
    switch(document, variables or {})
    if document.path is not None:
        refuse_literal_secrets(document, Settings)
    settings: Settings | None = None
    try:
        settings = Settings.model_validate(
            document.settings, context={"folder": Path(os.path.abspath(folder))}
        )
    except ValidationError as error:
        add_problems(document, Settings, error)
    if settings is None or document.problems:
        raise as_error(document.path, document.problems)
    return settings
