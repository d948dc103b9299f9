"""What a registry holds, for people to look at: subjects, their latest versions, compatibility levels and checks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

from distributary.errors import NotOffered, RegistryUnavailable, SchemaNotFound
from distributary.registry.base import Reference, SchemaType
from distributary.registry.confluent.connection import Connection

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Latest:
    """The newest version of a subject. `type` is the registry's word, also where nobody here reads such schemas."""

    subject: str
    version: int
    id: int
    type: str


@dataclass(frozen=True, slots=True)
class Compatibility:
    """Whether a schema may become the subject's next version, and what the registry says against it.

    `against` tells what it was held against: all versions that the level asks for, or the latest only.
    """

    compatible: bool
    messages: tuple[str, ...]
    against: str


class Catalogue:
    """One question a call, nothing kept, no patience: for commands, not for streams.

    Every call may raise RegistryUnavailable, and NotOffered where the registry has no such call.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def subjects(self, deleted: bool = False) -> list[str]:
        """All subjects by name; with `deleted` those too whose versions are all soft-deleted."""
        query = {"deleted": "true"} if deleted else {}
        found = self._is(list, self._connection.get("the list of subjects", "subjects", query))
        return sorted(str(subject) for subject in found)

    def latest(self, subject: str) -> Latest:
        """The newest version that is not deleted. Raises SchemaNotFound."""
        what = f"the latest version of subject {subject!r}"
        found = self._is(dict, self._connection.get(what, f"subjects/{_encoded(subject)}/versions/latest"))
        try:
            kind = str(found.get("schemaType") or "AVRO").upper()
            return Latest(subject, int(found["version"]), int(found["id"]), kind)
        except (KeyError, TypeError, ValueError):
            raise self._odd(what) from None

    def level(self, subject: str) -> str | None:
        """The compatibility level that new versions of a subject are held to; None where the registry has none."""
        what = f"the compatibility level of subject {subject!r}"
        # Some servers ignore `defaultToGlobal` and answer 404 where a subject has no level of its own.
        for path, query in (
            (f"config/{_encoded(subject)}", {"defaultToGlobal": "true"}),
            ("config", {}),
        ):
            try:
                found = self._connection.get(what, path, query)
            except SchemaNotFound:
                continue
            level = self.said_level(found)
            if level is not None:
                return level
        return None

    @staticmethod
    def said_level(found: object) -> str | None:
        """The level that an answer tells: registries call it by either of two names."""
        level = (
            found.get("compatibilityLevel") or found.get("compatibility") if isinstance(found, dict) else None
        )
        return level if isinstance(level, str) else None

    def check(
        self, subject: str, text: str, schema_type: SchemaType, references: Sequence[Reference] = ()
    ) -> Compatibility:
        """Whether a schema may become the next version of a subject that has one.

        Raises BadSchema for what is no schema, NotOffered where the registry cannot tell.
        """
        body = {
            "schema": text,
            "schemaType": schema_type,
            "references": [
                {"name": one.name, "subject": one.subject, "version": one.version} for one in references
            ],
        }
        what = f"a compatibility check for subject {subject!r}"
        versions = f"compatibility/subjects/{_encoded(subject)}/versions"
        try:
            return self._verdict(
                what, f"{versions}?verbose=true", body, "every version that its level asks for"
            )
        except NotOffered:
            return self._verdict(what, f"{versions}/latest?verbose=true", body, "its latest version")

    def _verdict(self, what: str, path: str, body: Mapping[str, object], against: str) -> Compatibility:
        found = self._is(dict, self._connection.post(what, path, body))
        compatible = found.get("is_compatible", found.get("isCompatible"))
        if not isinstance(compatible, bool):
            raise self._odd(what)
        return Compatibility(compatible, _messages(found.get("messages") or found.get("message")), against)

    def _is(self, kind: type[T], found: Any) -> T:
        if not isinstance(found, kind):
            raise self._odd("what it was asked for")
        return found

    def _odd(self, what: str) -> RegistryUnavailable:
        return RegistryUnavailable(
            f"the registry at {self._connection.where} gave an answer for {what} that lacks what it should say; "
            "check registry.url"
        )


def _messages(found: object) -> tuple[str, ...]:
    """What is said against a schema: registries send a list, one text, or nothing."""
    parts = found if isinstance(found, list) else [found] if found else []
    return tuple(" ".join(str(part).split()) for part in parts)


def _encoded(subject: str) -> str:
    return quote(subject, safe="")
