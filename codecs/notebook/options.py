"""The options of `from_protobuf`, `from_avro` and `from_json` that are about a registry or a schema's folder, read and checked.

As in Spark, capitals in their names do not matter. Options that say what values become are each format's own.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Literal, cast

from distributary.codecs.base import Mode
from distributary.codecs.json.options import RESCUE, json_options, rescued_column
from distributary.codecs.notebook.query import Wanted
from distributary.codecs.notebook.subject import Evolution
from distributary.codecs.option_values import depth, mode_of, one_of, text_of
from distributary.errors import ConfigError
from distributary.registry.confluent.client_names import PREFIX, registry_options
from distributary.registry.confluent.options import RegistryOptions

SUBJECT, ADDRESS = "schema.registry.subject", "schema.registry.address"

NAME = "schema.registry.protobuf.name"

EVOLUTION = "schema.registry.schema.evolution.mode"

AVRO_EVOLUTION = "avroSchemaEvolutionMode"

MODE = "mode"

AVRO_SCHEMA = "avroSchema"

AVRO_DEPTH = "recursiveFieldMaxDepth"

Engine = Literal["auto", "spark", "python"]

# Ours: which decoder to use, where newer serializers' record headers are, and which of those count. The others are
# Databricks' or Spark's.
ENGINE = "distributary.engine"

HEADERS = "distributary.headers"

PAYLOAD = "distributary.payload"

_CODECS = {
    "from_protobuf": "protobuf",
    "from_avro": "avro",
    "from_json": "jsonschema",
    "to_protobuf": "protobuf",
    "to_avro": "avro",
}

_KNOWN = {
    name.lower(): name
    for name in (SUBJECT, ADDRESS, NAME, EVOLUTION, AVRO_EVOLUTION, MODE, ENGINE, HEADERS, PAYLOAD)
}

# Their values are taken as they are; those of the others are looked at where they are read.
_TEXTS = {SUBJECT, ADDRESS, NAME, HEADERS, AVRO_SCHEMA}

_OF_AVRO = {name.lower(): name for name in (AVRO_SCHEMA, AVRO_DEPTH)}

# Spark lets none be deeper: 1 is a record without itself.
_MAX_AVRO_DEPTH = 15


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOptions:
    """What a call asks for.

    wanted   which schemas of the subject, and as what; the options in it are those that are not about a registry
    headers  the frame's column of Kafka's record headers; None where only payloads name their schemas
    payload  `key` or `value`: which of a record's two schemas in its headers counts; None for what the column's name says
    """

    subject: str
    registry: RegistryOptions
    wanted: Wanted
    mode: Mode
    engine: Engine
    headers: str | None = None
    payload: str | None = None


def asks_a_registry(options: Mapping[str, str] | None) -> bool:
    """Whether the options name a subject or the address of a registry."""
    return any(name.lower() in (SUBJECT, ADDRESS) for name in options or {})


def function_options(function: str, options: Mapping[str, str], evolution: Evolution) -> FunctionOptions:
    """What these options of a function ask for; `evolution` is what its users expect where none says so.

    Raises ConfigError, naming the option. Those that are about values are not checked here.
    """
    client = {name.removeprefix(PREFIX): value for name, value in options.items() if name.startswith(PREFIX)}
    known = {**_KNOWN, **(_OF_AVRO if function == "from_avro" else {})}
    options = {known.get(n.lower(), n): value for n, value in options.items() if not n.startswith(PREFIX)}
    for name in (SUBJECT, ADDRESS):
        if not options.get(name):
            raise ConfigError(f"{function}: {name} is missing; a registry needs its address and a subject")
    for name in _TEXTS & options.keys():
        text_of(f"{function}: {name}", options[name])
    mode, engine = location_options({name: options[name] for name in (MODE, ENGINE) if name in options})
    newer = options.get(EVOLUTION, options.get(AVRO_EVOLUTION, evolution))
    return FunctionOptions(
        subject=options[SUBJECT],
        registry=registry_options(options[ADDRESS], client),
        wanted=Wanted(
            codec=_CODECS[function],
            message=options.get(NAME),
            evolution=cast("Evolution", one_of(EVOLUTION, newer, ("restart", "none"))),
            reader=options.get(AVRO_SCHEMA),
            recursion=depth(AVRO_DEPTH, options.get(AVRO_DEPTH, "-1"), _MAX_AVRO_DEPTH),
            options={name: value for name, value in options.items() if name not in known.values()},
        ),
        mode=mode,
        engine=engine,
        headers=options.get(HEADERS),
        payload=one_of(PAYLOAD, options[PAYLOAD], ("value", "key")) if PAYLOAD in options else None,
    )


def location_options(options: Mapping[str, str]) -> tuple[Mode, Engine]:
    """The two options that every way has. Raises ConfigError for a third one."""
    unknown = sorted(set(options) - {MODE, ENGINE})
    if unknown:
        raise ConfigError(f"option {unknown[0]!r} is not known here; there are: {MODE}, {ENGINE}")
    mode = mode_of(MODE, options.get(MODE, "FAILFAST"))
    engine = one_of(ENGINE, options.get(ENGINE, "auto"), ("auto", "spark", "python"))
    return mode, cast("Engine", engine)


def exactly(asked: FunctionOptions) -> FunctionOptions:
    """The same by our own decoder, unless it is said otherwise: Spark's functions alter values and take broken records."""
    return replace(asked, engine="python") if asked.engine == "auto" else asked


def reading_json(asked: FunctionOptions) -> FunctionOptions:
    """The same by the engine that can do it: Spark's alone reads by options that say how, ours alone rescues. Raises ConfigError."""
    rescued, others = rescued_column(asked.wanted.options or {})
    json_options(others)
    if rescued is None:
        return asked if others else exactly(asked)
    if others or asked.engine == "spark":
        what = " and ".join([*([ENGINE] if asked.engine == "spark" else []), *others])
        raise ConfigError(
            f"from_json: {what} asks for Spark's own function, which rescues nothing; give either that or {RESCUE}"
        )
    return exactly(asked)
