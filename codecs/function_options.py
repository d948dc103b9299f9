"""The options of `from_protobuf`, `from_avro` and `from_json` that are about a registry, read and checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, cast

from distributary.codecs.subject_plan import Evolution, Mode
from distributary.errors import ConfigError
from distributary.registry.client_names import PREFIX, registry_options
from distributary.registry.options import RegistryOptions

SUBJECT, ADDRESS = "schema.registry.subject", "schema.registry.address"
NAME = "schema.registry.protobuf.name"
EVOLUTION = "schema.registry.schema.evolution.mode"
AVRO_EVOLUTION = "avroSchemaEvolutionMode"
MODE = "mode"

Engine = Literal["auto", "spark", "python"]
# Ours: which decoder to use. The others are Databricks' or Spark's.
ENGINE = "distributary.engine"

# Spark's own options, and the value that says what happens here anyway.
_ANYWAY = {
    "emit.default.values": "true",
    "enums.as.ints": "false",
    "upcast.unsigned.ints": "true",
    "unwrap.primitive.wrapper.types": "true",
    "retain.empty.message.types": "true",
    "convert.any.fields.to.json": "true",
    "datetimerebasemode": "corrected",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class FunctionOptions:
    """What a call asks for."""

    subject: str
    registry: RegistryOptions
    message: str | None
    evolution: Evolution
    mode: Mode
    engine: Engine


def asks_a_registry(options: Mapping[str, str] | None) -> bool:
    """Whether the options name a subject or the address of a registry."""
    return any(name in (options or {}) for name in (SUBJECT, ADDRESS))


def function_options(function: str, options: Mapping[str, str], evolution: Evolution) -> FunctionOptions:
    """What these options of a function ask for; `evolution` is what its users expect where none says so.

    Raises ConfigError, naming the option: none is passed over in silence.
    """
    known = {SUBJECT, ADDRESS, NAME, EVOLUTION, AVRO_EVOLUTION, MODE, ENGINE}
    client = {name.removeprefix(PREFIX): value for name, value in options.items() if name.startswith(PREFIX)}
    for name, value in options.items():
        if name not in known and not name.startswith(PREFIX):
            _check_spark_option(function, name, value)
    for name in (SUBJECT, ADDRESS):
        if not options.get(name):
            raise ConfigError(f"{function}: {name} is missing; a registry needs its address and a subject")
    mode, engine = location_options({name: options[name] for name in (MODE, ENGINE) if name in options})
    wanted = options.get(EVOLUTION, options.get(AVRO_EVOLUTION, evolution))
    return FunctionOptions(
        subject=options[SUBJECT],
        registry=registry_options(options[ADDRESS], client),
        message=options.get(NAME),
        evolution=cast("Evolution", _one_of(EVOLUTION, wanted, ("restart", "none"))),
        mode=mode,
        engine=engine,
    )


def location_options(options: Mapping[str, str]) -> tuple[Mode, Engine]:
    """The two options that every way has. Raises ConfigError for a third one."""
    unknown = sorted(set(options) - {MODE, ENGINE})
    if unknown:
        raise ConfigError(f"option {unknown[0]!r} is not known here; there are: {MODE}, {ENGINE}")
    mode = _one_of(MODE, options.get(MODE, "FAILFAST").upper(), ("FAILFAST", "PERMISSIVE"))
    engine = _one_of(ENGINE, options.get(ENGINE, "auto"), ("auto", "spark", "python"))
    return cast("Mode", mode), cast("Engine", engine)


def _one_of(name: str, value: str, allowed: tuple[str, ...]) -> str:
    if value not in allowed:
        raise ConfigError(f"{name} is {value!r}; it must be {' or '.join(allowed)}")
    return value


def _check_spark_option(function: str, name: str, value: str) -> None:
    anyway = _ANYWAY.get(name.lower())
    if anyway is None:
        raise ConfigError(f"{function}: option {name!r} is not known together with a registry; take it away")
    if str(value).lower() != anyway:
        raise ConfigError(
            f"{function}: with a registry the types are fixed, as if {name} were {anyway}; take the option away, or give "
            "the schema yourself: then Spark's own function is called, with all its options"
        )
