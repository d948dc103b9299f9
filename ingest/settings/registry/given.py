"""What settings say of the schema registry, and of the wire format that goes with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from distributary.codecs.base import IN_GLUE
from distributary.ingest.settings.groups import Decode
from distributary.ingest.settings.places import OptionalPlace
from distributary.registry.confluent.options import Address, Dialect, Login, RegistryAccess, Tls
from distributary.registry.glue.options import GlueAccess
from distributary.values import Name, Wrong

# How a registry is reached that speaks Confluent's API, and what it may have lost.
_CONFLUENTS_OWN = {*Address.model_fields, *Login.model_fields, *Tls.model_fields, *Dialect.model_fields}


class Registry(RegistryAccess):
    """The schema registry, and how long its answers are believed."""

    type: Literal["confluent", "glue"] = "confluent"
    """What it speaks: `confluent`, Confluent's HTTP API, at `url`; `glue`, the AWS Glue Schema Registry, in whose wire format the records are then. That takes `distributary[aws]` on the driver, and `decode.format` protobuf, avro or jsonschema."""
    glue: GlueAccess = GlueAccess()
    """Which of Glue's registries it is, with `type: glue`."""
    subjects: tuple[Name, ...] = ()
    """The subjects whose versions are watched; by default `<topic>-value` of each topic. With `type: glue` they are names of schemas, by default those of the topics."""
    cache: OptionalPlace = None
    """Where every answer is kept, so that pipelines start and run while the registry is down; several may share it. A path, or a URL as for `sink.root`."""
    max_unknown_ids: Annotated[int, Field(ge=0)] = 100
    """How many distinct unknown ids are asked for in one batch; records with further ones go to quarantine."""

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if self.type == "glue":
            given = {
                name
                for name in _CONFLUENTS_OWN
                if getattr(self, name) != type(self).model_fields[name].default
            }
            for name in sorted(given):
                yield (
                    (name,),
                    "it is for a registry that speaks Confluent's API; leave it out, registry.glue says which of Glue's",
                )
        elif self.glue != GlueAccess():
            yield ("glue",), "it is for Glue's registry; write type: glue, or leave it out"
        # In a file a password that is not there is one that the environment lacks.
        if self.user is not None and self.password is None:
            yield ("user",), "a user needs a password; write password: ${REGISTRY_PASSWORD}"
        yield from super().wrong()


def with_wire(given: Mapping[str, Any]) -> Mapping[str, Any]:
    """The settings with how records name their schema, where they do not say it."""
    registry, decode = given.get("registry"), given.get("decode") or {}
    kind = registry.get("type") if isinstance(registry, Mapping) else getattr(registry, "type", None)
    if kind != "glue" or not isinstance(decode, Mapping) or decode.get("wire") is not None:
        return given
    return {**given, "decode": {**decode, "wire": kind}}


def wrong_in_glue(registry: Registry, decode: Decode) -> Iterator[Wrong]:
    """What does not go with Glue's registry and wire format."""
    if decode.wire != registry.type:
        why = f"records name their schema as the registry's serializers write, and registry.type is {registry.type}"
        yield ("decode", "wire"), f"{why}; leave it out"
    if decode.wire != "glue":
        return
    if f"glue/{decode.format}" not in IN_GLUE:
        formats = ", ".join(sorted(name.removeprefix("glue/") for name in IN_GLUE))
        yield (
            ("decode", "format"),
            f"in Glue's wire format records of {formats} are decoded; write one of these",
        )
    if decode.engine == "spark":
        why = "Spark's functions know nothing of Glue's compression; write engine: arrow, or leave it out"
        yield ("decode", "engine"), why
    if decode.key == "auto":
        yield ("decode", "key"), "keys in Glue's wire format are not decoded; write text, or leave it out"
