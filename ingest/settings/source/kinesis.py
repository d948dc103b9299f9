"""A Kinesis stream as a source, as users write it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field

from distributary.values import EmptyIsNone, Group, Wrong

_NAME = r"[a-zA-Z0-9_.-]{1,128}"

_Text = Annotated[str | None, EmptyIsNone]


def _web_address(endpoint: str | None) -> str | None:
    if endpoint is None:
        return None
    # Nothing of a refused one is quoted, as it may hold a secret.
    parts = urlsplit(endpoint)
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in endpoint or parts.query:
        raise ValueError(
            "it is no http or https address, or has a user or a query; write for example https://kinesis.example.com"
        )
    return endpoint.rstrip("/")


class KinesisStream(Group):
    """A stream of Amazon Kinesis Data Streams; who reads it is what AWS's own tools go by, unless a profile or a role is named."""

    stream: Annotated[str, Field(pattern=rf"^(arn:[a-z-]+:kinesis:[a-z0-9-]+:\d+:stream/)?{_NAME}$")]
    """The stream: its name, or its ARN where it is another account's. A stream is a topic, called as it is."""
    region: _Text = None
    """The region that it is in; by default what `AWS_DEFAULT_REGION` or the profile says."""
    profile: _Text = None
    """The profile of AWS's own files whose keys are taken; by default those of the environment, of the machine or of its role, as AWS's tools find them."""
    role_arn: _Text = None
    """A role to take on, by the keys that were found; it is taken on anew before it ends."""
    role_session_name: str = "distributary"
    """What the role's session is called in AWS's logs."""
    endpoint: Annotated[_Text, AfterValidator(_web_address)] = None
    """Another address than AWS's own, such as that of a private endpoint."""

    @property
    def topic(self) -> str:
        """What the stream is called as a topic."""
        return self.stream.rpartition("/")[2]

    @property
    def named(self) -> dict[str, str]:
        """How questions name it."""
        return {"StreamARN" if ":" in self.stream else "StreamName": self.stream}

    @property
    def where(self) -> str:
        """Where it is: its region, or the address that stands for that."""
        region = self.stream.split(":")[3] if ":" in self.stream else self.region
        place = urlsplit(self.endpoint).netloc if self.endpoint else region
        return f"kinesis:{place or 'default'}"


def wrong_bounds_of_streams(source: Any) -> Iterator[Wrong]:
    """What is said of a reading's bounds that a stream does not have."""
    for name in ("starting_offsets", "until"):
        if isinstance(getattr(source, name), dict):
            why = "offsets of a stream are numbers given as it is read, so nobody knows them before"
            yield (
                (name,),
                f"{why}; write a point in time" + (", earliest or latest" if name != "until" else ""),
            )
