"""What became of a record type from one schema to another."""

from __future__ import annotations

from dataclasses import dataclass

from distributary.codecs.base import Codec, load_codec
from distributary.codecs.changes.classify import SchemaChange, classify
from distributary.errors import BadSchema
from distributary.registry.base import Schema

# Whatever a registry holds, by the codec of its type.
ANY_CODEC = "auto"


@dataclass(frozen=True, slots=True)
class Changes:
    """What became of a record type.

    told      the changes; None where that is not known
    why_none  why it is not, such as a schema that no codec here reads
    """

    told: tuple[SchemaChange, ...] | None
    why_none: str | None = None


def changes_between(before: Schema | None, after: Schema, codec: Codec | None = None) -> Changes:
    """What one schema says of its records otherwise than another; nothing of the first schema of all.

    `codec` is the one for both where a registry does not tell.
    """
    codec = load_codec(ANY_CODEC) if codec is None else codec
    try:
        new = codec.description(after, codec.default_path)
        old = new if before is None else codec.description(before, codec.default_path)
    except BadSchema as error:
        return Changes(None, str(error))
    return Changes(tuple(classify(old, new)))
