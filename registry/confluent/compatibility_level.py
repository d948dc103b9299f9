"""The compatibility level set to NONE for a while, for a schema that is registered although it breaks its readers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

from distributary.errors import RegistryUnavailable, SchemaNotFound
from distributary.registry.confluent.catalogue import Catalogue
from distributary.registry.confluent.connection import Connection

NONE = "NONE"


@contextmanager
def subject_at_none(connection: Connection, subject: str) -> Iterator[None]:
    """Within the `with` block the registry takes any schema for this subject; afterwards its level is as it was."""
    path = f"config/{quote(subject, safe='')}"
    before = _own_level(connection, subject, path)
    connection.put(f"level {NONE} for subject {subject!r}", path, {"compatibility": NONE})
    try:
        yield
    finally:
        what = f"the level of subject {subject!r} as it was"
        if before is None:
            connection.delete(what, path)
        else:
            connection.put(what, path, {"compatibility": before})


@contextmanager
def registry_at_none(connection: Connection, subject: str) -> Iterator[None]:
    """As above, and the registry's own level is NONE too, which every subject has that is given no other.

    Apicurio knows no other way: to it a subject at NONE is one without a level of its own.
    """
    before = Catalogue.said_level(connection.get("the registry's compatibility level", "config"))
    if before is None:
        raise RegistryUnavailable(f"the registry at {connection.where} does not tell its compatibility level")
    with subject_at_none(connection, subject):
        connection.put(f"the registry's level {NONE}", "config", {"compatibility": NONE})
        try:
            yield
        finally:
            connection.put("the registry's level as it was", "config", {"compatibility": before})


def _own_level(connection: Connection, subject: str, path: str) -> str | None:
    """The level that was set for this subject and no other; None where there is none."""
    try:
        own = Catalogue.said_level(connection.get(f"the level of subject {subject!r}", path))
    except SchemaNotFound:
        return None
    # Apicurio calls it NONE, which without one of its own would not be what counts.
    return None if own == NONE and Catalogue(connection).level(subject) != NONE else own
