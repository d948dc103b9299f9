"""By what subjects a pipeline finds the versions of its schemas."""

from __future__ import annotations

from distributary.codecs.base import load_codec
from distributary.ingest.settings.groups import Decode, Source
from distributary.ingest.settings.patterns import is_pattern
from distributary.ingest.settings.registry.given import Registry


def value_subjects(source: Source, registry: Registry, decode: Decode) -> tuple[str, ...]:
    """The registry's subjects to watch: those given, or those that serializers choose for topics that are named; none where no record names its schema."""
    if not load_codec(decode.codec).registered:
        return ()
    # Glue's serializers register under a topic's own name.
    behind = "" if registry.type == "glue" else "-value"
    return registry.subjects or tuple(f"{topic}{behind}" for topic in source.topics if not is_pattern(topic))


def key_subjects(source: Source) -> tuple[str, ...]:
    """The subjects of the topics' keys; what is registered elsewhere is asked for when it is met."""
    return tuple(f"{topic}-key" for topic in source.topics if not is_pattern(topic))


def inferred_subject(pipeline: str, decode: Decode) -> str | None:
    """What the versions of a pipeline's inferred schema are called by; None where there is none. No topic makes such a subject."""
    return None if load_codec(decode.codec).capabilities.growing is None else f"inferred:{pipeline}"
