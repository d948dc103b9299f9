"""The settings' group on lineage: where events of OpenLineage's say what each run reads and writes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated
from urllib.parse import urlsplit

from pydantic import Field, PlainSerializer, field_validator

from distributary.values import (
    MASK,
    EmptyIsNone,
    Group,
    Name,
    OptionalFile,
    PositiveSeconds,
    Seconds,
    Secret,
    Wrong,
)


def _without_query(endpoint: str) -> str:
    path, has_query, _ = endpoint.partition("?")
    return f"{path}?{MASK}" if has_query else path


class Lineage(Group):
    """Where data catalogues hear of runs, as OpenLineage's events. It takes `distributary[lineage]` on the driver."""

    file: OptionalFile = None
    """A file that gets a line of JSON for each event; lines are added to what is there. This or `url`."""
    url: Annotated[str | None, EmptyIsNone] = None
    """The address of what listens, such as `http://marquez:5000`. This or `file`."""
    endpoint: Annotated[Name, Field(repr=False), PlainSerializer(_without_query)] = "api/v1/lineage"
    """The path at that address that takes events."""
    token: Secret = None
    """A bearer token for it; only through `${VAR}`."""
    namespace: Name = "distributary"
    """The namespace of the jobs: the pipeline's own is called as the pipeline is, and that of a derived table `<name>.<table>`."""
    every_seconds: Annotated[Seconds, Field(ge=1, le=86_400)] = 60.0
    """How often, at most, a run tells that it goes on; where tables came or a schema evolved it does behind the next batch."""
    timeout_seconds: PositiveSeconds = 5.0
    """How long an answer is waited for, and at the end of a run all events that are not told yet. Batches never wait for it."""

    @field_validator("url")
    @classmethod
    def _plain(cls, url: str | None) -> str | None:
        if url is None:
            return None
        # Nothing of a refused one is quoted, as it may hold a secret.
        if "@" in url:
            raise ValueError("it gets logged: take user and password out of it, and write lineage.token")
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
            raise ValueError(
                "it is no http or https address, or has a query; write for example http://127.0.0.1:5000"
            )
        return url.rstrip("/")

    def wrong(self) -> Iterator[Wrong]:
        """What does not go together."""
        if (self.file is None) == (self.url is None):
            yield (), "write file or url, one of both"
        if self.token is not None and self.url is None:
            yield ("token",), "a file takes no token; leave it out"
