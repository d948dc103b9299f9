"""What a pipeline would write where it reads itself, or where it keeps what it made; and what it would send by a client that cannot log in so."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from distributary.errors import ConfigError
from distributary.ingest.columns.safe_names import ENTITY, may_be_an_entity
from distributary.ingest.derivation.beside import ToKafka
from distributary.ingest.derivation.given import Derived
from distributary.ingest.settings.groups import Source
from distributary.ingest.settings.patterns import Pattern, is_pattern
from distributary.ingest.settings.source.librdkafka import librdkafka_options
from distributary.ingest.storage.place import Place
from distributary.values import Wrong

_SERVERS = "bootstrap.servers"

_GLOB = re.compile(r"[*?]")


def wrong_ways_back(
    source: Source,
    root: Place,
    checkpoint: Place,
    derive: Sequence[Derived],
    schemas: Place | None = None,
) -> Iterator[Wrong]:
    """What of the places and topics of a pipeline does not go together, by the settings' names; `schemas` is where inferred ones are kept."""
    writes = {"sink.root": root, "checkpoint": checkpoint}
    made = {} if schemas is None else {"decode.schema_location": schemas}
    if checkpoint.overlaps(root):
        yield ("checkpoint",), "checkpoint and sink.root lie in each other; give each a folder of its own"
    reads = {}
    if source.files is not None:
        yield from _within(("source", "files", "path"), source.files.path, {**writes, **made})
        reads["source.files.path"] = source.files.path
        if source.files.archive_to is not None:
            # What is moved there would lie among tables, where it is nobody's and may be swept.
            yield from _within(("source", "files", "archive_to"), source.files.archive_to, writes)
            reads["source.files.archive_to"] = source.files.archive_to
    for number, rule in enumerate(derive):
        keys = ("derive", number, "sink")
        if rule.sink is not None and rule.sink.files is not None:
            yield from _within((*keys, "files", "path"), rule.sink.files.path, {**writes, **reads})
        if rule.sink is not None and rule.sink.kafka is not None:
            before = [one for one in derive[:number] if _meet(one, rule, rule.sink.kafka, source)]
            yield from _sent((*keys, "kafka"), rule.sink.kafka, source, [one.table for one in before])


def _within(keys: tuple[str | int, ...], place: Place, others: Mapping[str, Place]) -> Iterator[Wrong]:
    for name, other in others.items():
        if place.overlaps(other):
            yield keys, f"it and {name} lie in each other; give each a folder of its own"


def _sent(keys: tuple[str | int, ...], to: ToKafka, source: Source, others: Sequence[str]) -> Iterator[Wrong]:
    """What goes to topics that are read, that other tables' rows go to, or that nobody could write to."""
    options = to.options(source.kafka)
    for other in others:
        why = f"the rows of {other} go there, too, and a key that goes from one of the two tables would go from both"
        yield (*keys, "topic"), f"{why}; choose another topic"
    if options.get(_SERVERS) == source.kafka.get(_SERVERS) and (read := _read(source.topics, to)):
        why = f"source.topics has {read} read, so that what is sent there comes back for ever"
        yield (*keys, "topic"), f"{why}; choose another topic"
    try:
        librdkafka_options(options)
    except ConfigError as error:
        why = f"rows are sent by librdkafka, not by Spark, and it cannot log in so ({error})"
        yield (
            (*keys, "kafka"),
            f"{why}; write options here by which it can, and an empty text for each of source.kafka's that it is to do without",
        )


def _meet(before: Derived, rule: Derived, to: ToKafka, source: Source) -> bool:
    """Whether an earlier rule's rows may go to a topic that this one's go to."""
    own = None if before.sink is None else before.sink.kafka
    if own is not None and ENTITY in to.topic and own.topic == to.topic and _are_apart(before, rule):
        return False
    if own is None or own.options(source.kafka).get(_SERVERS) != to.options(source.kafka).get(_SERVERS):
        return False
    return _is_read(own.topic, to.topic) or _is_read(to.topic, own.topic)


def _are_apart(one: Derived, other: Derived) -> bool:
    """Whether no entity is of both rules, as far as that can be told."""
    patterns = Pattern(one.match, folds=True), Pattern(other.match, folds=True)
    for exact, pattern in (patterns, reversed(patterns)):
        if exact.is_exact:
            return not pattern.fits(exact.text)
    begins = [_GLOB.split(pattern.text)[0].casefold() for pattern in patterns]
    return not any(pattern.is_regex for pattern in patterns) and not (
        begins[0].startswith(begins[1]) or begins[1].startswith(begins[0])
    )


def _read(topics: Collection[str], to: ToKafka) -> str:
    """The topic, or the pattern, by which what is sent is read; empty where there is none."""
    return next((one for one in topics if _is_read(one, to.topic)), "")


def _is_read(topic: str, sent: str) -> bool:
    if is_pattern(topic):
        # Of whose names it fits nobody knows all: one like others stands for them.
        return Pattern(topic, folds=False).fits(sent.replace(ENTITY, "x"))
    return topic == sent or (ENTITY in sent and may_be_an_entity(sent, topic))
