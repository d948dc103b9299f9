"""What settings say of the envelope that records stand in."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, Discriminator, Field, Tag

from distributary.codecs.base import CodecName, Enveloped
from distributary.codecs.envelope.said import POSITION, PREFIX
from distributary.values import Group

TABLE = f"{PREFIX}source_table"
"""By what records are routed where nothing else is said."""

DELETES = f"{PREFIX}op = 'd'"
"""Which records are deletes where nothing else is said."""

Kept: TypeAlias = Literal[
    "op", "before", "ts", "source_ts", "source_db", "source_schema", "source_table", "source_snapshot"
]

SAID = (*(f"{PREFIX}{name}" for name in get_args(Kept)), POSITION)
"""The columns of what an envelope says of a change, be they kept or not."""


class Envelope(Group):
    """The envelope that records stand in, and what becomes of what it says."""

    kind: Literal["debezium"]
    """What the envelope is."""
    keep: Annotated[tuple[Kept, ...], Field(max_length=8)] = ("op",)
    """What becomes a column, called so with `__` before it: `op`, what became of the row; `before`, the row as it was (JSON text where the rows' schema is inferred); `ts`, when the connector took the change; of the source `source_ts`, when it was made there, `source_db`, `source_schema`, `source_table` (or collection), and `source_snapshot`. All but `before` may be named by `route` and by `deletes` without it. `__source_position` is always a column."""
    order: Literal["source", "kafka"] = "source"
    """What `sequence_by` is for rules with `mode: upsert` that do not say it: `source`, the change's position in its source (`__source_position`), and before it with `mode: history` the time there (`__source_ts`, which has to be kept); `kafka`, none, so that the later record in its partition is newer."""
    truncate: Literal["quarantine", "ignore", "stop"] = "quarantine"
    """What becomes of a record that says that a table was emptied, which empties none here: it goes to `quarantine`, is left out and counted (`ignore`), or has the run `stop`."""

    def around(self, format_: str) -> Enveloped:
        """The codec of records of this format."""
        return Enveloped(format_, self.kind, tuple(dict.fromkeys(self.keep)), self.truncate)


def _known_kind(given: Any) -> Any:
    if isinstance(given, str) and given != "debezium":
        raise ValueError(f"no envelope is called {given}; write debezium, or leave it out")
    return given


GivenEnvelope: TypeAlias = Annotated[
    Annotated[Literal["debezium"], Tag("text")] | Annotated[Envelope, Tag("rule")],
    Discriminator(lambda value: "rule" if isinstance(value, Mapping | Envelope) else "text"),
    BeforeValidator(_known_kind),
]


def envelope_of(given: str | Envelope | None) -> Envelope | None:
    """What is said of the envelope, if there is one."""
    return Envelope(kind="debezium") if isinstance(given, str) else given


def codec_name(format_: str, given: str | Envelope | None) -> CodecName:
    """What the codec is loaded by."""
    envelope = envelope_of(given)
    return format_ if envelope is None else envelope.around(format_)
